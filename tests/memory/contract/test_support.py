"""The test servers do what the memory's tests rely on."""

import asyncio
from io import BytesIO

import asyncpg
import pytest
import urllib3

from tests.support.object_store import Bucket, ObjectStore
from tests.support.postgres import Postgres, Urls
from tests.support.s3_proxy import LoseResponses, S3Proxy
from tests.support.tcp_proxy import TcpProxy, commit


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def count(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM item"))
    finally:
        await connection.close()


async def test_the_service_role_reads_vectors_and_owns_nothing(database: Urls) -> None:
    await execute(
        database.migrator,
        "CREATE TABLE item (vector vector(3))",
        "INSERT INTO item VALUES ('[1,2,3]')",
        "GRANT SELECT ON item TO PUBLIC",
    )
    assert await count(database.service) == 1
    for statement in ("DROP TABLE item", "CREATE TABLE other ()", "CREATE TEMP TABLE other ()", "CREATE ROLE other"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await execute(database.service, statement)


async def test_a_killed_server_restarts_with_the_committed_rows(postgres: Postgres, database: Urls) -> None:
    await execute(database.migrator, "CREATE TABLE item (id int)", "INSERT INTO item VALUES (1)")
    open_transaction = await asyncpg.connect(database.migrator)
    await open_transaction.execute("BEGIN; INSERT INTO item VALUES (2)")
    postgres.kill()
    with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError)):
        await open_transaction.execute("COMMIT")
    with pytest.raises(ConnectionRefusedError):
        await asyncpg.connect(database.migrator)
    postgres.restart()
    assert await count(database.migrator) == 1


async def test_a_hanging_server_accepts_connections_and_answers_later(postgres: Postgres, database: Urls) -> None:
    postgres.suspend()
    try:
        with pytest.raises(TimeoutError):
            await asyncpg.connect(database.service, timeout=0.3)
    finally:
        postgres.resume()
    await execute(database.service, "SELECT 1")


@pytest.mark.parametrize("served", [True, False])
async def test_the_proxy_loses_a_commit_or_its_answer(postgres: Postgres, database: Urls, served: bool) -> None:
    await execute(database.migrator, "CREATE TABLE item (note text)")
    async with TcpProxy(postgres.host, postgres.port) as proxy:
        connection = await asyncpg.connect(proxy.url(database.migrator))
        cut = proxy.cut_after(commit) if served else proxy.cut_before(commit)
        with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError)):
            async with connection.transaction():
                await connection.execute("INSERT INTO item VALUES ($1)", "a note that says COMMIT; is no COMMIT")
        await asyncio.wait_for(cut.wait(), 5)
        assert connection.is_closed()
        assert await count(proxy.url(database.migrator)) == served


async def test_the_proxy_refuses_pauses_and_delays(postgres: Postgres, database: Urls) -> None:
    loop = asyncio.get_running_loop()
    async with TcpProxy(postgres.host, postgres.port) as proxy:
        url = proxy.url(database.service)
        connection = await asyncpg.connect(url)
        proxy.delay_s, start_s = 0.2, loop.time()
        await connection.execute("SELECT 1")
        assert loop.time() - start_s >= 0.2
        proxy.delay_s = 0
        await proxy.refuse()
        with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError, asyncpg.InterfaceError)):
            await connection.execute("SELECT 1")
        with pytest.raises(ConnectionRefusedError):
            await asyncpg.connect(url)
        await proxy.accept()
        proxy.pause()
        with pytest.raises(TimeoutError):
            await asyncpg.connect(url, timeout=0.3)
        proxy.resume()
        await execute(url, "SELECT 1")


async def test_a_full_disk_is_reported_as_such(small_database: Urls) -> None:
    fill = "INSERT INTO item SELECT repeat(md5(i::text), 40) FROM generate_series(1, 500) AS i"
    with pytest.raises(asyncpg.DiskFullError) as error:
        await execute(small_database.migrator, "CREATE TABLE item (note text)", *[fill] * 100)
    assert error.value.sqlstate == "53100"
    assert await count(small_database.migrator) >= 500


def test_an_object_outlives_its_killed_server(object_store: ObjectStore) -> None:
    bucket = object_store.bucket()
    bucket.client().put_object(bucket.name, "folder/object", BytesIO(b"content"), 7)
    object_store.kill()
    object_store.start()
    assert bucket.client().get_object(bucket.name, "folder/object").read() == b"content"


def test_the_proxy_loses_the_response_to_a_stored_object(object_store: ObjectStore) -> None:
    bucket = object_store.bucket()
    proxy = S3Proxy(object_store.port)
    try:
        proxy.responses = LoseResponses("PUT")
        through = Bucket(proxy.endpoint, bucket.access_key, bucket.secret_key, bucket.name).client()
        with pytest.raises(urllib3.exceptions.ProtocolError):
            through.put_object(bucket.name, "object", BytesIO(b"content"), 7)
    finally:
        proxy.close()
    assert bucket.client().stat_object(bucket.name, "object").size == 7
