"""A reply that is rendered in segments by several replicas, over real channels through all services."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from typing import cast as typed

import av
import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from e3rg.video.v1 import video_pb2 as video
from e3rg.video.v1 import video_pb2_grpc
from services.common.errors import BackendFailed
from tests.deployment import Cast, Deployment
from tests.fake_faces import FakeFace, FakePainter
from tests.fakes import Gate
from tests.serving import CallLog, refused

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

RATE_HZ, FPS = 16_000, 25
SENTENCE_S, PAUSE_S = 0.44, 0.2
SENTENCES = 6
FRAMES = round((SENTENCE_S + PAUSE_S) * SENTENCES * FPS)
FIRST_CUT, STEP = 13, 16
"""Frames before the first cut, which lies 60 ms within the first pause, and from each cut to the next."""
STEPS = FakePainter.steps["fine"]

Start = Callable[..., Awaitable["Stub"]]


@pytest.fixture
def cast() -> Cast:
    """A voice whose sentences grow louder, and a painter: a frame's blue tells which sound it belongs to."""
    cast = Cast()
    cast.add_identity("ada")
    cast.lead.sentences = tuple(f"Sentence {number}." for number in range(SENTENCES))
    cast.voice.sentence_s, cast.voice.pause_s = SENTENCE_S, PAUSE_S
    cast.voice.loudness, cast.voice.crescendo = 4000, 1500
    cast.portrait = FakePainter()
    return cast


