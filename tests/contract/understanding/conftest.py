"""A panel of fakes, and the service that it votes in."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.deployment import Cast
from tests.understanding_service import Panel

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub


@pytest.fixture
def cast() -> Cast:
    return Cast(vote_deadline_s=20)


@pytest.fixture
async def panel(cast: Cast) -> AsyncIterator[Panel]:
    panel = Panel(cast)
    yield panel
    await panel.stop_all()


@pytest.fixture
async def stub(panel: Panel) -> "Stub":
    return await panel.start()
