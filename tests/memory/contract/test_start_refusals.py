"""Starts that are refused: the program ends, or stays red, says what to do, and touches nothing."""

import shutil
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import asyncpg
import grpc
import pytest
from minio.commonconfig import ENABLED
from minio.versioningconfig import SUSPENDED, VersioningConfig

from services.common.errors import FailedPrecondition, NotReady
from services.memory.layout_2 import import_store
from services.memory.migrate import head, migrate
from services.memory.s3 import S3Blobs
from tests.serving import refused
from tests.support.memory import Log, green, process_of, program, serving
from tests.support.object_store import ObjectStore
from tests.support.postgres import Urls
from tests.support.stacks import Stack, client_of

STORE = Path(__file__).parents[1] / "layout_2" / "store"
IMPORT = "`python -m services.memory import-layout-2 --from FOLDER|BUCKET`"
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("arguments", [[], ["migrate"]])
async def test_a_folder_of_an_earlier_version_is_refused_and_not_touched(tmp_path: Path, arguments: list[str]) -> None:
    folder = tmp_path / "memory"
    shutil.copytree(STORE, folder)
    before = content_of(folder)
    ended = await program({"E3RG_MEMORY_FOLDER": str(folder)}, *arguments)
    assert ended.status == 1
    text = f"{folder} holds a store of an earlier version; nothing in it was touched. Choose another E3RG_MEMORY_FOLDER"
    assert ended.err.splitlines()[-1] == f"memory cannot start: {text} and bring it in with {IMPORT}"
    assert content_of(folder) == before


async def test_a_bucket_of_an_earlier_version_is_refused_and_not_touched(clustered: Stack) -> None:
    assert clustered.bucket
    client = client_of(clustered.bucket)
    client.put_object(clustered.bucket.name, "layout", BytesIO(b'{"version": 2}'), 14)
    ended = await program(clustered.variables)
    assert ended.status == 1
    line = ended.err.splitlines()[-1]
    assert line.startswith(f"memory cannot start: bucket {clustered.bucket.name!r} holds a store of an earlier version")
    assert f"Choose another E3RG_MEMORY_S3_BUCKET and bring it in with {IMPORT}" in line
    assert clustered.objects == ["layout"]


@pytest.mark.parametrize("status", [ENABLED, SUSPENDED])
async def test_a_bucket_that_keeps_versions_is_refused(s3: ObjectStore, tmp_path: Path, status: str) -> None:
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=s3.bucket())
    assert stack.bucket
    client_of(stack.bucket).set_bucket_versioning(stack.bucket.name, VersioningConfig(status))
    ended = await program(stack.variables)
    assert ended.status == 1
    line = ended.err.splitlines()[-1]
    assert line.startswith(f"memory cannot start: bucket {stack.bucket.name!r} keeps versions: erased objects would")
    assert "name a bucket without versioning in E3RG_MEMORY_S3_BUCKET" in line
    assert stack.objects == []


async def test_a_variable_of_an_earlier_version_ends_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    ended = await program({"E3RG_MEMORY_FOLDER": str(folder), "E3RG_MEMORY_BACKEND": "filesystem"})
    assert ended.status == 2
    assert ended.err.startswith("E3RG_MEMORY_BACKEND: it means nothing any more; unset it. ")
    assert IMPORT in ended.err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("role", "why"), [("admin", "is a superuser or bypasses row-level security"), ("migrator", "owns the tables")]
)
async def test_a_role_that_no_policy_binds_is_refused(clustered: Stack, role: str, why: str) -> None:
    assert clustered.urls
    url = getattr(clustered.urls, role)
    ended = await program(clustered.variables | {"E3RG_MEMORY_DATABASE_URL": url})
    assert ended.status == 1
    line = ended.err.splitlines()[-1]
    assert line.startswith("memory cannot start: E3RG_MEMORY_DATABASE_URL: role ")
    assert f"{why}, so tenants would be kept apart by queries only; use a role that owns nothing" in line
    assert url.split(":")[2].partition("@")[0] not in ended.err


