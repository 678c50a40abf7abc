"""A lead and a voter, each served; the lead holds one request that waits."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from emotions import Wheel
from services.mllm.domain import Level
from tests.fake_voters import FakeLead, FakeVoter
from tests.mllm_service import stub_of
from tests.model_services import serving_mllm

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub


@pytest.fixture
def lead() -> FakeLead:
    return FakeLead({"sad": 0.5, "lonely": 0.3, "joyful": 0.2})


@pytest.fixture
async def stub(lead: FakeLead, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_mllm("fake", lead, wheel, waiting_max=1) as served:
        yield stub_of(served)


@pytest.fixture
def voter() -> FakeVoter:
    return FakeVoter({"sad": 0.7, "happy": 0.3}, Level.CLASS)


@pytest.fixture
async def voter_stub(voter: FakeVoter, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_mllm("face", voter, wheel) as served:
        yield stub_of(served)
