"""Which replica renders a segment, and when it is sent: the camera over real channels to renderers of segments."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

import emotions
from benchmarks.segments import scene
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from e3rg.video.v1 import video_pb2_grpc
from orchestrator.filming import TRIES_MAX, Camera
from orchestrator.flow import Flow
from orchestrator.messages import Scene
from orchestrator.stages import Video
from services.common import clients
from services.common.errors import BackendFailed, NotReady
from services.common.replica import Choice
from tests.contract.test_video_segments import segment
from tests.fake_faces import FakeFace, FakePainter
from tests.fakes import PATIENCE_S, Gate, fail
from tests.model_services import serving_video
from tests.samples import png
from tests.serving import CallLog

RATE_HZ, SENTENCE_S, PAUSE_S = 16_000, 0.44, 0.2
LATE_FRAME = 15
"""Of the 16 of one sentence."""


class Watched(Video):
    """Notes where in the film each segment lies that is sent."""

    sent: list[int]
    news: asyncio.Event

    async def animate(
        self,
        parts: AsyncIterator[video.AnimateRequest],
        timeout_s: float = PATIENCE_S,
        choice: Choice | None = None,
    ) -> AsyncGenerator[video.AnimateResponse]:
        async def noted() -> AsyncIterator[video.AnimateRequest]:
            async for part in parts:
                if part.HasField("header"):
                    self.sent.append(part.header.first_frame)
                    self.news.set()
                yield part

        async with aclosing(super().animate(noted(), timeout_s, choice)) as answers:
            async for answer in answers:
                yield answer


@asynccontextmanager
async def studio(*painters: FakeFace, waiting_max: int = 8) -> AsyncIterator[Watched]:
    """Serves a replica for each painter. One whose `before` is a gate for steps is at work for somebody else."""
    async with AsyncExitStack() as stack:
        addresses = []
        for painter in painters:
            served = await stack.enter_async_context(serving_video(painter, emotions.load(), waiting_max))
            addresses.append(served.address)
            if isinstance(painter.before, Gate):
                call = video_pb2_grpc.VideoServiceStub(served.channel).Animate(iter(segment(0.8)))
                stack.callback(call.cancel)
                await painter.before.reached()
        channel = await stack.enter_async_context(clients.open_channel(f"ipv4:{','.join(addresses)}"))
        await channel.replicas.wait_ready(len(painters))
        watched = Watched(channel)
        watched.sent, watched.news = [], asyncio.Event()
        yield watched


def sentence() -> tts.SpeechChunk:
    said = 8000 * np.sin(np.arange(round(SENTENCE_S * RATE_HZ)) / 9)
    sound = np.append(said, np.zeros(round(PAUSE_S * RATE_HZ))).astype("<i2").tobytes()
    return tts.SpeechChunk(samples=sound, sample_rate_hz=RATE_HZ)


async def film(
    stage: Video,
    sentences: int = 1,
    idle_s: float = PATIENCE_S,
    where: Scene | None = None,
    keep: Callable[[str, bytes], None] = lambda *_: None,
    uneven: Callable[[str], None] = lambda _: None,
) -> bytes:
    """Films sentences that are there at once; the turn has 20 s left, for ever."""
    speech: Flow[tts.SpeechChunk] = Flow()
    for _ in range(sentences):
        speech.put(sentence())
    speech.end()
    camera = Camera(stage, await stage.model(), "", idle_s, lambda: 20.0, lambda _: None, uneven, keep)
    async with asyncio.timeout(PATIENCE_S):
        return b"".join([chunk.content async for chunk in camera.film(where or scene(), speech)])


def busy(owes_s: float) -> FakePainter:
    """A painter to whom 0.8 s of speech cost so much, and who is held at its first step."""
    painter = FakePainter()
    painter.step_s = owes_s / 16
    painter.before = Gate("step")
    return painter


def go(painter: FakePainter) -> None:
    assert isinstance(painter.before, Gate)
    painter.before.open()


async def test_segments_go_to_the_replica_that_is_free() -> None:
    at_work, free = busy(8), FakePainter()
    async with studio(at_work, free) as stage:
        assert await film(stage, sentences=4)
        go(at_work)
    assert [len(painter.painted) for painter in (at_work, free)] == [1, 4]


async def test_where_none_is_free_the_one_that_owes_least_is_waited_for() -> None:
    much, little = busy(8), busy(4)
    async with studio(much, little) as stage:
        filming = asyncio.create_task(film(stage))
        async with asyncio.timeout(PATIENCE_S):
            await stage.news.wait()
        go(little)
        assert await filming
        go(much)
    assert [len(painter.painted) for painter in (much, little)] == [1, 2]


async def test_each_segment_is_sent_once_where_nobody_refuses() -> None:
    async with studio(FakePainter(), FakePainter()) as stage:
        assert await film(stage, sentences=4)
        assert stage.sent == sorted(set(stage.sent))


async def test_a_segment_is_sent_when_the_one_before_it_has_its_place(calls: CallLog) -> None:
    painter = busy(4)
    async with studio(painter, waiting_max=1) as stage:
        filming = asyncio.create_task(film(stage, sentences=4))
        # Nobody else has room for the first either, so it keeps its place in the line, which is full then.
        assert {call.status for call in await calls.ended("Animate", 4)} == {"RESOURCE_EXHAUSTED"}
        assert set(stage.sent) == {0, 13}
        go(painter)
        assert await filming
    assert [seconds for _, seconds in painter.painted] == pytest.approx([0.8, 0.52, 0.64, 0.64, 0.76])


async def test_what_no_replica_can_end_in_time_is_tried_and_not_waited_for() -> None:
    painter = FakePainter()
    painter.step_s = 5.2  # a draft of 0.64 s takes 20.8 s
    async with studio(painter) as stage:
        with pytest.raises(BackendFailed, match=r"segment 1 \(from 0.00 s on\): 0.0 s of rendering are promised"):
            await film(stage)
        assert stage.sent == [0] * TRIES_MAX


async def test_a_deadline_that_a_busy_replica_cannot_keep_is_not_waited_for() -> None:
    painter = busy(19)  # it owes 19 s when a draft of 0.64 s takes 4.75 s and there are 20
    async with studio(painter) as stage:
        with pytest.raises(BackendFailed, match=r"segment 1 .* allow 3\.\d s more"):
            await film(stage)
        assert stage.sent == [0] * TRIES_MAX
        go(painter)


async def test_what_one_replica_fails_over_another_renders() -> None:
    broken, sound = FakePainter(), FakePainter()
    broken.before = fail(BackendFailed("out of paint"))
    async with studio(broken, sound) as stage:
        assert await film(stage, sentences=4)
    assert [len(painter.painted) for painter in (broken, sound)] == [0, 4]


async def test_a_segment_that_is_lost_while_it_is_shown_is_rendered_again_and_shown_once() -> None:
    async with studio(FakePainter()) as stage:
        whole = await film(stage)
    painters, told, frames = (FakePainter(), FakePainter()), list[str](), itertools.count(1)

    def die_once(operation: str) -> None:
        if operation == "frame" and next(frames) == LATE_FRAME:
            raise NotReady("gone")

    async with studio(*painters) as stage:
        for painter in painters:
            painter.before = die_once
        assert await film(stage, uneven=told.append) == whole
    assert told == ["segment 1: video: gone; another replica renders it again"]


async def test_what_one_replica_hangs_over_another_renders() -> None:
    hanging, sound = FakePainter(), FakePainter()
    async with studio(hanging, sound) as stage:
        hanging.before = gate = Gate("step")
        assert await film(stage, sentences=2, idle_s=1.0)
        gate.open()
    assert len(sound.painted) == 2


async def test_what_the_request_is_at_fault_for_is_not_sent_again() -> None:
    async with studio(FakePainter(), FakePainter()) as stage:
        with pytest.raises(BackendFailed, match=r"segment 1 .*: header.portrait_digest: "):
            await film(stage, where=replace(scene(), portrait=png(colour=(0, 0, 0))))
        assert stage.sent == [0]


@pytest.mark.parametrize("kind", [FakeFace, FakePainter])
async def test_a_face_that_had_to_be_rigged_is_given_away_once_and_spares_the_rigging_later(
    kind: Callable[[], FakeFace],
) -> None:
    kept: list[bytes] = []
    async with studio(first := kind()) as stage:
        await film(stage, sentences=4, keep=lambda _, face: kept.append(face))
    (rigged,) = kept
    assert rigged.endswith(first.packed)
    async with studio(later := kind()) as stage:
        await film(stage, sentences=4, where=replace(scene(), rigged=rigged), keep=lambda _, face: kept.append(face))
    assert (later.prepared, later.restored, kept) == ([], [first.packed], [rigged])


async def test_a_stale_rigged_face_is_replaced() -> None:
    kept: list[bytes] = []
    async with studio(FakePainter()) as stage:
        await film(stage, where=replace(scene(), rigged=b"of another model"), keep=lambda _, face: kept.append(face))
    assert len(kept) == 1


async def test_what_one_replica_has_rigged_for_a_film_the_others_need_not() -> None:
    painters = FakePainter(), FakePainter()
    speech: Flow[tts.SpeechChunk] = Flow()
    is_rigged = asyncio.Event()
    async with studio(*painters) as stage:
        model = await stage.model()
        camera = Camera(
            stage, model, "", PATIENCE_S, lambda: 20.0, lambda _: None, lambda _: None, lambda *_: is_rigged.set()
        )
        speech.put(sentence())
        speech.put(sentence())
        filming = asyncio.create_task(collected(camera.film(scene(), speech)))
        async with asyncio.timeout(PATIENCE_S):
            await is_rigged.wait()
            for _ in range(4):
                speech.put(sentence())
            speech.end()
            assert await filming
    assert all(painter.painted for painter in painters)
    assert sorted(len(painter.prepared) for painter in painters) == [0, 1]
    assert [len(painter.restored) for painter in painters if not painter.prepared] == [1]


async def collected(chunks: AsyncGenerator[pb.VideoChunk]) -> bytes:
    return b"".join([chunk.content async for chunk in chunks])