@pytest.fixture
def start(cast: Cast, deployment: Deployment) -> Start:
    """Starts the deployment with so many replicas of the renderer."""

    async def now(replicas: int = 1) -> "Stub":
        cast.more_portraits = tuple(FakePainter() for _ in range(replicas - 1))
        await deployment.start(cast)
        channel = deployment.served["orchestrator"].channel
        return typed("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))

    return now


def painters(cast: Cast) -> list[FakePainter]:
    return [typed("FakePainter", face) for face in (cast.portrait, *cast.more_portraits)]


def header(**fields: object) -> pb.RespondRequest:
    return pb.RespondRequest(header=pb.RespondHeader(text="I lost my job.", identity="ada", **fields))  # type: ignore[arg-type]


class Reply:
    """Reply of a turn."""

    def __init__(self, events: list[pb.RespondResponse]) -> None:
        self.done = events[-1].done
        assert events[-1].HasField("done")
        self.video = [event.video for event in events if event.HasField("video")]
        self.qualities = [chunk.quality for chunk in self.video if chunk.quality]
        self.degraded = [event.degraded for event in events if event.HasField("degraded")]
        self.sound = np.concatenate(
            [np.frombuffer(event.audio.samples, "<i2") for event in events if event.HasField("audio")]
        )

    def frames(self) -> list[tuple[float, NDArray[np.float64]]]:
        """Time and mean colour of each frame."""
        with av.open(io.BytesIO(b"".join(chunk.content for chunk in self.video)), mode="r") as film:
            return [
                (float(frame.time or 0), frame.to_ndarray(format="rgb24").mean(axis=(0, 1)))
                for frame in film.decode(video=0)
            ]

    def expect_film(self, frames: int = FRAMES) -> None:
        """Every frame is there in its place, beside its own sound."""
        seen = self.frames()
        assert [time for time, _ in seen] == pytest.approx([frame / FPS for frame in range(frames)])
        step = RATE_HZ // FPS
        loudness = np.abs(self.sound[: frames * step].astype(float)).reshape(frames, step).mean(axis=1)
        assert np.abs([colour[2] for _, colour in seen] - loudness / 64).max() < 8


async def respond(stub: "Stub", **fields: object) -> Reply:
    return Reply([event async for event in stub.Respond(iter([header(**fields)]), timeout=60)])


async def backlogs(deployment: Deployment) -> list[float]:
    """Of each replica."""
    found = []
    for name in [name for name in deployment.served if name.split()[0] == "video"]:
        channel = deployment.served[name].channel
        stub = typed("video_pb2_grpc.VideoServiceAsyncStub", video_pb2_grpc.VideoServiceStub(channel))
        found.append((await stub.GetModel(video.GetModelRequest())).backlog_s)
    return found


async def test_a_reply_in_segments_is_one_film_in_order(start: Start, cast: Cast) -> None:
    reply = await respond(await start(replicas=3))
    reply.expect_film()
    assert reply.degraded == []
    shares = [len(painter.painted) for painter in painters(cast)]
    assert (sum(shares), min(shares) > 0) == (6, True)
    lengths = sorted(seconds for painter in painters(cast) for _, seconds in painter.painted)
    assert lengths == pytest.approx(sorted([0.52, 0.64, 0.64, 0.64, 0.64, 0.76]))
    assert reply.video[0].mime_type.startswith('video/mp4; codecs="avc1.')
    assert not any(chunk.mime_type for chunk in reply.video[1:])
    assert reply.qualities == ["fine"] * 6
    assert len({seed for painter in painters(cast) for _, seed in painter.shown}) == 1


async def test_sounds_are_told_from_the_start_of_their_segment(start: Start, cast: Cast) -> None:
    await respond(await start())
    first, second, *_ = [fed.visemes for fed in painters(cast)[0].fed]
    assert [span.viseme for span in first] == ["PP", "aa", "sil"]
    assert [span.start_s for span in first] == pytest.approx([0.0, 0.2, 0.44])
    assert [span.duration_s for span in first] == pytest.approx([0.2, 0.24, 0.08])  # the pause is cut in two
    assert [span.viseme for span in second] == ["sil", "PP", "aa", "sil"]
    assert [span.start_s for span in second] == pytest.approx([0.0, 0.12, 0.32, 0.56])


async def test_segments_are_rendered_beside_each_other(start: Start, cast: Cast) -> None:
    stub = await start(replicas=3)
    gates = [Gate("step") for _ in range(3)]
    for painter, gate in zip(painters(cast), gates, strict=True):
        painter.before = gate
    answering = asyncio.create_task(respond(stub))
    for gate in gates:
        await gate.reached()  # all three work at the same time
    for gate in gates:
        gate.open()
    (await answering).expect_film()


async def test_the_first_segment_is_shown_while_the_others_are_rendered(start: Start, cast: Cast) -> None:
    stub = await start()
    cast.portrait.before = gate = Gate("step", after=STEPS)
    call = stub.Respond(iter([header()]), timeout=60)
    received: list[pb.RespondResponse] = []
    while not (received and received[-1].HasField("video")):
        received.append(typed("pb.RespondResponse", await call.read()))
    await gate.reached()
    assert len(painters(cast)[0].painted) == 2
    gate.open()
    while (event := await call.read()) is not grpc.aio.EOF:
        received.append(typed("pb.RespondResponse", event))
    Reply(received).expect_film()


async def test_segments_that_are_ready_wait_for_those_before_them(start: Start, cast: Cast) -> None:
    cast.lead.sentences = cast.lead.sentences[:2]
    stub = await start(replicas=2)
    gates = [Gate("step") for _ in range(2)]
    for painter, gate in zip(painters(cast), gates, strict=True):
        painter.before = gate
    events: list[pb.RespondResponse] = []

    async def take() -> None:
        events.extend([event async for event in stub.Respond(iter([header()]), timeout=60)])

    taking = asyncio.create_task(take())
    for gate in gates:
        await gate.reached()
    by_loudness = sorted(range(2), key=lambda at: np.abs(painters(cast)[at].fed[0].samples).max())
    first, second = by_loudness
    gates[second].open()
    await painters(cast)[second].stopped.happened()
    assert not any(event.HasField("video") for event in events)
    gates[first].open()
    await taking
    Reply(events).expect_film(round((SENTENCE_S + PAUSE_S) * 2 * FPS))


# Quality


async def test_a_wished_quality_is_used_and_told(start: Start, cast: Cast) -> None:
    reply = await respond(await start(replicas=2), quality="draft")
    assert {quality for painter in painters(cast) for quality, _ in painter.painted} == {"draft"}
    assert reply.qualities == ["draft"] * 6
    assert reply.degraded == []


async def test_a_lowered_quality_is_told_and_kept_for_the_rest(start: Start, cast: Cast) -> None:
    cast.lead.sentences = cast.lead.sentences[:3]
    painters(cast)[0].step_s = 1.3  # a fine segment takes 20.8 s, of 20 that the turn has; a draft 5.2 s
    reply = await respond(await start())
    reply.expect_film(round((SENTENCE_S + PAUSE_S) * 3 * FPS))
    assert set(reply.qualities) == {"draft"}
    assert [(lost.stage, lost.dropped) for lost in reply.degraded] == [("video", "the best quality")]
    assert reply.degraded[0].reason == "segment 1 is rendered as 'draft' instead of 'fine': there is no time for better"


async def test_a_quality_that_the_renderer_lacks_is_refused_before_any_work(start: Start, cast: Cast) -> None:
    stub = await start()
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "header.quality: 'finest'; use one of: fine, draft"):
        await respond(stub, quality="finest")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "header.quality: 'fine' without video; ask for OUTPUT_VIDEO"):
        await respond(stub, quality="fine", output=pb.OUTPUT_AUDIO)
    assert cast.lead.orders == []
    assert cast.text.messages == []


async def test_a_renderer_that_keeps_up_with_speech_says_its_quality_too(start: Start, cast: Cast) -> None:
    cast.portrait = FakeFace()
    reply = await respond(await start(), quality="full")
    assert reply.qualities == ["full"]
    assert len(reply.frames()) == FRAMES


