"""Promises of `orchestrator.proto` for messages in other languages than English."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.mllm.domain import Transcript
from services.understanding.languages import Languages
from tests.deployment import Cast
from tests.turns import Start, header, lost, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

PORTUGUESE = "Perdi o meu emprego hoje e não sei o que fazer."
REPLY = " ".join(Languages().reply("pt"))


@pytest.fixture
def cast(cast: Cast) -> Cast:
    """The default writer's terms."""
    cast.lead.card = replace(cast.lead.card, writes=("en",))
    return cast


async def test_a_reply_that_the_voice_cannot_speak_is_text_and_says_so(stub: "Stub", cast: Cast) -> None:
    turn = await respond(stub, header(PORTUGUESE))
    assert turn.done.text == REPLY
    assert (turn.audio_s, turn.video, cast.voice.asked) == (0, [], [])
    assert lost(turn) == [("speech", "audio and video"), ("reply", "the model's own words")]
    assert turn.degraded[0].reason == ("language: the reply is in 'pt', which the voice does not speak; it speaks: en")
    assert turn.degraded[1].reason == "language: the writer does not write in the user's language"


async def test_text_alone_loses_no_voice(stub: "Stub") -> None:
    turn = await respond(stub, header(PORTUGUESE, output=pb.OUTPUT_TEXT))
    assert lost(turn) == [("reply", "the model's own words")]


async def test_a_voice_of_the_language_speaks_it(start: Start, cast: Cast) -> None:
    cast.voice.languages = ("en", "pt")
    turn = await respond(await start(), header(PORTUGUESE))
    assert lost(turn) == [("reply", "the model's own words")]
    assert turn.audio_s > 0


async def test_speech_that_was_not_understood_is_answered_aloud(stub: "Stub", cast: Cast) -> None:
    cast.lead.transcript = Transcript("(speech in another language)", "und", 0.1)
    turn = await respond(stub, header("I lost my job."))
    assert turn.audio_s > 0
