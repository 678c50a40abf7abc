"""What `mllm.proto` promises of replies, over a real channel."""

from typing import TYPE_CHECKING, cast

import grpc
import numpy as np
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from services.common.errors import NotReady
from services.mllm.domain import Example, Memory, MemoryUse, ReplyRecord, Utterance
from tests.fake_voters import FakeLead
from tests.fakes import Gate, fail
from tests.mllm_service import INVALID, emotion, example, order
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub


async def test_the_card_comes_first_then_sentence_by_sentence_and_the_record_last(stub: "Stub", lead: FakeLead) -> None:
    lead.record = ReplyRecord("exemplar", 4, ("echo: I lost my job.", "role: As a user, I"))
    parts = [part async for part in stub.WriteReply(order())]
    assert parts[0].card == (await stub.GetModel(pb.GetModelRequest())).card
    assert [part.sentence for part in parts[:-1]] == list(lead.sentences)
    assert not any(part.HasField("card") for part in parts[1:])
    assert parts[-1].record.card == parts[0].card
    parts[-1].record.ClearField("card")
    assert parts[-1].record == pb.ReplyRecord(
        degraded="exemplar", candidates=4, rejected=["echo: I lost my job.", "role: As a user, I"]
    )


async def test_a_sentence_is_sent_before_the_next_is_written(stub: "Stub", lead: FakeLead) -> None:
    lead.before = gate = Gate("record")
    call = stub.WriteReply(order())
    sentences = [cast("pb.WriteReplyResponse", await call.read()).sentence for _ in lead.sentences]
    assert sentences == list(lead.sentences)
    gate.open()
    assert cast("pb.WriteReplyResponse", await call.read()).record.candidates == 3
    assert await call.read() is grpc.aio.EOF


async def test_nothing_is_sent_before_the_model_has_written_something(stub: "Stub", lead: FakeLead) -> None:
    lead.before = fail(NotReady("the model is gone"))
    with refused(grpc.StatusCode.UNAVAILABLE, "the model is gone"):
        await stub.WriteReply(order()).read()


async def test_the_writer_gets_the_whole_order(stub: "Stub", lead: FakeLead) -> None:
    said = common.Utterance(speaker=common.SPEAKER_AVATAR, text="Hello!", emotion="happy")
    await stub.WriteReply(order(history=[said], seed=7, text="x" * 4000)).read()
    (request,) = lead.orders
    assert request.message.text == "x" * 4000
    assert request.message.history == (Utterance("avatar", "Hello!", "happy"),)
    assert (request.user_emotion, request.reply_emotion, request.seed) == ("sad", "caring", 7)
    profile = request.profile
    assert (profile.name, profile.age, profile.gender, profile.timbre) == ("Ada", "young", "female", "mid")
    assert profile.language == "en"


async def test_the_writer_gets_what_memory_recalled_and_the_record_says_what_became_of_it(
    stub: "Stub", lead: FakeLead
) -> None:
    lead.record = ReplyRecord(
        memories=(
            MemoryUse(sentence="You told me that your dog was ill."),
            MemoryUse(unused="far"),
            MemoryUse("", True),
        )
    )
    near = pb.Memory(text="My dog is ill.", emotion="sad", turns_ago=2, age_s=90, similarity=0.5)
    parts = [part async for part in stub.WriteReply(order(memories=[near, pb.Memory(text="x" * 4000)] * 4))]
    (request,) = lead.orders
    assert request.memories == (Memory("My dog is ill.", "sad", 2, 90, 0.5), Memory("x" * 4000)) * 4
    assert list(parts[-1].record.memories) == [
        pb.MemoryUse(sentence="You told me that your dog was ill."),
        pb.MemoryUse(unused="far"),
        pb.MemoryUse(read=True),
    ]


async def test_the_writer_gets_how_the_avatar_answers_and_the_record_says_how_many_were_used(
    stub: "Stub", lead: FakeLead
) -> None:
    lead.record = ReplyRecord(examples_used=1)
    example = pb.Example(user_text="x" * 1000, user_emotion="sad", reply_text="y" * 1000, similarity=0.5)
    profile = common.Profile(name="Ada", speaking_style="slow and warm")
    parts = [part async for part in stub.WriteReply(order(examples=[example] * 8, profile=profile))]
    (request,) = lead.orders
    assert request.examples == (Example("x" * 1000, "sad", "y" * 1000, 0.5),) * 8
    assert request.profile.speaking_style == "slow and warm"
    assert parts[-1].record.examples_used == 1


