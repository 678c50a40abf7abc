"""The stores, the served memory and the fake door that the contract's tests share."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from client import command
from services.memory.backends.s3 import S3Backend
from services.memory.store import Store
from tests.fake_door import FakeDoor, Run
from tests.fake_store import FakeStore
from tests.memory_service import Stubs, memory_over
from tests.memory_service import serving as serving_memory
from tests.s3_proxy import S3Proxy
from tests.s3_server import S3Server, open_store, wait_for
from tests.serving import serving


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server, ready."""
    server = S3Server(Path(tmp_path_factory.mktemp("s3")))
    server.start()
    try:
        store = open_store(server.endpoint)
        wait_for(store)
        store.close()
        yield server
    finally:
        server.kill()


@pytest.fixture
def s3_store(s3_server: S3Server) -> Iterator[S3Backend]:
    """An empty store on it."""
    store = open_store(s3_server.endpoint)
    yield store
    store.delete([entry.key for entry in store.list("")])
    store.close()


@pytest.fixture(params=["fake", "s3"])
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store of each kind."""
    return FakeStore() if request.param == "fake" else cast("Store", request.getfixturevalue("s3_store"))


@pytest.fixture
async def stubs(store: Store) -> AsyncIterator[Stubs]:
    """A memory over it, served."""
    async with serving_memory(memory_over(store)) as stubs:
        yield stubs


@pytest.fixture
async def door() -> AsyncIterator[FakeDoor]:
    """A door without a deployment behind it."""
    fake = FakeDoor()
    async with serving("e3rg.orchestrator.v1.OrchestratorService", fake.register) as served:
        fake.address = served.address
        yield fake


@pytest.fixture
def run(door: FakeDoor, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command against the fake door."""

    async def now(*words: str | Path) -> tuple[int, str, str]:
        status = await asyncio.to_thread(command.main, ["--address", door.address, *map(str, words)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return now


@pytest.fixture
def proxy(s3_server: S3Server, s3_store: S3Backend) -> Iterator[S3Proxy]:
    """The way to that server, which can be disturbed; the store on it is empty."""
    proxy = S3Proxy(s3_server.port)
    yield proxy
    proxy.close()
