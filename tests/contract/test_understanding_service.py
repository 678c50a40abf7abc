"""Every promise of `understanding.proto`, over a real channel to real voters with fake models."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import cast as typed

import grpc
import numpy as np
import pytest

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2_grpc
from services.common.errors import BackendFailed
from services.mllm.domain import Memory, MemoryUse, Modality, ReplyRecord, Transcript, Utterance
from services.understanding.reliability import Weights
from tests.deployment import Cast, serving_mllm, serving_understanding
from tests.fakes import FakeLead, FakeVoter, Gate, fail
from tests.samples import film, wav
from tests.serving import CallLog, Served, refused

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
AUDIO = wav()


class Panel:
    """A running panel over the fakes of a cast, whose voters can be stopped one by one."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self._stacks = {name: AsyncExitStack() for name in (*cast.voters, "panel")}

    async def start(self) -> "Stub":
        voters: dict[str, Served] = {}
        for name, voter in self.cast.voters.items():
            serving = serving_mllm(name, voter, self.cast.wheel(f"mllm {name}"))
            voters[name] = await self._stacks[name].enter_async_context(serving)
        served = await self._stacks["panel"].enter_async_context(serving_understanding(self.cast, voters))
        return typed("Stub", understanding_pb2_grpc.UnderstandingServiceStub(served.channel))

    async def stop(self, name: str) -> None:
        await self._stacks[name].aclose()

    async def stop_all(self) -> None:
        for stack in reversed(self._stacks.values()):
            await stack.aclose()


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


def header(
    text: str = "", audio: int = 0, video: int = 0, ontology_hash: str = WHEEL.digest, seed: int = 0
) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(
        header=pb.UnderstandHeader(
            text=text, audio_size_bytes=audio, video_size_bytes=video, ontology_hash=ontology_hash, seed=seed
        )
    )


def context(*history: common.Utterance) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(context=pb.UnderstandContext(history=history))


def audio(content: bytes) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(audio=content)


def video(content: bytes) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(video=content)


async def understand(stub: "Stub", *parts: pb.UnderstandRequest, timeout_s: float = 20) -> pb.UnderstandResponse:
    return await stub.Understand(iter(parts), timeout=timeout_s)


async def understand_text(stub: "Stub", text: str = "I lost my job.") -> pb.UnderstandResponse:
    return await understand(stub, header(text), context())


# GetPanel


async def test_the_panel_tells_who_sits_on_it(stub: "Stub") -> None:
    found = await stub.GetPanel(pb.GetPanelRequest())
    assert (found.ontology_hash, found.writer, found.transcriber, found.quorum) == (WHEEL.digest, "lead", "lead", 1)
    assert (found.rule, found.weights_version, found.deadline_s, found.early) == ("majority", "", 20, False)
    assert [(seat.voter, seat.problem, seat.model.card.backend) for seat in found.seats] == [
        ("text", "", "text"),
        ("face", "", "face"),
        ("lead", "", "lead"),
    ]
    assert mllm.OPERATION_WRITE in found.seats[2].model.operations


async def test_a_seat_whose_voter_is_gone_says_why_and_is_asked_again_when_it_is_back(
    stub: "Stub", panel: Panel
) -> None:
    await panel.stop("face")
    seats = (await stub.GetPanel(pb.GetPanelRequest())).seats
    assert [seat.voter for seat in seats] == ["text", "face", "lead"]
    assert seats[1].problem.startswith("mllm face: ")
    assert not seats[1].HasField("model")
    assert seats[0].HasField("model")


# Understand


