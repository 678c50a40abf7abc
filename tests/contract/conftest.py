"""The stores, the served memory, the fake door and the running deployment that the contract's tests share."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from typing import cast as typed

import pytest

from client import command
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.memory.backends.s3 import S3Backend
from services.memory.store import Store
from tests.deployment import Cast, Deployment
from tests.fake_door import FakeDoor, Run
from tests.fake_store import FakeStore
from tests.memory_service import Stubs, memory_over
from tests.memory_service import serving as serving_memory
from tests.s3_proxy import S3Proxy
from tests.s3_server import S3Server, open_store, wait_for
from tests.serving import serving
from tests.turns import Start

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server, ready."""
    with S3Server(Path(tmp_path_factory.mktemp("s3"))) as server:
        server.start()
        store = open_store(server.endpoint)
        wait_for(store)
        store.close()
        yield server


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
    return FakeStore() if request.param == "fake" else typed("Store", request.getfixturevalue("s3_store"))


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


@pytest.fixture
def cast() -> Cast:
    """Whom a deployment runs with; the memory knows Ada."""
    cast = Cast()
    cast.add_identity("ada")
    return cast


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    """All services, once they are started."""
    running = Deployment()
    yield running
    await running.stop_all()


@pytest.fixture
def start(cast: Cast, deployment: Deployment) -> Start:
    """Starts the deployment, for tests that change the cast before."""

    async def now() -> "Stub":
        await deployment.start(cast)
        channel = deployment.served["orchestrator"].channel
        return typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))

    return now


@pytest.fixture
async def stub(start: Start) -> "Stub":
    """The door of a running deployment."""
    return await start()
