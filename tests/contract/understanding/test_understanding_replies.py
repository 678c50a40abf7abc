"""What `understanding.proto` promises of replies, over a real channel to a lead with a fake model."""

from typing import TYPE_CHECKING
from typing import cast as typed

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.mllm.domain import Memory, MemoryUse, ReplyRecord
from tests.deployment import Cast
from tests.fake_voters import FakeLead, FakeVoter
from tests.fakes import Gate
from tests.serving import CallLog, refused
from tests.understanding_service import INVALID, WHEEL, Panel, emotion

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub


def order(**changes: object) -> pb.WriteReplyRequest:
    fields: dict[str, object] = {
        "text": "I lost my job.",
        "user_emotion": emotion("sad"),
        "reply_emotion": emotion("caring"),
        "seed": 7,
    }
    return pb.WriteReplyRequest(reply=mllm.WriteReplyRequest(**(fields | changes)))  # type: ignore[arg-type]


async def test_the_lead_writes_the_reply_sentence_by_sentence(stub: "Stub", cast: Cast) -> None:
    cast.lead.before = gate = Gate("record")
    call = stub.WriteReply(order(), timeout=20)
    # They come while the model still works.
    parts = [typed("pb.WriteReplyResponse", await call.read()) for _ in cast.lead.sentences]
    assert tuple(part.sentence for part in parts) == tuple(cast.lead.sentences)
    card = parts[0].card
    assert (card.backend, card.model) == ("lead", "fake voter")
    gate.open()
    record = typed("pb.WriteReplyResponse", await call.read()).record
    assert record.card == card
    record.ClearField("card")
    assert record == mllm.ReplyRecord(candidates=3, rejected=["echo: I lost my job."], act=mllm.ACT_TELLING, tone="any")
    assert await call.read() is grpc.aio.EOF
    (request,) = cast.lead.orders
    assert (request.user_emotion, request.reply_emotion, request.seed) == ("sad", "caring", 7)


async def test_nobody_is_asked_for_the_card_before_a_reply(stub: "Stub", calls: CallLog) -> None:
    parts = [part async for part in stub.WriteReply(order(), timeout=20)]
    assert [part.WhichOneof("part") for part in parts] == ["sentence", "sentence", "record"]
    assert [call.method for call in calls.calls] == ["WriteReply"] * 2


async def test_what_memory_recalled_reaches_the_writer_and_the_record_comes_back(stub: "Stub", cast: Cast) -> None:
    cast.lead.record = ReplyRecord(memories=(MemoryUse(sentence="You told me that your dog was ill."),))
    recalled = mllm.Memory(text="My dog is ill.", emotion="sad", turns_ago=2, age_s=90, similarity=0.5)
    parts = [part async for part in stub.WriteReply(order(memories=[recalled]), timeout=20)]
    (request,) = cast.lead.orders
    assert request.memories == (Memory("My dog is ill.", "sad", 2, 90, 0.5),)
    assert list(parts[-1].record.memories) == [mllm.MemoryUse(sentence="You told me that your dog was ill.")]


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"text": " "}, INVALID, "text: empty"),
        ({"reply_emotion": common.Emotion(label="meh", ontology_hash=WHEEL.digest)}, INVALID, "reply_emotion.label: "),
        ({"user_emotion": common.Emotion(label="sad")}, grpc.StatusCode.FAILED_PRECONDITION, "not named"),
    ],
)
async def test_what_the_lead_refuses_is_refused_in_its_words(
    stub: "Stub", changes: dict[str, object], code: grpc.StatusCode, text: str
) -> None:
    with refused(code, text):
        await stub.WriteReply(order(**changes)).read()


async def test_a_lead_that_is_gone_is_named(stub: "Stub", panel: Panel) -> None:
    await panel.stop("lead")
    with refused(grpc.StatusCode.UNAVAILABLE, "mllm lead, which writes the replies: "):
        await stub.WriteReply(order(), timeout=20).read()


async def test_a_lead_that_cannot_write_says_so(panel: Panel, cast: Cast) -> None:
    cast.lead = typed("FakeLead", FakeVoter({"sad": 1.0}))
    stub = await panel.start()
    with refused(grpc.StatusCode.UNIMPLEMENTED, "lead cannot write replies"):
        await stub.WriteReply(order()).read()


async def test_a_reply_that_nobody_wants_any_more_stops_the_lead(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.lead.sentences = tuple(f"Sentence {number}." for number in range(100))
    cast.lead.before = gate = Gate("write", after=1)
    call = stub.WriteReply(order())
    await call.read()
    await gate.reached()
    call.cancel()
    both = await calls.ended("WriteReply", times=2)  # the panel's call, and the one that it made to the lead
    assert [call.status for call in both] == ["CANCELLED"] * 2
    gate.open()
    await cast.lead.stopped.happened()
    assert gate.came == 2
