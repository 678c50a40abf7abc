"""A voice or a face that is lost in the middle of a reply: another replica goes on where it was."""

import asyncio
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import cast as typed

import av
import numpy as np
import pytest

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from tests.deployment import Cast, Deployment
from tests.fake_faces import FakeFace
from tests.fake_voice import FakeVoice
from tests.fakes import PATIENCE_S, Gate
from tests.serving import CallLog
from tests.turns import Turn, header, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

SENTENCES = ("One. Two.", "Three. Four.", "Five. Six.")
PIECE_S = FakeVoice.sentence_s
REPLY_S = 6 * PIECE_S


@pytest.fixture
def cast() -> Cast:
    cast = Cast()
    cast.add_identity("ada")
    cast.lead.sentences = SENTENCES
    cast.more_voices, cast.more_portraits = (FakeVoice(),), (FakeFace(),)
    return cast


async def stub_of(deployment: Deployment, cast: Cast) -> "Stub":
    await deployment.start(cast)
    return typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(deployment.served["orchestrator"].channel))


async def reached(gates: Sequence[Gate]) -> int:
    """Waits until one of the gates is reached; returns which."""
    waiting = [asyncio.create_task(gate.reached()) for gate in gates]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
    found = next(number for number, task in enumerate(waiting) if task.done())
    for task in waiting:
        task.cancel()
    return found


async def answer_while_one_is_lost(
    deployment: Deployment, cast: Cast, stage: str, method: str, gates: Sequence[Gate], calls: CallLog
) -> Turn:
    """Answers while the replica that comes to its gate is stopped; the other one is let through."""
    stub = await stub_of(deployment, cast)
    answering = asyncio.create_task(respond(stub, header(identity="ada")))
    lost = await reached(gates)
    stopping = asyncio.create_task(deployment.stop(stage if not lost else f"{stage} 2"))
    assert (await calls.ended(method))[0].status == "CANCELLED"
    for gate in gates:
        gate.open()
    await stopping
    return await answering


def sound_of(turn: Turn) -> bytes:
    return b"".join(event.audio.samples for event in turn.events if event.HasField("audio"))


def degraded(turn: Turn) -> list[pb.Degraded]:
    return [event.degraded for event in turn.events if event.HasField("degraded")]


def frame_times(turn: Turn) -> list[float]:
    content = b"".join(event.video.content for event in turn.events if event.HasField("video"))
    with av.open(io.BytesIO(content), mode="r") as film:
        return [float(frame.time or 0) for frame in film.decode(video=0)]


async def test_a_reply_whose_voice_is_lost_is_heard_whole_and_no_sound_twice(
    deployment: Deployment, cast: Cast, calls: CallLog
) -> None:
    gates = [Gate("speak", after=3), Gate("speak", after=3)]
    for voice, gate in zip((cast.voice, *cast.more_voices), gates, strict=True):
        voice.before = gate
    turn = await answer_while_one_is_lost(deployment, cast, "tts", "Speak", gates, calls)
    assert degraded(turn) == []
    piece = np.frombuffer(sound_of(turn), "<i2").reshape(6, -1)
    assert (piece == piece[0]).all()
    assert len(piece[0]) == PIECE_S * FakeVoice.sample_rate_hz
    starts = [phoneme.start_s for event in turn.events if event.HasField("audio") for phoneme in event.audio.phonemes]
    assert starts == pytest.approx([start for number in range(6) for start in (number / 2, number / 2 + 0.2)])
    texts = sorted(text for voice in (cast.voice, *cast.more_voices) for text, _ in voice.spoken)
    assert texts == sorted([*SENTENCES, SENTENCES[1]])


async def test_a_reply_whose_face_is_lost_is_seen_whole_and_no_picture_twice(
    deployment: Deployment, cast: Cast, calls: CallLog
) -> None:
    gates = [Gate("feed", after=30), Gate("feed", after=30)]
    for face, gate in zip((cast.portrait, *cast.more_portraits), gates, strict=True):
        face.before = gate
    turn = await answer_while_one_is_lost(deployment, cast, "video", "Animate", gates, calls)
    assert frame_times(turn) == pytest.approx([frame / FakeFace.fps for frame in range(round(REPLY_S * FakeFace.fps))])
    (told,) = degraded(turn)
    assert (told.stage, told.dropped) == ("video", "an even motion")
    assert "another replica draws it from 1." in told.reason
    assert [bool(event.video.mime_type) for event in turn.events if event.HasField("video")].count(True) == 1


async def test_a_face_that_is_lost_before_anything_was_shown_is_replaced_and_nobody_sees_it(
    deployment: Deployment, cast: Cast, calls: CallLog
) -> None:
    gates = [Gate("prepare"), Gate("prepare")]
    for face, gate in zip((cast.portrait, *cast.more_portraits), gates, strict=True):
        face.before = gate
    turn = await answer_while_one_is_lost(deployment, cast, "video", "Animate", gates, calls)
    assert len(frame_times(turn)) == round(REPLY_S * FakeFace.fps)
    assert degraded(turn) == []