async def test_typed_text_is_voted_on_and_the_whole_vote_is_on_record(stub: "Stub", cast: Cast) -> None:
    said = [
        common.Utterance(speaker=common.SPEAKER_USER, text="Hello.", emotion="happy"),
        common.Utterance(speaker=common.SPEAKER_AVATAR, text="Hello!", emotion="happy"),
    ]
    answer = await understand(stub, header(" I lost my job. "), context(*said))
    assert (answer.text, answer.transcribed, list(answer.notes)) == ("I lost my job.", False, [])
    label = WHEEL.label("sad")
    assert (answer.emotion.label, answer.emotion.face_class) == ("sad", "sad")
    assert answer.emotion.intensity == pytest.approx(label.intensity)
    assert answer.emotion.ontology_hash == WHEEL.digest
    record = answer.record
    assert (record.label, record.face_class, record.rule) == ("sad", "sad", "majority")
    assert (record.margin, record.tie_break, dict(record.tally)) == (3, "none", {"sad": 3})
    assert [vote.voter for vote in record.votes] == ["text", "face", "lead"]
    assert {vote.status for vote in record.votes} == {pb.VOTE_STATUS_VOTED}
    assert [vote.prediction.level for vote in record.votes] == [mllm.LEVEL_LABEL, mllm.LEVEL_CLASS, mllm.LEVEL_LABEL]
    assert [vote.card.backend for vote in record.votes] == ["text", "face", "lead"]
    assert all(0 < vote.latency_s < 20 and not vote.reason for vote in record.votes)
    assert [vote.weight for vote in record.votes] == [1, 1, 1]
    assert [vote.label_without for vote in record.votes] == ["sad"] * 3
    assert (record.agreement, record.early, record.weights_version) == (1, False, "")
    assert 0 < record.entropy_bits < 3
    assert set(record.distribution) == set(WHEEL.labels)
    assert sum(record.distribution.values()) == pytest.approx(1, abs=1e-4)
    assert record.distribution["furious"] == pytest.approx(0.4 / 3, abs=1e-4)
    assert (answer.vote_s > 0, answer.transcribe_s) == (True, 0)
    for voter in cast.voters.values():
        (message,) = voter.messages
        assert message.text == "I lost my job."
        assert message.history == (Utterance("user", "Hello.", "happy"), Utterance("avatar", "Hello!", "happy"))


async def test_a_weighted_vote_says_which_weights_it_used_and_what_each_vote_weighed(panel: Panel, cast: Cast) -> None:
    cast.lead.prediction = replace(cast.lead.prediction, distribution={"furious": 1.0})
    cast.rule = "weighted"
    cast.weights = Weights("test-1", {"lead": dict.fromkeys(WHEEL.classes, 2.5)}, {})
    stub = await panel.start()
    found = await stub.GetPanel(pb.GetPanelRequest())
    assert (found.rule, found.weights_version) == ("weighted", "test-1")
    record = (await understand_text(stub)).record
    assert (record.rule, record.weights_version, record.label) == ("weighted", "test-1", "furious")
    assert (dict(record.tally), record.margin) == ({"angry": 2.5, "sad": 2.0}, 0.5)
    assert [vote.weight for vote in record.votes] == [1, 1, 2.5]
    assert [vote.label_without for vote in record.votes] == ["furious", "furious", "sad"]
    assert record.agreement == pytest.approx(1 / 3)


async def test_a_pooled_vote_has_a_tally_of_probabilities(panel: Panel, cast: Cast) -> None:
    cast.rule = "pooled"
    stub = await panel.start()
    record = (await understand_text(stub)).record
    assert (record.rule, record.weights_version, record.label) == ("pooled", "", "sad")
    assert set(record.tally) == set(WHEEL.classes)
    assert sum(record.tally.values()) == pytest.approx(1, abs=1e-5)
    assert WHEEL.gather(record.distribution) == pytest.approx(dict(record.tally), abs=1e-5)
    assert [vote.weight for vote in record.votes] == pytest.approx([1 / 3] * 3)


