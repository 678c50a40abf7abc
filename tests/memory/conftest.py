"""The database server and the S3 servers that the memory's tests share; each xdist worker has its own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from services.memory.migrate import migrate
from tests.support import minio
from tests.support.minio import MinIo
from tests.support.object_store import ObjectStore
from tests.support.postgres import MountError, Postgres, Urls
from tests.support.seaweedfs import SeaweedFs
from tests.support.stacks import Stack


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL 18."""
    # Not pytest's folder: each new session closes it to other users, and root's server runs as another one.
    with TemporaryDirectory(prefix="test-postgres-") as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[Urls]:
    """An empty database; the server runs again after a test that killed it and failed."""
    if not postgres.running:
        postgres.start()
    urls = await postgres.database()
    yield urls
    if not postgres.running:
        postgres.start()
    await postgres.drop(urls)


@pytest.fixture
async def small_database(postgres: Postgres) -> AsyncIterator[Urls]:
    """An empty database on a disk of 24 MiB."""
    try:
        async with postgres.small_disk_database() as urls:
            yield urls
    except MountError as error:
        pytest.skip(f"the test needs to mount a tmpfs: {error}")


@pytest.fixture(scope="session")
def object_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ObjectStore]]:
    """Running S3 servers by name: `seaweedfs`, and `minio` where E3RG_TEST_MINIO names its program."""
    stores: dict[str, ObjectStore] = {"seaweedfs": SeaweedFs(tmp_path_factory.mktemp("seaweedfs"))}
    if program := minio.program():
        stores["minio"] = MinIo(tmp_path_factory.mktemp("minio"), program)
    with ExitStack() as stack:
        for store in stores.values():
            stack.callback(store.kill)
            store.start(wait=False)
        for store in stores.values():
            store.wait()
        yield stores


@pytest.fixture(params=["seaweedfs", "minio"])
def object_store(request: pytest.FixtureRequest, object_stores: dict[str, ObjectStore]) -> ObjectStore:
    """Each running S3 server."""
    if request.param not in object_stores:
        pytest.skip(f"{minio.VARIABLE} names no program")
    store = object_stores[request.param]
    if not store.running:
        store.start()
    return store


@pytest.fixture
def s3(object_stores: dict[str, ObjectStore]) -> ObjectStore:
    """One running S3 server: MinIO where it is, else SeaweedFS."""
    store = object_stores.get("minio") or object_stores["seaweedfs"]
    if not store.running:
        store.start()
    return store


@pytest.fixture
def embedded(tmp_path: Path) -> Stack:
    """SQLite and a folder."""
    return Stack("sqlite-folder", tmp_path / "memory")


@pytest.fixture
async def clustered(database: Urls, s3: ObjectStore, tmp_path: Path) -> Stack:
    """PostgreSQL and S3, migrated."""
    stack = Stack("postgres-s3", tmp_path / "memory", database, s3.bucket())
    await migrate(stack.settings())
    return stack


@pytest.fixture(params=["embedded", "clustered"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """Each of the two stacks."""
    found: Stack = request.getfixturevalue(request.param)
    return found
