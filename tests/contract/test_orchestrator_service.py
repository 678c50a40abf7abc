"""Every promise of `orchestrator.proto` about a turn, over real channels through all services with fake models."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import grpc
import pytest

import emotions
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.common.errors import BackendFailed
from services.mllm.domain import ReplyRecord, Utterance
from services.video.domain import Expression
from tests.deployment import Cast, Deployment
from tests.fakes import FakeVoice, Gate, fail
from tests.samples import film, wav
from tests.serving import CallLog, refused
from tests.turns import away, header, lost, respond, until

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
REPLY = "I am sorry to hear that. Tell me more."
TRACE = "0af7651916cd43dd8448eb211c80319c"
AUDIO = wav()
INFER = "infer_emotion"

Start = Callable[[], Awaitable["Stub"]]


@pytest.fixture
def cast() -> Cast:
    cast = Cast()
    cast.add_identity("ada")
    return cast


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    running = Deployment()
    yield running
    await running.stop_all()


@pytest.fixture
def start(cast: Cast, deployment: Deployment) -> Start:
    """Starts the deployment, for tests that change the cast before."""

    async def now() -> "Stub":
        await deployment.start(cast)
        channel = deployment.served["orchestrator"].channel
        return typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))

    return now


@pytest.fixture
async def stub(start: Start) -> "Stub":
    return await start()


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
    assert done.record == mllm.ReplyRecord(candidates=3, rejected=["echo: I lost my job."])
    assert len(done.trace_id) == 32


async def test_every_stage_says_when_it_worked(stub: "Stub") -> None:
    turn = await respond(stub, header(conversation="talk"))
    stages = {"recall", "decode", "vote", "search", "reply", "speech", "video", "remember", "turn"}
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
    cast.turn_deadline_s = 2.5
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
    methods = {"Respond", "Recall", "GetModel", "Understand", "PredictEmotion", "WriteReply", "Speak", "Animate"}
    methods |= {"GetReference", "GetDerived", "PutDerived", "Search", "SearchExemplars", "Remember"}
    assert {call.method for call in calls.calls} == methods
    assert {call.trace_id for call in calls.calls} == {TRACE}
    assert all(call.remaining_s is not None and call.remaining_s < 17.1 for call in calls.calls)


# Cancelling


async def test_cancelling_a_turn_stops_every_stage_that_works(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.lead.sentences = tuple(f"Sentence {number}." for number in range(50))
    cast.lead.before = writing = Gate("write", after=2)
    cast.voice.before = speaking = Gate("speak", after=1)
    cast.portrait.before = drawing = Gate("feed", after=1)
    call = stub.Respond(iter([header()]), timeout=100)  # not the deadline stops them
    for gate in (writing, speaking, drawing):
        await gate.reached()
    call.cancel()
    for method, times in (("Respond", 1), ("WriteReply", 2), ("Speak", 1), ("Animate", 1)):
        assert {ended.status for ended in await calls.ended(method, times)} == {"CANCELLED"}, method
    for gate in (writing, speaking, drawing):
        gate.open()
    for fake in (cast.lead, cast.voice, cast.portrait):
        await fake.stopped.happened()
    assert (writing.came, speaking.came) == (3, 2)  # what was being made, and nothing after it
    cast.lead.sentences = ("All is well.",)
    assert (await respond(stub, header())).done.text == "All is well."  # every model is free again


async def test_cancelling_stops_the_vote_too(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.face.before = gate = Gate("predict")
    call = stub.Respond(iter([header()]), timeout=100)
    await gate.reached()
    call.cancel()
    assert [ended.status for ended in await calls.ended("Understand")] == ["CANCELLED"]
    assert "CANCELLED" in {ended.status for ended in await calls.ended("PredictEmotion", times=3)}
    gate.open()
    assert cast.lead.orders == []


async def test_a_turn_that_takes_too_long_is_given_up_and_its_stages_stop(
    start: Start, cast: Cast, calls: CallLog
) -> None:
    cast.turn_deadline_s = 0.5
    stub = await start()
    cast.lead.before = gate = Gate("write", after=1)
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "the turn took longer than 0.5 s, the orchestrator's limit"):
        await respond(stub, header())
    for method, times in (("WriteReply", 2), ("Speak", 1), ("Animate", 1)):
        assert await calls.ended(method, times)
    gate.open()
    await cast.lead.stopped.happened()
    assert gate.came == 2


async def test_the_callers_deadline_ends_the_turn(stub: "Stub", cast: Cast, calls: CallLog) -> None:
    cast.lead.before = gate = Gate("write")
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        await respond(stub, header(), timeout_s=0.5)
    await calls.ended("WriteReply", times=2)
    gate.open()
    await cast.lead.stopped.happened()


# Wrong requests


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "header: missing; send it first"),
        ([pb.RespondRequest(audio=AUDIO), header()], "header: missing"),
        ([header(), header()], "part: header is out of order; send one header, then media"),
        ([header(), pb.RespondRequest()], "part: nothing is out of order"),
        ([header(identity="")], "header.identity: empty; name an identity"),
        ([header(identity="../ada")], "identity: '../ada' is not a name"),
        ([header(conversation="a b")], "conversation: 'a b' is not a name"),
        ([header(conversation="x" * 64)], "conversation: 'xxx"),
        ([header(person="a b", conversation="talk")], "person: 'a b' is not a name"),
        ([header(tenant="../other")], "tenant: '../other' is not a name"),
        ([header(keep_clips=True)], "header.keep_clips: set for a turn that stands alone and is not kept; name a"),
        ([header("")], "header.text: the message is empty; send text, audio or video"),
        ([header(" \n")], "header.text: the message is empty"),
        ([header("x" * 4001)], "header.text: 4001 characters; send at most 4000"),
        ([header(reply_emotion="meh")], "header.reply_emotion: 'meh' is no emotion label; use one of: neutral"),
        ([header(reply_intensity=0.5)], "header.reply_intensity: set without reply_emotion"),
        ([header(reply_emotion="sad", reply_intensity=2)], "header.reply_intensity: 2; send 0 to 1"),
        ([header(policy="stoic")], "header.policy: 'stoic' is no policy; use one of: "),
        ([header(output=9)], "header.output: 9; use one of: OUTPUT_UNSPECIFIED, OUTPUT_TEXT"),
        ([header(audio_size_bytes=(32 << 20) + 1)], "header.audio_size_bytes: 33554433; send at most 33554432"),
        ([header(video_size_bytes=1 << 60)], "header.video_size_bytes: 1152921504606846976; send at most"),
        ([header(audio_size_bytes=100), pb.RespondRequest(audio=bytes(60))], "audio: 60 of 100 bytes came"),
        ([header(audio_size_bytes=9), pb.RespondRequest(audio=b"not audio")], "audio: "),
        ([header(video_size_bytes=9), pb.RespondRequest(video=b"not video")], "video: "),
        (
            [header(video_size_bytes=2 * MIB), pb.RespondRequest(video=bytes(MIB + 1))],
            "video: a message holds 1048577 bytes; send at most 1048576",
        ),
        ([header(), pb.RespondRequest(audio=b"unannounced")], "context: audio came instead"),
    ],
)
async def test_a_wrong_request_is_refused_with_field_value_and_remedy(
    stub: "Stub", cast: Cast, parts: list[pb.RespondRequest], text: str
) -> None:
    with refused(INVALID, text):
        await respond(stub, *parts)
    assert cast.lead.orders == []
    assert (await respond(stub, header(output=pb.OUTPUT_TEXT))).done.text == REPLY  # it still works


async def test_an_unknown_identity_is_not_found_and_nothing_is_written_for_it(stub: "Stub", cast: Cast) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "identity 'bob' is unknown"):
        await respond(stub, header(identity="bob"))
    assert cast.lead.orders == []


@pytest.mark.parametrize(
    ("uses", "output", "lacking"),
    [
        ((INFER,), pb.OUTPUT_VIDEO, "animate_face and clone_voice"),
        ((INFER, "clone_voice"), pb.OUTPUT_UNSPECIFIED, "animate_face"),
        ((INFER, "animate_face"), pb.OUTPUT_VIDEO, "clone_voice"),
        ((INFER, "animate_face", "keep_turns"), pb.OUTPUT_AUDIO, "clone_voice"),
        (("animate_face", "clone_voice"), pb.OUTPUT_TEXT, "infer_emotion"),
    ],
)
async def test_nothing_is_made_that_the_consent_does_not_allow(
    stub: "Stub", cast: Cast, uses: tuple[str, ...], output: pb.Output, lacking: str
) -> None:
    cast.add_identity("shy", uses)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, f"identity 'shy' lacks {lacking}; have it allowed"):
        await respond(stub, header(identity="shy", output=output))
    assert (cast.voice.prepared, cast.portrait.prepared, cast.lead.orders) == ([], [], [])
    cast.add_identity("bold", (INFER,))
    assert (await respond(stub, header(identity="bold", output=pb.OUTPUT_TEXT))).done.text == REPLY


@pytest.mark.parametrize("service", ["understanding", "memory", "tts", "video"])
async def test_services_with_different_wheels_are_not_paired(start: Start, cast: Cast, service: str) -> None:
    cast.wheels = {service: replace(WHEEL, digest="0" * 64)}
    if service == "understanding":
        cast.wheels = dict.fromkeys((service, *(f"mllm {voter}" for voter in cast.voters)), cast.wheels[service])
    stub = await start()
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "deploy the same version of both") as failure:
        await respond(stub, header())
    assert "000000000000" in str(failure.value.details())
    assert WHEEL.digest[:12] in str(failure.value.details())
    assert cast.lead.orders == []  # not even a reply is written


async def test_a_full_stage_refuses_the_turn_and_says_when_to_come_again(start: Start, cast: Cast) -> None:
    cast.waiting_max = 0
    stub = await start()
    cast.lead.before = gate = Gate("write")
    first = stub.Respond(iter([header(output=pb.OUTPUT_TEXT)]), timeout=20)
    await gate.reached()
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "0 requests wait for the model, the limit") as failure:
        await respond(stub, header(output=pb.OUTPUT_TEXT))
    assert int(dict(failure.value.trailing_metadata() or ())["retry-after-ms"]) > 0
    gate.open()
    await until(first, "done")


@pytest.mark.parametrize(("service", "named"), [("understanding", "understanding: "), ("memory", "memory: ")])
async def test_a_needed_service_that_is_gone_is_named(
    stub: "Stub", deployment: Deployment, service: str, named: str
) -> None:
    await deployment.stop(service)
    with refused(grpc.StatusCode.UNAVAILABLE, named):
        await respond(stub, header())


async def test_an_unexpected_failure_is_internal_and_tells_nothing(
    stub: "Stub", cast: Cast, caplog: pytest.LogCaptureFixture
) -> None:
    cast.memory.before = fail(RuntimeError("secret"))
    with refused(grpc.StatusCode.INTERNAL, "internal error; the log of the service has the details") as failure:
        await respond(stub, header())
    assert "secret" not in str(failure.value)
    assert "secret" in caplog.text


# Degraded


async def test_without_a_face_the_voice_goes_on(stub: "Stub", cast: Cast) -> None:
    cast.portrait.before = fail(BackendFailed("secret"))
    turn = await respond(stub, header())
    assert lost(turn) == [("video", "video")]
    assert turn.degraded[0].reason == "video: internal error; the log of the service has the details"
    assert (turn.done.text, turn.audio_s, turn.video) == (REPLY, 1.0, [])


async def test_a_face_that_hangs_is_given_up_and_the_turn_ends(start: Start, cast: Cast) -> None:
    cast.stage_idle_s = 0.5
    stub = await start()
    cast.portrait.before = gate = Gate("feed", after=20)
    turn = await respond(stub, header())
    gate.open()
    assert lost(turn) == [("video", "the rest of the video")]
    assert turn.degraded[0].reason == "video: nothing came for 0.5 s"
    assert (turn.done.text, turn.audio_s) == (REPLY, 1.0)


async def test_a_slow_writer_is_not_taken_for_a_voice_that_hangs(start: Start, cast: Cast) -> None:
    cast.stage_idle_s = 0.1
    stub = await start()
    cast.lead.before = gate = Gate("write")
    answering = asyncio.create_task(respond(stub, header()))
    await gate.reached()
    await asyncio.wait({answering}, timeout=0.5)
    gate.open()
    assert lost(await answering) == []


async def test_a_cry_for_help_is_shown_gravely_and_said_to_be_a_stored_reply(stub: "Stub", cast: Cast) -> None:
    cast.text.prediction = replace(cast.text.prediction, crisis=True)
    turn = await respond(stub, header(reply_emotion="joyful"))
    assert (turn.delivery.decided_by, turn.delivery.face_class) == ("crisis", "sad")


async def test_a_face_that_fails_in_the_middle_leaves_its_beginning(stub: "Stub", cast: Cast) -> None:
    gate = Gate("feed", after=20)
    gate.open()

    def fail_later(operation: str) -> None:
        gate(operation)
        if gate.came > 20:
            raise BackendFailed("out of paint")

    cast.portrait.before = fail_later
    turn = await respond(stub, header())
    assert lost(turn) == [("video", "the rest of the video")]
    assert turn.audio_s == 1.0
    assert turn.video


async def test_without_a_voice_the_text_goes_on_and_there_is_no_empty_film(stub: "Stub", cast: Cast) -> None:
    cast.voice.before = fail(BackendFailed("hoarse"))
    turn = await respond(stub, header())
    assert lost(turn) == [("speech", "audio and video")]
    assert (turn.done.text, turn.audio, turn.video, turn.done.audio_duration_s) == (REPLY, [], [], 0)
    assert "video" not in turn.timings


async def test_a_voice_that_fails_in_the_middle_leaves_its_beginning_with_the_film_of_it(
    stub: "Stub", cast: Cast
) -> None:
    spoken: list[str] = []

    def fail_second(operation: str) -> None:
        spoken.append(operation)
        if spoken.count("speak") == 2:
            raise BackendFailed("hoarse")

    cast.voice.before = fail_second
    turn = await respond(stub, header())
    assert lost(turn) == [("speech", "the rest of the audio and video")]
    assert turn.done.text == REPLY
    assert turn.audio_s == 0.5
    assert turn.done.audio_duration_s == 0.5
    assert turn.frames == 13


@pytest.mark.parametrize(
    ("service", "dropped", "seconds"),
    [("video", [("video", "video")], 1.0), ("tts", [("speech", "audio and video")], 0.0)],
)
async def test_a_generator_that_is_gone_is_done_without(
    stub: "Stub", deployment: Deployment, service: str, dropped: list[tuple[str, str]], seconds: float
) -> None:
    await deployment.stop(service)
    turn = await respond(stub, header())
    assert lost(turn) == dropped
    assert turn.degraded[0].reason.startswith(f"{service}: ")
    assert (turn.done.text, turn.audio_s, turn.video) == (REPLY, seconds, [])


async def test_a_voter_that_is_gone_is_on_record_and_the_turn_goes_on(stub: "Stub", deployment: Deployment) -> None:
    await deployment.stop("mllm face")
    turn = await respond(stub, header())
    assert dict(turn.understood.record.tally) == {"sad": 2}
    assert turn.frames == 25


async def test_a_turn_that_cannot_be_kept_is_answered_all_the_same(start: Start, cast: Cast) -> None:
    cast.turn_deadline_s = 3
    stub = await start()
    cast.memory.before = away("Remember")
    turn = await respond(stub, header(conversation="talk"))
    assert lost(turn) == [("remember", "the memory of this turn")]
    assert turn.degraded[0].reason == "memory: the store is away; retry"
    assert len({request.turn.id for request in cast.memory.remembered}) == 1 < len(cast.memory.remembered)
    assert (turn.done.turn, turn.done.text, turn.frames) == ("", REPLY, 25)


async def test_without_consent_to_keep_turns_none_is_kept_and_the_reply_says_so(stub: "Stub", cast: Cast) -> None:
    cast.add_identity("shy", ("animate_face", "clone_voice", "infer_emotion"))
    turn = await respond(stub, header(identity="shy", conversation="talk", output=pb.OUTPUT_TEXT))
    assert lost(turn) == [("remember", "the memory of this turn")]
    assert "keep_turns" in turn.degraded[0].reason
    assert cast.memory.sought == []
    assert not cast.memory.turns["default", "shy", "(talk)"]


async def test_a_writer_that_fails_in_the_middle_leaves_its_beginning(stub: "Stub", cast: Cast) -> None:
    written: list[str] = []

    def fail_second(operation: str) -> None:
        written.append(operation)
        if written.count("write") == 2:
            raise BackendFailed("out of ink")

    cast.lead.before = fail_second
    turn = await respond(stub, header())
    assert lost(turn) == [("reply", "the rest of the reply")]
    assert turn.done.text == "I am sorry to hear that."
    assert turn.audio_s == 0.5


async def test_without_a_single_sentence_there_is_no_reply(stub: "Stub", cast: Cast) -> None:
    def broken(operation: str) -> None:
        if operation == "write":
            raise BackendFailed("out of ink")

    cast.lead.before = broken
    with refused(grpc.StatusCode.INTERNAL, "internal error"):
        await respond(stub, header())


async def test_a_reply_that_is_not_the_models_own_says_so(stub: "Stub", cast: Cast) -> None:
    cast.lead.record = ReplyRecord("exemplar", 4, ("echo: x",))
    turn = await respond(stub, header(output=pb.OUTPUT_TEXT))
    assert lost(turn) == [("reply", "the model's own words")]
    assert turn.done.record.degraded == "exemplar"
