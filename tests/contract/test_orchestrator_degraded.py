"""Turns that go on without a voice, a face, a voter, a writer or a memory that fails or is gone, and say so."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.common.errors import BackendFailed
from services.mllm.domain import ReplyRecord
from tests.deployment import Cast, Deployment
from tests.fakes import Gate, fail
from tests.serving import refused
from tests.turns import REPLY, Start, Turn, away, header, lost, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub


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
    cast.memory.before = gate = Gate("GetDerived", after=1)  # The face is asked for once the voice has failed.
    events = []
    async for event in stub.Respond(iter([header()]), timeout=20):
        events.append(event)
        if event.HasField("degraded"):
            gate.open()
    turn = Turn(events)
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
    assert [asked.hits_max for asked in cast.memory.sought] == [0]
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
