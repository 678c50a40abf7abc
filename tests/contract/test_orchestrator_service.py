"""Promises of `orchestrator.proto` for a turn, over real channels through all services with fake models."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import grpc
import pytest

import emotions
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.mllm.domain import Utterance
from services.video.domain import Expression
from tests.deployment import Cast, Deployment
from tests.fake_voice import FakeVoice
from tests.fakes import Gate
from tests.samples import film, wav
from tests.serving import CallLog
from tests.turns import REPLY, Start, away, header, respond, until

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
TRACE = "0af7651916cd43dd8448eb211c80319c"
AUDIO = wav()


# A turn


async def test_a_message_becomes_words_voice_and_face(stub: "Stub") -> None:
    turn = await respond(stub, header())
    assert turn.identity.identity.id == "ada"
    assert (turn.understood.text, turn.understood.emotion.label) == ("I lost my job.", "sad")
    assert [vote.voter for vote in turn.understood.record.votes] == ["text", "face", "lead"]
    assert " ".join(turn.sentences) == REPLY
    assert turn.audio_s == 1.0
    assert turn.audio[0].phonemes[0].viseme == "PP"
    starts = [sound.start_s for chunk in turn.audio for sound in chunk.phonemes]
    assert starts == pytest.approx([0.0, 0.2, 0.5, 0.7])
    assert turn.video[0].mime_type.startswith('video/mp4; codecs="avc1.')
    assert not any(chunk.mime_type for chunk in turn.video[1:])
    assert turn.frames == 25
    assert all(len(chunk.content) <= MIB for chunk in turn.video)
    assert turn.degraded == []
    done = turn.done
    assert (done.text, done.turn, done.audio_duration_s) == (REPLY, "", 1.0)
    assert done.record.card.backend == "lead"
    done.record.ClearField("card")
    assert done.record == mllm.ReplyRecord(
        candidates=3, rejected=["echo: I lost my job."], act=mllm.ACT_TELLING, tone="any"
    )
    assert len(done.trace_id) == 32


async def test_every_stage_says_when_it_worked(stub: "Stub") -> None:
    turn = await respond(stub, header(conversation="talk"))
    stages = {"recall", "decode", "vote", "search", "reply", "speech", "video"}
    stages |= {"keep_derived", "remember", "turn"}
    assert set(turn.timings) == stages
    for timing in turn.timings.values():
        assert timing.start_s <= timing.first_s <= timing.end_s, timing
        assert timing.end_s <= turn.timings["turn"].end_s, timing
    assert turn.timings["turn"].start_s == 0
    assert turn.timings["reply"].start_s >= turn.timings["vote"].end_s - 0.05
    assert turn.timings["speech"].first_s <= turn.timings["video"].first_s


async def test_one_emotion_drives_text_voice_and_face(stub: "Stub", cast: Cast) -> None:
    turn = await respond(stub, header(seed=7))
    reply = WHEEL.reply_to("sad", "empathic")
    label = WHEEL.label(reply.label)
    delivery = turn.delivery
    assert (delivery.emotion.label, delivery.decided_by) == (reply.label, "policy empathic")
    assert (delivery.voice_style, delivery.voice_exact) == (label.style, True)
    assert (delivery.face_class, delivery.face_exact) == (label.coarse, True)
    (order,) = cast.lead.orders
    assert (order.user_emotion, order.reply_emotion, order.seed) == ("sad", reply.label, 7)
    assert (order.profile.name, order.profile.age) == ("Ada", "young")
    assert [text for text, _ in cast.voice.spoken] == list(cast.lead.sentences)
    assert all(said.style == label.style for _, said in cast.voice.spoken)
    assert cast.voice.spoken[0][1].intensity == pytest.approx(reply.intensity)
    ((lent, profile),) = cast.voice.prepared
    portrait, voice = (file.digest for file in turn.identity.identity.references)
    assert (lent.digest, profile.gender) == (voice, "female")
    ((shown, seed),) = cast.portrait.shown
    assert shown == Expression(label.coarse, pytest.approx(reply.intensity))  # type: ignore[arg-type]
    assert seed == 7
    assert cast.portrait.prepared[0].digest == portrait


async def test_a_voice_is_fitted_once_and_for_all_replicas(stub: "Stub", cast: Cast) -> None:
    await respond(stub, header(output=pb.OUTPUT_AUDIO))
    ((key, content),) = cast.memory.derived.items()
    assert key[3] == cast.voice.digest
    assert content.endswith(b"a fitted voice")
    first, cast.voice = cast.voice, FakeVoice()
    elsewhere = Deployment()
    try:
        await elsewhere.start(cast)
        channel = elsewhere.served["orchestrator"].channel
        await respond(typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel)), header())
    finally:
        await elsewhere.stop_all()
    assert (len(first.prepared), cast.voice.prepared, cast.voice.restored) == (1, [], [b"a fitted voice"])


async def test_a_memory_that_cannot_keep_a_fitted_voice_costs_nothing_but_the_fitting(stub: "Stub", cast: Cast) -> None:
    cast.memory.before = away("GetDerived", "PutDerived")
    turn = await respond(stub, header(output=pb.OUTPUT_AUDIO))
    assert turn.done.audio_duration_s > 0
    assert turn.degraded == []


@pytest.mark.parametrize("method", ["GetDerived", "PutDerived"])
async def test_a_memory_that_is_silent_over_a_fitted_voice_costs_no_turn(start: Start, cast: Cast, method: str) -> None:
    cast.turn_deadline_s = 6.0
    stub = await start()
    cast.memory.before = gate = Gate(method)
    turn = await respond(stub, header(output=pb.OUTPUT_AUDIO))
    assert turn.done.audio_duration_s > 0
    assert turn.degraded == []
    gate.open()


async def test_the_seed_reaches_every_voter(stub: "Stub", cast: Cast) -> None:
    await respond(stub, header(seed=7, output=pb.OUTPUT_TEXT))
    assert [message.seed for voter in cast.voters.values() for message in voter.messages] == [7, 7, 7]


async def test_a_wish_overrides_the_policy(stub: "Stub", cast: Cast) -> None:
    turn = await respond(stub, header(reply_emotion="joyful", reply_intensity=0.25, output=pb.OUTPUT_AUDIO))
    assert (turn.delivery.emotion.label, turn.delivery.decided_by) == ("joyful", "request")
    assert turn.delivery.emotion.intensity == 0.25
    assert cast.lead.orders[0].reply_emotion == "joyful"
    assert cast.voice.spoken[0][1].intensity == 0.25


async def test_the_mirror_shows_the_users_emotion(stub: "Stub") -> None:
    turn = await respond(stub, header(policy="mirror", output=pb.OUTPUT_TEXT))
    assert (turn.delivery.emotion.label, turn.delivery.decided_by) == ("sad", "policy mirror")


async def test_a_cry_for_help_is_shown_gravely_and_said_to_be_a_stored_reply(stub: "Stub", cast: Cast) -> None:
    cast.text.prediction = replace(cast.text.prediction, crisis=True)
    turn = await respond(stub, header(reply_emotion="joyful"))
    assert (turn.delivery.decided_by, turn.delivery.face_class) == ("risk", "sad")


async def test_what_a_generator_lacks_becomes_the_nearest_and_the_reply_says_so(start: Start, cast: Cast) -> None:
    cast.voice.styles, cast.portrait.classes = ("cheerful", "sad"), ("neutral", "surprised")
    turn = await respond(await start(), header(reply_emotion="furious"))
    assert (turn.delivery.voice_exact, turn.delivery.face_exact) == (False, False)
    assert cast.voice.spoken[0][1].style == turn.delivery.voice_style
    assert cast.portrait.shown[0][0].face_class == turn.delivery.face_class
    assert turn.delivery.emotion.face_class == "angry"


async def test_only_as_much_is_made_as_is_wanted(stub: "Stub", cast: Cast) -> None:
    text = await respond(stub, header(output=pb.OUTPUT_TEXT))
    assert (text.done.text, text.audio, text.video, text.done.audio_duration_s) == (REPLY, [], [], 0)
    assert (text.delivery.voice_style, text.delivery.face_class) == ("", "")
    assert cast.voice.spoken == []
    audio = await respond(stub, header(output=pb.OUTPUT_AUDIO))
    assert (audio.audio_s, audio.video, audio.delivery.face_class) == (1.0, [], "")
    assert cast.portrait.shown == []


@pytest.mark.parametrize("kind", ["audio", "video"])
async def test_what_was_said_is_heard(stub: "Stub", cast: Cast, kind: str) -> None:
    content = AUDIO if kind == "audio" else film()
    sizes: dict[str, Any] = {f"{kind}_size_bytes": len(content)}
    pieces = [content[:999], content[999:]]
    media = [pb.RespondRequest(audio=piece) if kind == "audio" else pb.RespondRequest(video=piece) for piece in pieces]
    turn = await respond(stub, header("", output=pb.OUTPUT_TEXT, **sizes), *media)
    assert (turn.understood.text, turn.understood.transcribed) == ("I lost my job.", True)
    assert turn.timings["transcribe"].end_s > 0
    assert bool(cast.face.messages[0].frames) == (kind == "video")


async def test_a_conversation_is_remembered_and_recalled(stub: "Stub", cast: Cast) -> None:
    first = await respond(stub, header(conversation="talk", output=pb.OUTPUT_TEXT))
    second = await respond(stub, header("Thank you.", conversation="talk", output=pb.OUTPUT_TEXT))
    (kept,) = second.identity.turns
    assert kept.id == first.done.turn != ""
    assert (kept.user_text, kept.user_emotion) == ("I lost my job.", "sad")
    assert (kept.reply_text, kept.reply_emotion) == (REPLY, first.delivery.emotion.label)
    said = (
        Utterance("user", "I lost my job.", "sad"),
        Utterance("avatar", REPLY, first.delivery.emotion.label),
    )
    assert cast.text.messages[1].history == cast.lead.orders[1].message.history == said
    other = await respond(stub, header(conversation="another", output=pb.OUTPUT_TEXT))
    assert not other.identity.turns


async def test_a_turn_without_a_conversation_is_not_kept(stub: "Stub", cast: Cast) -> None:
    await respond(stub, header(output=pb.OUTPUT_TEXT))
    assert not cast.memory.remembered


# Overlap


async def test_voice_and_face_begin_while_the_reply_is_still_written(stub: "Stub", cast: Cast) -> None:
    cast.lead.before = gate = Gate("write", after=1)
    call = stub.Respond(iter([header()]), timeout=20)
    await gate.reached()
    assert (await until(call, "text")).text.sentence == "I am sorry to hear that."
    await until(call, "audio")
    await until(call, "video")
    gate.open()
    await until(call, "done")


async def test_the_message_is_worked_on_while_the_identity_is_still_recalled(stub: "Stub", cast: Cast) -> None:
    cast.memory.before = recalling = Gate("Recall")
    cast.lead.before = hearing = Gate("transcribe")
    parts = [header("", audio_size_bytes=len(AUDIO), output=pb.OUTPUT_TEXT), pb.RespondRequest(audio=AUDIO)]
    call = stub.Respond(iter(parts), timeout=20)
    await recalling.reached()
    await hearing.reached()
    recalling.open()
    hearing.open()
    await until(call, "done")


async def test_trace_and_deadline_are_the_same_in_all_services(stub: "Stub", calls: CallLog) -> None:
    call = stub.Respond(
        iter([header(conversation="talk")]), timeout=17, metadata=(("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"),)
    )
    assert (await until(call, "done")).done.trace_id == TRACE
    assert await call.read() is grpc.aio.EOF
    await calls.ended("Respond")
    methods = {"Respond", "Recall", "Understand", "PredictEmotion", "WriteReply", "Speak", "Animate"}
    methods |= {"GetReference", "GetDerived", "PutDerived", "Search", "Remember", "PutTimings"}
    assert {call.method for call in calls.calls} == methods
    assert {call.trace_id for call in calls.calls} == {TRACE}
    assert all(call.remaining_s is not None and call.remaining_s < 17.1 for call in calls.calls)
