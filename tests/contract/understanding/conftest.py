"""A panel of fakes, and the service that it votes in."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deployment import Cast
from tests.ports import HeldPort
from tests.understanding_service import Panel

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub


@pytest.fixture
def cast() -> Cast:
    return Cast(vote_deadline_s=20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """File of a table of variants."""
    return tmp_path / "variants.json"


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody serves."""
    with HeldPort() as port:
        yield f"127.0.0.1:{port.number}"


@pytest.fixture
async def panel(cast: Cast) -> AsyncIterator[Panel]:
    panel = Panel(cast)
    yield panel
    await panel.stop_all()


@pytest.fixture
async def stub(panel: Panel) -> "Stub":
    return await panel.start()
