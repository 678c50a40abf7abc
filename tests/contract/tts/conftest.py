"""A fake voice, served; no request waits."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import pytest

from e3rg.tts.v1 import tts_pb2_grpc
from emotions import Wheel
from tests.fake_voice import FakeVoice
from tests.model_services import serving_tts

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub


@pytest.fixture
def voice() -> FakeVoice:
    return FakeVoice()


@pytest.fixture
async def stub(voice: FakeVoice, wheel: Wheel) -> AsyncIterator["Stub"]:
    async with serving_tts(voice, wheel, waiting_max=0) as served:
        yield cast("Stub", tts_pb2_grpc.TtsServiceStub(served.channel))