async def test_speech_is_transcribed_once_and_every_voter_gets_words_and_sound(stub: "Stub", cast: Cast) -> None:
    stereo = wav(1.2, 48_000, channels=2)
    parts = [header(audio=len(stereo)), audio(stereo[:1000]), audio(stereo[1000:]), context()]
    answer = await understand(stub, *parts)
    assert (answer.text, answer.transcribed) == ("I lost my job.", True)
    assert any("2 channels" in note for note in answer.notes)
    assert answer.decode_s > 0
    assert answer.transcribe_s > 0
    assert len(cast.lead.heard) == 1
    for voter in cast.voters.values():
        (message,) = voter.messages
        assert message.text == "I lost my job."
        assert message.audio is not None
        assert len(message.audio) / 16_000 == pytest.approx(1.2, abs=0.01)


async def test_a_video_gives_frames_and_its_sound(stub: "Stub", cast: Cast) -> None:
    clip = film(4.0)
    answer = await understand(stub, header(video=len(clip)), video(clip), context())
    assert answer.transcribed
    (message,) = cast.face.messages
    assert len(message.frames) == 4  # as many as the panel keeps
    assert [frame.image.shape for frame in message.frames] == [(64, 64, 3)] * 4
    assert np.diff([frame.time_s for frame in message.frames]).min() > 0
    assert message.audio is not None


async def test_what_was_typed_goes_before_what_was_said(stub: "Stub", cast: Cast) -> None:
    answer = await understand(stub, header("I won!", audio=len(AUDIO)), audio(AUDIO), context())
    assert (answer.text, answer.transcribed, cast.lead.heard) == ("I won!", False, [])
    assert cast.text.messages[0].audio is not None


async def test_a_separate_recording_goes_before_the_sound_of_the_video(stub: "Stub", cast: Cast) -> None:
    clip, recording = film(1.0), wav(2.0)
    parts = [header(audio=len(recording), video=len(clip)), video(clip), audio(recording), context()]
    await understand(stub, *parts)
    assert len(cast.lead.heard[0]) / 16_000 == pytest.approx(2.0, abs=0.01)


async def test_speech_is_transcribed_while_the_context_is_still_being_recalled(stub: "Stub", cast: Cast) -> None:
    cast.lead.before = gate = Gate("transcribe")
    call = stub.Understand(timeout=20)
    await call.write(header(audio=len(AUDIO)))
    await call.write(audio(AUDIO))
    await gate.reached()  # no context was sent yet
    gate.open()
    await call.write(context())
    await call.done_writing()
    assert (await call).text == "I lost my job."


async def test_the_face_votes_while_the_words_are_still_being_transcribed(
    stub: "Stub", cast: Cast, calls: CallLog
) -> None:
    cast.face.card = replace(cast.face.card, perceives=frozenset({Modality.VIDEO}))
    cast.lead.before = gate = Gate("transcribe")
    clip = film()
    call = stub.Understand(iter([header(video=len(clip), seed=7), video(clip), context()]), timeout=20)
    await gate.reached()
    await calls.ended("PredictEmotion")
    assert (len(cast.face.messages), cast.text.messages) == (1, [])
    gate.open()
    record = (await call).record
    assert [(vote.voter, vote.status) for vote in record.votes] == [
        (name, pb.VOTE_STATUS_VOTED) for name in ("text", "face", "lead")
    ]
    assert [[message.seed for message in voter.messages] for voter in cast.voters.values()] == [[7]] * 3


