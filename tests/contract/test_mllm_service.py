"""Every promise of `mllm.proto`, over a real channel."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import grpc
import numpy as np
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common.errors import BackendFailed, NotReady
from services.mllm.domain import Example, Level, Memory, MemoryUse, Modality, ReplyRecord, Utterance
from tests.deployment import serving_mllm
from tests.fakes import FakeLead, FakeVoter, Gate, fail
from tests.samples import jpeg, pcm
from tests.serving import CallLog, Served, refused

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub

HASH = emotions.load().digest
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def stub_of(served: Served) -> "Stub":
    return cast("Stub", mllm_pb2_grpc.MllmServiceStub(served.channel))


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


def head(text: str = "I lost my job.", ontology_hash: str = HASH) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(header=pb.PredictEmotionHeader(text=text, ontology_hash=ontology_hash))


def audio(content: bytes) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(audio=content)


def frame(content: bytes, time_s: float = 0) -> pb.PredictEmotionRequest:
    return pb.PredictEmotionRequest(frame=pb.Frame(time_s=time_s, jpeg=content))


def emotion(label: str = "sad", ontology_hash: str = HASH) -> common.Emotion:
    return common.Emotion(label=label, intensity=0.5, ontology_hash=ontology_hash)


def example(**changes: object) -> pb.Example:
    fields: dict[str, object] = {"user_text": "They let me go.", "user_emotion": "sad", "reply_text": "Oh no."}
    return pb.Example(**(fields | changes))  # type: ignore[arg-type]


def order(**changes: object) -> pb.WriteReplyRequest:
    fields: dict[str, object] = {
        "text": "I lost my job.",
        "user_emotion": emotion(),
        "reply_emotion": emotion("caring"),
        "profile": common.Profile(name="Ada", age="young", gender="female", timbre="mid"),
    }
    return pb.WriteReplyRequest(**(fields | changes))  # type: ignore[arg-type]


# GetModel


async def test_a_model_says_what_it_is_and_all_that_it_can_do(stub: "Stub") -> None:
    model = await stub.GetModel(pb.GetModelRequest())
    assert model.card == common.ModelCard(
        backend="fake", model="fake voter", digest="v" * 64, ontology_hash=HASH, prompt_version="prompt-1"
    )
    assert set(model.operations) == {pb.OPERATION_PREDICT, pb.OPERATION_WRITE, pb.OPERATION_TRANSCRIBE}
    assert set(model.perceives) == {common.MODALITY_TEXT, common.MODALITY_AUDIO, common.MODALITY_VIDEO}
    assert model.level == pb.LEVEL_LABEL


async def test_a_model_that_only_votes_says_so(voter_stub: "Stub") -> None:
    model = await voter_stub.GetModel(pb.GetModelRequest())
    assert list(model.operations) == [pb.OPERATION_PREDICT]
    assert model.level == pb.LEVEL_CLASS


# PredictEmotion


async def test_the_model_gets_the_whole_message_and_its_vote_comes_back(stub: "Stub", lead: FakeLead) -> None:
    first = head()
    first.header.history.add(speaker=common.SPEAKER_USER, text="Hello.", emotion="happy")
    first.header.history.add(speaker=common.SPEAKER_AVATAR, text="Hello!")
    sound = pcm(0.5)
    parts = [first, audio(sound[:1000]), frame(jpeg(40, 30), 0.5), audio(sound[1000:]), frame(jpeg(20, 10), 1.5)]
    answer = await stub.PredictEmotion(iter(parts))
    (message,) = lead.messages
    assert message.text == "I lost my job."
    assert message.history == (Utterance("user", "Hello.", "happy"), Utterance("avatar", "Hello!"))
    assert message.audio is not None
    assert message.audio.dtype == np.float32
    np.testing.assert_allclose(message.audio, np.frombuffer(sound, "<i2") / 32768, atol=1e-7)
    assert [(one.time_s, one.image.shape) for one in message.frames] == [(0.5, (30, 40, 3)), (1.5, (10, 20, 3))]
    assert (answer.label, answer.face_class, answer.level) == ("sad", "sad", pb.LEVEL_LABEL)
    assert dict(answer.evidence) == {"words": "counted"}
    assert (list(answer.saw), answer.parse, answer.abstained) == ([common.MODALITY_TEXT], "scored", "")
    assert answer.distribution["lonely"] == pytest.approx(0.3)
    assert sum(answer.distribution.values()) == pytest.approx(1)


async def test_a_vote_over_classes_is_spread_over_all_labels_and_says_its_level(
    voter_stub: "Stub", wheel: Wheel
) -> None:
    answer = await voter_stub.PredictEmotion(iter([head()]))
    assert answer.level == pb.LEVEL_CLASS
    assert (answer.label, answer.face_class) == ("sad", "sad")
    assert set(answer.distribution) == set(wheel.labels)
    assert wheel.gather(answer.distribution)["happy"] == pytest.approx(0.3, abs=1e-5)


async def test_to_abstain_is_an_answer(voter_stub: "Stub", voter: FakeVoter) -> None:
    voter.abstain("no face in any frame")
    answer = await voter_stub.PredictEmotion(iter([head()]))
    assert answer.abstained == "no face in any frame"
    assert (answer.label, answer.face_class, dict(answer.distribution)) == ("", "", {})


async def test_a_message_may_hold_no_text_and_the_longest_may_be_sent(stub: "Stub", lead: FakeLead) -> None:
    await stub.PredictEmotion(iter([head(text="")]))
    await stub.PredictEmotion(iter([head(text="ä" * 4000)]))
    assert [len(message.text) for message in lead.messages] == [0, 4000]
    assert lead.messages[0].audio is None
    assert lead.messages[0].frames == ()


UNKNOWN_SPEAKER = head()
UNKNOWN_SPEAKER.header.history.add(speaker=common.SPEAKER_USER, text="Hello.")
UNKNOWN_SPEAKER.header.history.add(text="Who said this?")
TALL = jpeg(8, 4097)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([audio(pcm(0.1)), head()], "part: audio is out of order; send one header first"),
        ([head(), head()], "part: header is out of order"),
        ([head(), pb.PredictEmotionRequest()], "part: nothing is out of order"),
        ([head("x" * 4001)], "header.text: 4001 characters; send at most 4000"),
        ([UNKNOWN_SPEAKER], "header.history[1].speaker: 0; use SPEAKER_USER or SPEAKER_AVATAR"),
        ([head(), audio(b"odd")], "audio: 3 bytes; PCM s16le has two bytes a sample"),
        ([head(), audio(bytes(MIB + 2))], "audio: a message holds 1048578 bytes; send at most 1048576"),
        ([head(), audio(bytes(MIB)), audio(bytes(MIB))], "audio: more than 1920000 bytes"),
        ([head(), frame(b"GIF89a")], "frame.jpeg: 6 bytes that are no JPEG or PNG"),
        ([head(), frame(b"")], "frame.jpeg: 0 bytes that are no JPEG or PNG"),
        ([head(), frame(jpeg()[:300])], "frame.jpeg: the image is damaged"),
        ([head(), frame(TALL)], "frame.jpeg: the image is 8x4097 px; send at most 4096 px a side"),
        ([head(), frame(jpeg() + bytes(MIB))], "send at most 1048576"),
        ([head(), *[frame(jpeg(8, 8))] * 65], "frame: more than 64 frames; send fewer"),
    ],
)
async def test_a_malformed_message_is_refused_with_field_value_and_remedy(
    stub: "Stub", lead: FakeLead, parts: list[pb.PredictEmotionRequest], text: str
) -> None:
    with refused(INVALID, text):
        await stub.PredictEmotion(iter(parts))
    assert lead.messages == []
    assert (await stub.PredictEmotion(iter([head()]))).label == "sad"  # it still works


@pytest.mark.parametrize(("digest", "named"), [("0" * 64, "000000000000"), ("", "not named")])
async def test_a_caller_with_another_wheel_is_refused(stub: "Stub", digest: str, named: str) -> None:
    text = f"header.ontology_hash: the caller's emotion wheel is {named}, this service's is {HASH[:12]}"
    with refused(grpc.StatusCode.FAILED_PRECONDITION, text):
        await stub.PredictEmotion(iter([head(ontology_hash=digest)]))


# Transcribe


async def test_speech_is_transcribed(stub: "Stub", lead: FakeLead) -> None:
    sound = pcm(40)
    parts = [pb.TranscribeRequest(audio=sound[at : at + MIB]) for at in range(0, len(sound), MIB)]
    assert len(parts) == 2
    answer = await stub.Transcribe(iter(parts))
    assert (answer.text, answer.language) == ("I lost my job.", "en")
    assert answer.no_speech == pytest.approx(0.1)
    assert len(lead.heard[0]) == 40 * 16_000


async def test_a_model_without_ears_cannot_transcribe(voter_stub: "Stub") -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED, "face cannot transcribe"):
        await voter_stub.Transcribe(iter([pb.TranscribeRequest(audio=pcm(0.1))]))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "audio: empty; send PCM s16le, mono, 16000 Hz"),
        ([b""], "audio: empty"),
        ([b"odd"], "audio: 3 bytes"),
        ([bytes(MIB + 2)], "audio: a message holds 1048578 bytes"),
        ([bytes(MIB)] * 2, "audio: more than 1920000 bytes"),
    ],
)
async def test_audio_that_cannot_be_transcribed_is_refused(stub: "Stub", parts: list[bytes], text: str) -> None:
    with refused(INVALID, text):
        await stub.Transcribe(pb.TranscribeRequest(audio=part) for part in parts)


# WriteReply


async def test_the_reply_comes_sentence_by_sentence_and_the_record_last(stub: "Stub", lead: FakeLead) -> None:
    lead.record = ReplyRecord("exemplar", 4, ("echo: I lost my job.", "role: As a user, I"))
    parts = [part async for part in stub.WriteReply(order())]
    assert [part.sentence for part in parts[:-1]] == list(lead.sentences)
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


# Errors of every RPC


def _rpcs(stub: "Stub") -> Iterator[object]:
    yield stub.PredictEmotion(iter([head()]))
    yield stub.Transcribe(iter([pb.TranscribeRequest(audio=pcm(0.1))]))
    yield stub.WriteReply(order()).read()


@pytest.mark.parametrize(
    "error", [BackendFailed("secret: weights at 0xdead"), RuntimeError("secret"), KeyError("secret")]
)
async def test_a_model_that_fails_is_an_internal_error_and_its_details_stay_in_the_log(
    stub: "Stub", lead: FakeLead, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    lead.before = fail(error)
    for number, call in enumerate(_rpcs(stub), 1):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call  # type: ignore[misc]
        assert failure.value.code() is grpc.StatusCode.INTERNAL
        assert failure.value.details() == "internal error; the log of the service has the details"
        assert "secret" not in str(failure.value)
        assert caplog.text.count("call failed") == number
    assert "secret" in caplog.text


@pytest.mark.parametrize("distribution", [{"sad": 0.5}, {"meh": 1.0}, {}])
async def test_a_model_whose_vote_is_no_distribution_has_failed(
    voter_stub: "Stub", voter: FakeVoter, distribution: dict[str, float]
) -> None:
    voter.prediction = replace(voter.prediction, distribution=distribution)
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await voter_stub.PredictEmotion(iter([head()]))


async def test_a_model_that_loads_or_drains_is_unavailable(stub: "Stub", lead: FakeLead) -> None:
    lead.before = fail(NotReady("the model is being closed; retry"))
    for call in _rpcs(stub):
        with refused(grpc.StatusCode.UNAVAILABLE, "the model is being closed; retry"):
            await call  # type: ignore[misc]


async def test_a_full_line_refuses_and_says_when_to_come_again(stub: "Stub", lead: FakeLead) -> None:
    async def predict() -> pb.PredictEmotionResponse:
        return await stub.PredictEmotion(iter([head()]))

    lead.before = gate = Gate()
    working = asyncio.create_task(predict())
    await gate.reached()
    # One more may wait; which of the two it is, is the line's affair.
    late = {asyncio.create_task(predict()), asyncio.create_task(predict())}
    (turned_away,), (waiting,) = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
    failure = turned_away.exception()
    assert isinstance(failure, grpc.aio.AioRpcError)
    assert failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (failure.details() or "").startswith("1 requests wait for the model, the limit")
    assert int(dict(failure.trailing_metadata() or ())["retry-after-ms"]) > 0
    gate.open()
    assert (await working).label == (await waiting).label == "sad"


async def test_a_call_is_given_up_at_its_deadline_and_the_model_is_free_again(stub: "Stub", lead: FakeLead) -> None:
    lead.before = gate = Gate()
    held = stub.PredictEmotion(iter([head()]), timeout=20)
    await gate.reached()
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        await stub.PredictEmotion(iter([head()]), timeout=0.05)
    assert len(lead.messages) == 1
    gate.open()
    await held
    assert (await stub.PredictEmotion(iter([head()]), timeout=20)).label == "sad"


async def test_perceives_names_every_modality(voter: FakeVoter, wheel: Wheel) -> None:
    voter.card = replace(voter.card, perceives=frozenset({Modality.VIDEO}))
    async with serving_mllm("face", voter, wheel) as served:
        model = await stub_of(served).GetModel(pb.GetModelRequest())
    assert list(model.perceives) == [common.MODALITY_VIDEO]