# Refused, gone, failed, cancelled


async def test_a_segment_that_one_replica_refuses_is_rendered_by_another(start: Start, cast: Cast) -> None:
    stub = await start(replicas=2)
    painters(cast)[0].step_s = 100
    reply = await respond(stub)
    reply.expect_film()
    assert [len(painter.painted) for painter in painters(cast)] == [0, 6]
    assert reply.degraded == []


async def test_when_nobody_has_time_the_voice_goes_on(start: Start, cast: Cast) -> None:
    painters(cast)[0].step_s = 100
    reply = await respond(await start())
    (lost,) = reply.degraded
    assert (lost.stage, lost.dropped) == ("video", "video")
    assert lost.reason.startswith("segment 1 (from 0.00 s on): 0.0 s of rendering are promised already and 0.5 s of")
    assert reply.video == []
    assert len(reply.sound) / RATE_HZ == pytest.approx(FRAMES / FPS)


async def test_a_replica_that_is_killed_is_replaced_by_the_others(
    start: Start, cast: Cast, deployment: Deployment, calls: CallLog
) -> None:
    cast.lead.sentences = cast.lead.sentences[:2]
    stub = await start(replicas=2)
    stays, dies = gates = [Gate("step"), Gate("step", after=3)]
    for painter, gate in zip(painters(cast), gates, strict=True):
        painter.before = gate
    answering = asyncio.create_task(respond(stub))
    for gate in gates:
        await gate.reached()
    stopping = asyncio.create_task(deployment.stop("video 2"))
    assert (await calls.ended("Animate"))[0].status == "CANCELLED"
    dies.open()
    await stopping
    stays.open()
    reply = await answering
    assert reply.degraded == []
    reply.expect_film(round((SENTENCE_S + PAUSE_S) * 2 * FPS))
    assert len(painters(cast)[0].painted) == 2


async def test_a_segment_that_fails_takes_the_rest_with_it_and_is_named(start: Start, cast: Cast) -> None:
    gate = Gate("step", after=2 * STEPS)
    gate.open()

    def fail_third(operation: str) -> None:
        gate(operation)
        if gate.came > 2 * STEPS:
            raise BackendFailed("out of paint")

    cast.portrait.before = fail_third
    reply = await respond(await start())
    (lost,) = reply.degraded
    assert (lost.stage, lost.dropped) == ("video", "the rest of the video")
    assert lost.reason.startswith("segment 3 (from 1.16 s on): video: internal error")
    reply.expect_film(FIRST_CUT + STEP)
    assert len(reply.sound) / RATE_HZ == pytest.approx(FRAMES / FPS)


async def test_a_renderer_that_hangs_is_given_up(start: Start, cast: Cast) -> None:
    cast.stage_idle_s = 0.5
    stub = await start()
    cast.portrait.before = gate = Gate("step", after=3)
    reply = await respond(stub)
    gate.open()
    (lost,) = reply.degraded
    assert lost.reason == "segment 1 (from 0.00 s on): video: nothing came for 0.5 s"


async def test_a_film_that_comes_too_late_is_given_up_before_the_turn_is(start: Start, cast: Cast) -> None:
    cast.turn_deadline_s = 4.0
    stub = await start()
    cast.portrait.before = gate = Gate("step", after=STEPS)
    reply = await respond(stub)
    gate.open()
    (lost,) = reply.degraded
    assert (lost.stage, lost.dropped) == ("video", "the rest of the video")
    assert lost.reason.startswith("segment 2 (from 0.52 s on): video: ")
    reply.expect_film(FIRST_CUT)
    assert reply.done.text == " ".join(cast.lead.sentences)


async def test_cancelling_stops_every_replica_and_gives_the_promises_back(
    start: Start, cast: Cast, deployment: Deployment, calls: CallLog
) -> None:
    cast.lead.sentences = cast.lead.sentences[:2]
    stub = await start(replicas=2)
    gates = [Gate("step", after=3) for _ in range(2)]
    for painter, gate in zip(painters(cast), gates, strict=True):
        painter.before = gate
    call = stub.Respond(iter([header()]), timeout=60)
    for gate in gates:
        await gate.reached()
    assert all(backlog > 0 for backlog in await backlogs(deployment))
    call.cancel()
    assert {ended.status for ended in await calls.ended("Animate", 2)} == {"CANCELLED"}
    assert await backlogs(deployment) == [0.0, 0.0]
    for gate, painter in zip(gates, painters(cast), strict=True):
        gate.open()
        await painter.stopped.happened()
        assert gate.came == 4  # the step that was being made, and none after it
        assert len(painter.painted) == 1