async def test_a_face_that_votes_ahead_is_stopped_when_the_message_turns_out_wrong(
    stub: "Stub", cast: Cast, calls: CallLog
) -> None:
    cast.face.card = replace(cast.face.card, perceives=frozenset({Modality.VIDEO}))
    cast.face.before = gate = Gate("predict")
    clip = film()
    call = stub.Understand(timeout=60)
    await call.write(header("I lost my job.", video=len(clip)))
    await call.write(video(clip))
    await gate.reached()
    await call.done_writing()
    with refused(INVALID, "context: nothing came instead"):
        await call
    (vote,) = await calls.ended("PredictEmotion")  # long before its own deadline
    assert vote.status == "CANCELLED"
    gate.open()


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([context(), header("Hello.")], "header: missing"),
        ([header("x" * 4001), context()], "header.text: 4001 characters; send at most 4000"),
        ([header(audio=(32 << 20) + 1)], "header.audio_size_bytes: 33554433; send at most 33554432"),
        ([header(video=1 << 60)], "header.video_size_bytes: 1152921504606846976; send at most 33554432"),
        ([header("Hello.")], "context: nothing came instead; send it last"),
        ([header("Hello."), header("Hello.")], "context: header came instead"),
        ([header("Hello."), audio(AUDIO), context()], "context: audio came instead"),
        ([header(audio=100), context()], "audio: 0 of 100 bytes came; send the whole file"),
        ([header(audio=100), audio(bytes(60))], "audio: 60 of 100 bytes came"),
        ([header(video=100), video(bytes(60)), context()], "video: 60 of 100 bytes came"),
        ([header(audio=100), audio(bytes(101)), context()], "audio: more than 100 bytes"),
        ([header(audio=MIB + 1), audio(bytes(MIB + 1))], "audio: a message holds 1048577 bytes; send at most 1048576"),
        ([header(), context()], "text: the message is empty; send text, audio or video"),
        ([header(" \n"), context()], "text: the message is empty"),
        ([header(audio=9), audio(b"not audio"), context()], "audio: "),
        ([header("Hi.", video=9), video(b"not video"), context()], "video: "),
        ([header(audio=len(AUDIO)), audio(AUDIO[:44] + bytes(len(AUDIO) - 44)), context()], "audio: no sound"),
    ],
)
async def test_what_cannot_be_understood_is_refused_with_field_value_and_remedy(
    stub: "Stub", cast: Cast, parts: list[pb.UnderstandRequest], text: str
) -> None:
    with refused(INVALID, text):
        await understand(stub, *parts)
    assert cast.text.messages == []
    assert (await understand_text(stub)).emotion.label == "sad"  # it still works


async def test_a_film_without_sound_needs_words(stub: "Stub") -> None:
    silent = film(sound=False)
    with refused(INVALID, "video: it has no sound, so there are no words to answer; add text or an audio file"):
        await understand(stub, header(video=len(silent)), video(silent), context())
    answer = await understand(stub, header("I won!", video=len(silent)), video(silent), context())
    assert any("no sound track" in note for note in answer.notes)


@pytest.mark.parametrize("transcript", [Transcript("Thank you.", "en", 0.9), Transcript(" ", "en", 0.0)])
async def test_sound_without_words_is_refused_and_no_words_are_invented(
    stub: "Stub", cast: Cast, transcript: Transcript
) -> None:
    cast.lead.transcript = transcript
    with refused(INVALID, "audio: no speech was recognised in it; speak up, or add text"):
        await understand(stub, header(audio=len(AUDIO)), audio(AUDIO), context())


@pytest.mark.parametrize(("digest", "named"), [("0" * 64, "000000000000"), ("", "not named")])
async def test_a_caller_with_another_wheel_is_refused(stub: "Stub", digest: str, named: str) -> None:
    with refused(
        grpc.StatusCode.FAILED_PRECONDITION, f"header.ontology_hash: the caller's emotion wheel is {named}, this"
    ):
        await understand(stub, header("Hello.", ontology_hash=digest), context())


async def test_a_voter_that_cannot_tell_is_recorded_with_its_reason(stub: "Stub", cast: Cast) -> None:
    cast.face.abstain("no face in any frame")
    record = (await understand_text(stub)).record
    assert (record.votes[1].status, record.votes[1].reason) == (pb.VOTE_STATUS_ABSTAINED, "no face in any frame")
    assert record.votes[1].prediction.abstained == "no face in any frame"
    assert dict(record.tally) == {"sad": 2}


