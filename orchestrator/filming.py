"""Films a reply: in one call while it is spoken, or in segments that are rendered beside each other.

A renderer that draws faster than speech comes gets the speech as it comes. One that needs more time, and takes a few
seconds of speech at once, gets a call per segment as soon as that is spoken: the channel spreads them over the
replicas, and what they answer is handed on in the order of the reply.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from orchestrator.flow import Flow, watched
from orchestrator.messages import Scene, to_animate, to_animate_segment
from orchestrator.segments import Segment, cut
from orchestrator.stages import Video
from services.common.errors import BackendFailed, FailedPrecondition, NotReady, Overloaded, ServiceError

RETRY_S_MIN, RETRY_S_MAX = 0.25, 1.0
"""Pauses before a segment is sent again: another replica may be free long before the one that refused it."""
TRIES_MAX = 8
"""How often a segment is sent when waiting does not help, only another replica."""


@dataclass
class _Take:
    """One segment being filmed."""

    segment: Segment
    chunks: Flow[pb.VideoChunk] = field(default_factory=Flow)
    shooting: asyncio.Task[None] | None = None


class Camera:
    """Films one reply.

    Args:
        stage: The renderer.
        model: What it can do.
        quality: The tier that is wished; empty for the best that there is time for.
        idle_s: How long it may be silent over its work.
        left_s: Tells how many seconds the turn may still take.
        lowered: Is told why a lower tier is used than was wished.
    """

    def __init__(
        self,
        stage: Video,
        model: video.GetModelResponse,
        quality: str,
        idle_s: float,
        left_s: Callable[[], float],
        lowered: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._model = model
        self._wish = quality
        self._idle_s = idle_s
        self._left_s = left_s
        self._lowered = lowered
        self._takes: list[_Take] = []
        self._lost: tuple[Segment, ServiceError] | None = None
        self._tier: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """What the first segment is rendered with, and so what the others shall be."""

    async def film(self, scene: Scene, speech: Flow[tts.SpeechChunk]) -> AsyncGenerator[pb.VideoChunk]:
        """Yields the video of the speech; closing this stops every call.

        Raises:
            ServiceError: The rest cannot be had; of a reply in segments, the text names the first that is lost.
        """
        whole = self._in_segments if self._model.segment_max_s else self._as_it_comes
        async with aclosing(whole(scene, speech)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _as_it_comes(self, scene: Scene, speech: Flow[tts.SpeechChunk]) -> AsyncGenerator[pb.VideoChunk]:
        parts = self._stage.animate(to_animate(scene, self._wish, aiter(speech)))
        async with aclosing(self._chunks(parts, self._wish, "the reply", lambda: speech.last_s)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _in_segments(self, scene: Scene, speech: Flow[tts.SpeechChunk]) -> AsyncGenerator[pb.VideoChunk]:
        takes: Flow[_Take] = Flow()
        cutting = asyncio.create_task(self._cut(scene, speech, takes))
        try:
            async for take in takes:
                async for chunk in take.chunks:
                    if take.segment.number > 1:
                        chunk.ClearField("mime_type")
                    yield chunk
                if self._lost and self._lost[0] is take.segment:
                    raise _naming(*self._lost)
                if take.shooting:
                    await take.shooting
            await cutting
        finally:
            cutting.cancel()
            tasks = [take.shooting for take in self._takes if take.shooting]
            for task in tasks:
                task.cancel()
            await asyncio.gather(cutting, *tasks, return_exceptions=True)

    async def _cut(self, scene: Scene, speech: Flow[tts.SpeechChunk], takes: Flow[_Take]) -> None:
        """Begins a take for every segment as soon as it is spoken, until one is lost."""
        model = self._model
        try:
            shortest_and_longest_s = (model.segment_min_s, model.segment_max_s)
            async for segment in cut(aiter(speech), scene.sample_rate_hz, model.fps, shortest_and_longest_s):
                if self._lost:
                    return
                take = _Take(segment)
                self._takes.append(take)
                take.shooting = asyncio.create_task(self._shoot(scene, take))
                takes.put(take)
        finally:
            takes.end()

    async def _shoot(self, scene: Scene, take: _Take) -> None:
        """Has a segment rendered, by another replica when one refuses it or is gone."""
        tries = 0
        try:
            while True:
                try:
                    return await self._call(scene, take)
                except (Overloaded, NotReady) as error:
                    tries += 1
                    pause_s = self._pause_s(error, tries)
                    if take.chunks.first_s or pause_s is None:
                        raise
                await asyncio.sleep(pause_s)
        except ServiceError as error:
            self._lose(take.segment, error)
        finally:
            take.chunks.end()

    async def _call(self, scene: Scene, take: _Take) -> None:
        number, wish = take.segment.number, self._wish
        if number > 1:
            wish = await asyncio.shield(self._tier)
        started_s = time.monotonic()
        parts = self._stage.animate(to_animate_segment(scene, wish, take.segment), self._left_s())
        async with aclosing(self._chunks(parts, wish, f"segment {number}", lambda: started_s)) as chunks:
            async for chunk in chunks:
                take.chunks.put(chunk)

    async def _chunks(
        self, parts: AsyncGenerator[video.AnimateResponse], wish: str, what: str, fed_s: Callable[[], float]
    ) -> AsyncGenerator[pb.VideoChunk]:
        """Yields a call's video; the first chunk says its type and quality."""
        head = pb.VideoChunk()
        async with aclosing(watched("video", parts, self._idle_s, fed_s)) as answers:
            async for answer in answers:
                match answer.WhichOneof("part"):
                    case "ready":
                        head = pb.VideoChunk(mime_type=answer.ready.mime_type, quality=answer.ready.quality)
                        self._begin(answer.ready.quality, wish, what)
                    case "chunk":
                        head.content = answer.chunk
                        yield head
                        head = pb.VideoChunk()

    def _begin(self, quality: str, wish: str, what: str) -> None:
        """Notes the quality that a call is rendered with."""
        if not self._tier.done():
            self._tier.set_result(quality)
        wished = wish or next(iter(self._model.qualities), quality)
        if quality != wished:
            self._lowered(f"{what} is rendered as {quality!r} instead of {wished!r}: there is no time for better")

    def _pause_s(self, error: Overloaded | NotReady, tries: int) -> float | None:
        """How long to wait before a segment is sent again; None when that is of no use."""
        if isinstance(error, Overloaded) and error.retry_after_s < self._left_s():
            return min(max(error.retry_after_s, RETRY_S_MIN), RETRY_S_MAX)
        return RETRY_S_MIN if tries < TRIES_MAX and self._left_s() > RETRY_S_MIN else None

    def _lose(self, segment: Segment, error: ServiceError) -> None:
        """Gives up a segment, and with it all after it."""
        if not self._lost or segment.number < self._lost[0].number:
            self._lost = (segment, error)
        for take in self._takes[segment.number :]:
            if take.shooting:
                take.shooting.cancel()


def _naming(segment: Segment, error: ServiceError) -> ServiceError:
    if isinstance(error, FailedPrecondition):
        return error
    return BackendFailed(f"segment {segment.number} (from {segment.start_s:.2f} s on): {error}")
