"""The fake door and the running deployment that the contract's tests share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from typing import cast as typed

import pytest

from client import command
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from tests.deployment import Cast, Deployment
from tests.fake_door import FakeDoor, Run
from tests.fakes import PATIENCE_S
from tests.serving import serving
from tests.turns import Start

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Closes at the end of a test what it holds; the test has its time."""
    async with AsyncExitStack() as stack, asyncio.timeout(2 * PATIENCE_S):
        yield stack


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