async def test_without_a_schema_a_service_is_red_names_the_command_and_gets_green_by_it(
    database: Urls, tmp_path: Path
) -> None:
    stack = Stack("postgres-folder", tmp_path / "memory", database)
    log = Log()
    async with process_of(stack.variables, log=log) as (stubs, _):
        text = (
            f"the database's schema is at revision none, this version needs {head()}; "
            "run `python -m services.memory migrate` with E3RG_MEMORY_MIGRATION_URL"
        )
        assert text in await log.line('"not ready"')
        with refused(UNAVAILABLE, text):
            await stubs.recall()
        assert (await program(stack.variables, "migrate")).status == 0
        await green(stubs)


async def test_a_database_without_vectors_is_told_by_the_migration(database: Urls, tmp_path: Path) -> None:
    connection = await asyncpg.connect(database.admin)
    await connection.execute("DROP EXTENSION vector")
    stack = Stack("postgres-folder", tmp_path / "memory", replace(database, migrator=database.service))
    ended = await program(stack.variables, "migrate")
    assert ended.status == 1
    text = "memory cannot start: the database lacks the extension vector (pgvector), and this role cannot create it"
    assert ended.err.splitlines()[-1].startswith(text)
    assert "have an administrator run CREATE EXTENSION vector in it" in ended.err
    # A role that may create it does.
    await migrate(stack.settings(migration_url=database.admin))
    assert await connection.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 1
    await connection.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"secret_key": "wrong-secret"}, "(SignatureDoesNotMatch): set E3RG_MEMORY_S3_ACCESS_KEY and _SECRET_KEY"),
        ({"access_key": "nobody"}, "(InvalidAccessKeyId): set E3RG_MEMORY_S3_ACCESS_KEY and _SECRET_KEY"),
        ({"name": "no-such-bucket"}, "(NoSuchBucket): make it, or set E3RG_MEMORY_S3_CREATE_BUCKET=true"),
    ],
)
async def test_a_bucket_that_refuses_keeps_a_service_red_and_it_stops_in_peace(
    s3: ObjectStore, tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=replace(s3.bucket(), **changes))
    log = Log()
    async with process_of(stack.variables, log=log) as (stubs, _):
        line = await log.line('"not ready"')
        assert text in line
        assert f"http://{s3.endpoint}" in line
        with refused(UNAVAILABLE, text):
            await stubs.recall()
    assert s3.secret_key not in log.text


async def test_a_bucket_that_the_service_will_make_is_told_as_such(s3: ObjectStore, tmp_path: Path) -> None:
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=replace(s3.bucket(), name="not-made-yet"))
    with pytest.raises(NotReady, match=r"\(NoSuchBucket\): start the service, which makes it"):
        list(S3Blobs(stack.settings(s3_create_bucket=True)).list(""))


@pytest.mark.parametrize("name", ["", "memory"])
async def test_a_folder_without_a_store_of_before_is_not_imported(embedded: Stack, name: str) -> None:
    settings = embedded.settings()
    async with serving(settings) as stubs:
        assert stubs.inside
        with pytest.raises(FailedPrecondition, match=r"--from: .* holds no store of layout 2"):
            await anext(import_store(stubs.inside, str(embedded.folder.parent / name), settings))


async def test_a_bucket_that_lacks_is_made_where_that_is_allowed(s3: ObjectStore, tmp_path: Path) -> None:
    bucket = replace(s3.bucket(), name="made-by-the-memory")
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=bucket)
    async with process_of(stack.variables | {"E3RG_MEMORY_S3_CREATE_BUCKET": "true"}) as (stubs, _):
        await green(stubs)
    assert stack.objects
    client = client_of(bucket)
    for each in client.list_objects(bucket.name, recursive=True):
        client.remove_object(bucket.name, each.object_name or "")
    client.remove_bucket(bucket.name)
