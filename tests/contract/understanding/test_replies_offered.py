"""Promises of `understanding.proto` for what writers are told of a message: its act, and replies that fit."""

from typing import TYPE_CHECKING

import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.mllm.domain import Act
from tests.deployment import Cast
from tests.support.tones import TONES
from tests.understanding_service import emotion, understand_text

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

TEXT = "My dog has died."


@pytest.fixture
def cast(cast: Cast) -> Cast:
    told = {TEXT: "loss", "The scan is done.": "relief", "Play a song!": "favour", "Since May.": "detail_any"}
    cast.tone_reader.tones = told
    return cast


async def write(stub: "Stub", text: str, *history: common.Utterance) -> mllm.ReplyRecord:
    order = mllm.WriteReplyRequest(
        text=text, user_emotion=emotion("sad"), reply_emotion=emotion("caring"), history=history
    )
    parts = [part async for part in stub.WriteReply(pb.WriteReplyRequest(reply=order))]
    return parts[-1].record


@pytest.mark.parametrize(
    ("text", "tone", "act", "may_restate"),
    [
        (TEXT, "loss", Act.TELLING, False),
        ("The scan is done.", "relief", Act.TELLING, True),
        ("Play a song!", "favour", Act.FAVOUR, False),
        ("Since May.", "detail_any", Act.ANSWER, False),
        ("It is what it is.", "any", Act.TELLING, False),
    ],
)
async def test_a_writer_is_told_the_act_replies_that_fit_and_whether_words_are_told_back(
    stub: "Stub", cast: Cast, text: str, tone: str, act: Act, may_restate: bool
) -> None:
    record = await write(stub, text)
    (order,) = cast.lead.orders
    assert order.replies[0] in TONES[tone].replies
    assert (order.act, order.may_restate) == (act, may_restate)
    assert (mllm.Act.Name(record.act), record.tone) == (f"ACT_{act.name}", tone)


async def test_a_reply_that_was_said_is_not_offered_again(stub: "Stub", cast: Cast) -> None:
    await write(stub, TEXT)
    (first,) = cast.lead.orders
    await write(stub, TEXT, common.Utterance(speaker=common.SPEAKER_AVATAR, text=first.replies[0]))
    assert first.replies[0] not in cast.lead.orders[1].replies


async def test_a_message_is_read_with_what_the_user_said_before(stub: "Stub", cast: Cast) -> None:
    told = [
        common.Utterance(speaker=common.SPEAKER_USER, text=text)
        for text in ("Hi.", "Good morning.", "I have bad news.")
    ]
    await write(stub, TEXT, *told)
    assert cast.tone_reader.asked == [(TEXT, "Good morning. I have bad news.")]


async def test_a_message_of_emoji_alone_is_spelled_out_for_voters_and_writer(stub: "Stub", cast: Cast) -> None:
    assert (await understand_text(stub, "\U0001f62d\U0001f62d")).text == "loudly crying face"
    assert cast.text.messages[0].text == "loudly crying face"
    await write(stub, "\U0001f62d\U0001f62d")
    assert cast.lead.orders[0].message.text == "loudly crying face"


@pytest.mark.parametrize(("text", "is_told"), [("What\u2019s your name?", True), ("What is your view?", False)])
async def test_who_asks_for_its_name_is_told_the_avatars(stub: "Stub", cast: Cast, text: str, is_told: bool) -> None:
    order = mllm.WriteReplyRequest(text=text, user_emotion=emotion("neutral"), reply_emotion=emotion("caring"))
    order.profile.name = "Anna"
    async for _ in stub.WriteReply(pb.WriteReplyRequest(reply=order)):
        pass
    (asked,) = cast.lead.orders
    assert ("Anna" in asked.replies[0]) == is_told