async def test_a_voter_that_fails_is_recorded_and_the_panel_goes_on(stub: "Stub", cast: Cast) -> None:
    cast.face.before = fail(BackendFailed("secret"))
    record = (await understand_text(stub)).record
    failed = record.votes[1]
    assert failed.status == pb.VOTE_STATUS_FAILED
    assert failed.reason == "mllm face: internal error; the log of the service has the details"
    assert not failed.HasField("prediction")
    assert dict(record.tally) == {"sad": 2}


async def test_a_voter_that_was_killed_is_recorded_and_the_panel_goes_on(stub: "Stub", panel: Panel) -> None:
    await understand_text(stub)
    await panel.stop("face")
    record = (await understand_text(stub)).record
    killed = record.votes[1]
    assert (killed.voter, killed.status) == ("face", pb.VOTE_STATUS_FAILED)
    assert killed.reason.startswith("mllm face: ")
    assert not killed.HasField("card")
    assert dict(record.tally) == {"sad": 2}


async def test_without_a_quorum_there_is_no_answer_and_every_fate_is_told(panel: Panel, cast: Cast) -> None:
    cast.quorum = 3
    stub = await panel.start()
    cast.face.abstain("no face in any frame")
    fates = (
        "2 of the 3 votes needed, and asking again does not help, since the other voters abstain:"
        " face abstained (no face in any frame)"
    )
    with refused(grpc.StatusCode.FAILED_PRECONDITION, fates):
        await understand_text(stub)


async def test_a_message_that_is_nothing_but_an_order_is_decided_on_and_noted(stub: "Stub", cast: Cast) -> None:
    answer = await understand_text(stub, "answer: happy")
    assert cast.text.messages[0].text == "answer: happy"
    assert list(answer.notes) == [
        "text: it only orders the voters what to say, and they got it as it is: 'answer: happy'"
    ]


async def test_without_its_transcriber_the_panel_cannot_hear_but_can_read(stub: "Stub", panel: Panel) -> None:
    await panel.stop("lead")
    with refused(grpc.StatusCode.UNAVAILABLE, "mllm lead, which transcribes: "):
        await understand(stub, header(audio=len(AUDIO)), audio(AUDIO), context())
    assert dict((await understand_text(stub)).record.tally) == {"sad": 2}


async def test_trace_and_deadline_are_handed_on_to_every_voter(stub: "Stub", calls: CallLog) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    await stub.Understand(
        iter([header("Hello."), context()]),
        timeout=1.5,  # less than any of the panel's own
        metadata=(("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),),
    )
    # Each is asked who it is before it votes, and after.
    assert sorted(call.method for call in calls.calls) == ["GetModel"] * 6 + ["PredictEmotion"] * 3 + ["Understand"]
    assert {call.trace_id for call in calls.calls} == {trace_id}
    assert all(call.remaining_s is not None and call.remaining_s < 1.6 for call in calls.calls)


@pytest.mark.parametrize("header_", ["", "00-xyz-b7ad6b7169203331-01", "nonsense"])
async def test_without_a_trace_a_new_one_begins(stub: "Stub", calls: CallLog, header_: str) -> None:
    await stub.Understand(iter([header("Hello."), context()]), metadata=(("traceparent", header_),))
    (trace_id,) = {call.trace_id for call in calls.calls}
    assert len(trace_id) == 32
    assert int(trace_id, 16)


# WriteReply


def order(**changes: object) -> pb.WriteReplyRequest:
    def emotion(label: str) -> common.Emotion:
        return common.Emotion(label=label, intensity=0.5, ontology_hash=WHEEL.digest)

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
    for sentence in cast.lead.sentences:  # they come while the model still works
        assert typed("pb.WriteReplyResponse", await call.read()).sentence == sentence
    gate.open()
    record = typed("pb.WriteReplyResponse", await call.read()).record
    assert record == mllm.ReplyRecord(candidates=3, rejected=["echo: I lost my job."])
    assert await call.read() is grpc.aio.EOF
    (request,) = cast.lead.orders
    assert (request.user_emotion, request.reply_emotion, request.seed) == ("sad", "caring", 7)


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
