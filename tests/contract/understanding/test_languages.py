"""Promises of `understanding.proto` for messages in other languages than English."""

from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.errors import BackendFailed
from services.mllm.domain import Transcript
from services.understanding.languages import Languages
from tests.deployment import Cast
from tests.fakes import fail
from tests.serving import refused
from tests.understanding_service import AUDIO, Panel, audio, context, emotion, header, understand, understand_text

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

PORTUGUESE = "Perdi o meu emprego hoje e não sei o que fazer."
GERMAN_DANGER = "Ich will mich umbringen."
LANGUAGES = Languages()


@pytest.fixture
def cast(cast: Cast) -> Cast:
    """The default writer's terms."""
    cast.lead.card = replace(cast.lead.card, writes=("en",))
    return cast


async def write(stub: "Stub", text: str, language: str, **fields: object) -> tuple[list[str], mllm.ReplyRecord]:
    order = mllm.WriteReplyRequest(text=text, user_emotion=emotion("sad"), reply_emotion=emotion("caring"))
    request = pb.WriteReplyRequest(reply=order, language=language, **fields)  # type: ignore[arg-type]
    parts = [part async for part in stub.WriteReply(request)]
    return [part.sentence for part in parts[:-1]], parts[-1].record


async def test_the_language_of_a_message_is_told(stub: "Stub") -> None:
    assert (await understand_text(stub, PORTUGUESE)).language == "pt"
    assert (await understand_text(stub, "Сегодня я потерял работу.")).language == "ru"
    assert (await understand_text(stub, "I lost my job today.")).language == ""
    assert (await understand_text(stub, "Ciao!")).language == ""


async def test_a_language_that_the_writer_does_not_write_gets_a_stored_reply_in_it(stub: "Stub", cast: Cast) -> None:
    sentences, record = await write(stub, PORTUGUESE, "pt")
    assert sentences == LANGUAGES.reply("pt")
    assert (record.degraded, cast.lead.orders) == ("language", [])


async def test_a_writer_of_any_language_is_asked(panel: Panel) -> None:
    panel.cast.lead.card = replace(panel.cast.lead.card, writes=())
    sentences, _ = await write(await panel.start(), PORTUGUESE, "pt")
    assert tuple(sentences) == panel.cast.lead.sentences


async def test_a_danger_in_plain_german_is_answered_in_german(stub: "Stub", cast: Cast) -> None:
    answered = await understand_text(stub, GERMAN_DANGER)
    assert (answered.risk.kind, answered.language) == (common.RISK_KIND_SUICIDE, "de")
    sentences, record = await write(stub, GERMAN_DANGER, "de", risk=answered.risk, risk_is_new=True)
    assert "den Notruf" in " ".join(sentences)
    assert (record.degraded, cast.lead.orders) == ("risk", [])


async def test_a_danger_in_a_language_without_words_of_care_gets_the_reply_that_names_help(stub: "Stub") -> None:
    risk = common.Risk(
        kind=common.RISK_KIND_SUICIDE,
        severity=common.RISK_SEVERITY_HIGH,
        confidence=1,
        source=common.RISK_SOURCE_CLASSIFIER,
    )
    sentences, record = await write(stub, PORTUGUESE, "pt", risk=risk, risk_is_new=True)
    assert (sentences, record.degraded) == (LANGUAGES.reply("pt"), "risk")


async def test_another_language_is_answered_also_when_the_panel_cannot_decide(panel: Panel) -> None:
    for voter in panel.cast.voters.values():
        voter.before = fail(BackendFailed("out of paper"))
    stub = await panel.start()
    answered = await understand_text(stub, PORTUGUESE)
    assert "0 of the 1 votes needed" in answered.undecided
    assert (answered.language, answered.emotion.label) == ("pt", "neutral")
    with refused(grpc.StatusCode.UNAVAILABLE, "0 of the 1 votes needed"):
        await understand_text(stub, "I lost my job today.")


@pytest.mark.parametrize(
    ("heard", "language"),
    [
        (Transcript("Hoje perdi o emprego.", "pt", 0.1), "pt"),
        (Transcript("(speech in another language)", "und", 0.1), "und"),
        (Transcript("Carmen sub ilice", "la", 0.1), "und"),
        (Transcript("I lost my job today.", "en", 0.1), ""),
    ],
)
async def test_the_language_of_speech_is_what_was_heard(
    stub: "Stub", cast: Cast, heard: Transcript, language: str
) -> None:
    cast.lead.transcript = heard
    assert (await understand(stub, header(audio=len(AUDIO)), audio(AUDIO), context())).language == language


async def test_speech_that_was_not_understood_is_answered_in_english(stub: "Stub", cast: Cast) -> None:
    sentences, record = await write(stub, "(speech in another language)", "und")
    assert "English" in sentences[0]
    assert (record.degraded, cast.lead.orders) == ("language", [])