async def test_a_model_that_cannot_write_says_so(voter_stub: "Stub") -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED, "face cannot write replies"):
        await voter_stub.WriteReply(order()).read()


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"text": ""}, INVALID, "text: empty; a reply needs something to reply to"),
        ({"text": " \n"}, INVALID, "text: empty"),
        ({"text": "x" * 4001}, INVALID, "text: 4001 characters; send at most 4000"),
        ({"user_emotion": emotion("meh")}, INVALID, "user_emotion.label: 'meh'; use one of: neutral, happy"),
        ({"reply_emotion": emotion("Sad")}, INVALID, "reply_emotion.label: 'Sad'; use one of: neutral, happy"),
        ({"reply_emotion": emotion("")}, INVALID, "reply_emotion.label: ''; use one of"),
        ({"history": [common.Utterance(text="?")]}, INVALID, "history[0].speaker: 0; use SPEAKER_USER"),
        ({"memories": [pb.Memory(text="x")] * 9}, INVALID, "memories: 9 of them; send at most 8"),
        ({"memories": [pb.Memory(text="x"), pb.Memory()]}, INVALID, "memories[1].text: empty; send what the user said"),
        ({"memories": [pb.Memory(text="x" * 4001)]}, INVALID, "memories[0].text: 4001 characters; send at most 4000"),
        (
            {"memories": [pb.Memory(text="x", emotion="meh")]},
            INVALID,
            "memories[0].emotion: 'meh'; use one of: neutral",
        ),
        ({"memories": [pb.Memory(text="x", age_s=-1)]}, INVALID, "memories[0].age_s: -1.0; send seconds"),
        ({"memories": [pb.Memory(text="x", age_s=np.inf)]}, INVALID, "memories[0].age_s: inf; send seconds"),
        ({"memories": [pb.Memory(text="x", similarity=2)]}, INVALID, "memories[0].similarity: 2.0; send a cosine"),
        ({"memories": [pb.Memory(text="x", similarity=np.nan)]}, INVALID, "memories[0].similarity: nan; send a cosine"),
        ({"examples": [example()] * 9}, INVALID, "examples: 9 of them; send at most 8"),
        ({"examples": [example(), example(user_text=" ")]}, INVALID, "examples[1].user_text: empty; send 1 to 1000"),
        ({"examples": [example(reply_text="")]}, INVALID, "examples[0].reply_text: empty; send 1 to 1000"),
        ({"examples": [example(reply_text="x" * 1001)]}, INVALID, "examples[0].reply_text: 1001 characters; send at"),
        ({"examples": [example(user_emotion="")]}, INVALID, "examples[0].user_emotion: ''; use one of: neutral"),
        ({"examples": [example(similarity=-2)]}, INVALID, "examples[0].similarity: -2.0; send a cosine"),
        ({"user_emotion": emotion("sad", "0" * 64)}, grpc.StatusCode.FAILED_PRECONDITION, "user_emotion.ontology_hash"),
        ({"reply_emotion": emotion("sad", "")}, grpc.StatusCode.FAILED_PRECONDITION, "reply_emotion.ontology_hash"),
    ],
)
async def test_an_order_that_cannot_be_written_is_refused(
    stub: "Stub", lead: FakeLead, changes: dict[str, object], code: grpc.StatusCode, text: str
) -> None:
    with refused(code, text):
        await stub.WriteReply(order(**changes)).read()
    assert lead.orders == []


async def test_a_reply_that_nobody_wants_any_more_is_not_written_to_its_end(
    stub: "Stub", lead: FakeLead, calls: CallLog
) -> None:
    lead.sentences = tuple(f"Sentence {number}." for number in range(100))
    lead.before = gate = Gate("write", after=1)
    call = stub.WriteReply(order())
    await call.read()
    await gate.reached()
    call.cancel()
    assert [call.status for call in await calls.ended("WriteReply")] == ["CANCELLED"]
    gate.open()
    await lead.stopped.happened()
    assert gate.came == 2
