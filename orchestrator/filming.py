"""Films a reply: in one call while it is spoken, or in segments that are rendered beside each other.

A renderer that draws faster than speech comes gets the speech as it comes. One that needs more time, and takes a few
seconds of speech at once, gets a call per segment as soon as that is spoken and the one before it has found its place:
each by the replica that can begin soonest, and what they answer is handed on in the order of the reply.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from e3rg.common.v1 import common_pb2 as common
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from orchestrator.flow import Flow, watched
from orchestrator.fragments import Fragments
from orchestrator.messages import Scene, to_animate, to_animate_segment
from orchestrator.resuming import LOSSES_MAX, speech_after
from orchestrator.segments import Segment, cut
from orchestrator.stages import Video
from services.common.channels import Replay
from services.common.clock import now_s
from services.common.errors import (
    BackendFailed,
    DeadlineExceeded,
    FailedPrecondition,
    NotReady,
    Overloaded,
    ServiceError,
)
from services.common.replica import Choice

RETRY_S_MIN, RETRY_S_MAX = 0.25, 1.0
"""Pauses before a segment is sent again where waiting helps: another replica may be free long before the one that
refused it, or come back."""
TRIES_MAX = 8
"""Maximum attempts for a segment where waiting does not help, only another replica."""
FAILURES_MAX = 1
"""Maximum failures or hangs over a segment; the next one is the segment's own fault."""


@dataclass
class _Take:
    """One segment being filmed."""

    segment: Segment
    wish: asyncio.Future[str]
    """The tier that is wished: that of the segment before it, and so not known before that is accepted."""
    accepted: asyncio.Future[str]
    """The tier that it is rendered with, once a replica has given it a place."""
    chunks: Flow[pb.VideoChunk] = field(default_factory=Flow)
    shooting: asyncio.Task[None] | None = None
    refused: set[str] = field(default_factory=set)
    """Replicas that had no time for it."""
    handed_on: int = 0
    """Chunks of it that were handed on."""


class Camera:
    """Films one reply.

    Args:
        stage: The renderer.
        model: What it can do.
        quality: The tier that is wished; empty for the best that there is time for.
        idle_s: How long it may be silent over its work.
        left_s: Tells how many seconds the turn may still take.
        lowered: Is told why a lower tier is used than was wished.
        uneven: Is told why the motion may jump: a replica was lost.
        keep: Gets the digest of the model and the rigged face, at most once, when a replica had to rig it.
        served: Gets the card of the model that renders, as often as a replica begins.
    """

    def __init__(
        self,
        stage: Video,
        model: video.GetModelResponse,
        quality: str,
        idle_s: float,
        left_s: Callable[[], float],
        lowered: Callable[[str], None],
        uneven: Callable[[str], None],
        keep: Callable[[str, bytes], None] = lambda *_: None,
        served: Callable[[common.ModelCard], None] = lambda _: None,
    ) -> None:
        self._stage = stage
        self._model = model
        self._wish = quality
        self._idle_s = idle_s
        self._left_s = left_s
        self._lowered = lowered
        self._uneven = uneven
        self._keep, self._served = keep, served
        self._rigged = b""
        self._takes: list[_Take] = []
        self._lost: tuple[Segment, ServiceError] | None = None
        self._failed: set[str] = set()

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
        """Yields the video as it is drawn. When a replica is lost, another draws on after the last whole fragment."""
        replay, fragments = Replay(aiter(speech)), Fragments()
        try:
            for left in range(LOSSES_MAX, -1, -1):
                try:
                    async with aclosing(self._drawn(scene, speech, replay, fragments)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    return
                except NotReady as error:
                    if not (left and replay.can_repeat):
                        raise
                    fragments.rest()
                    if fragments.frames:
                        at_s = fragments.frames / self._model.fps
                        self._uneven(f"{error}; another replica draws it from {at_s:.2f} s on")
        finally:
            await replay.close()

    async def _drawn(
        self, scene: Scene, speech: Flow[tts.SpeechChunk], replay: Replay[tts.SpeechChunk], fragments: Fragments
    ) -> AsyncGenerator[pb.VideoChunk]:
        """Yields what one replica draws, from the first picture that the fragments lack."""
        frame = fragments.frames
        rest = speech_after(frame, self._model.fps, scene.sample_rate_hz, aiter(replay))
        known = replace(scene, rigged=self._rigged or scene.rigged)
        parts = self._stage.animate(to_animate(known, self._wish, rest, frame))
        async with aclosing(watched("video", parts, self._idle_s, lambda: speech.last_s)) as answers:
            ready = await _accepted(answers)
            self._served(ready.card)
            if not frame:
                self._tell(ready.quality, self._wish, "the reply")
            head = pb.VideoChunk()
            async with aclosing(self._chunks(ready, answers)) as chunks:
                async for chunk in chunks:
                    if chunk.mime_type and not frame:
                        head = pb.VideoChunk(mime_type=chunk.mime_type, quality=chunk.quality)
                    for content in fragments.add(chunk.content):
                        head.content = content
                        yield head
                        head = pb.VideoChunk()
            if rest_bytes := fragments.rest():
                yield pb.VideoChunk(content=rest_bytes)

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
        new_future = asyncio.get_running_loop().create_future
        wish: asyncio.Future[str] = new_future()
        wish.set_result(self._wish)
        try:
            async for segment in cut(aiter(speech), scene.sample_rate_hz, self._model):
                if self._lost:
                    return
                take = _Take(segment, wish, accepted=new_future())
                wish = take.accepted
                self._takes.append(take)
                take.shooting = asyncio.create_task(self._shoot(scene, take))
                takes.put(take)
        finally:
            takes.end()

    async def _shoot(self, scene: Scene, take: _Take) -> None:
        """Has a segment rendered, by another replica when one refuses it, is gone, fails or hangs."""
        tries = failures = 0
        try:
            while True:
                try:
                    return await self._call(scene, take)
                except (Overloaded, NotReady, BackendFailed, DeadlineExceeded) as error:
                    room_s = None  # seconds until a full line has room; a deadline that is too near stays so
                    if isinstance(error, Overloaded) and not error.allow_more_s:
                        room_s = error.retry_after_s
                    tries += room_s is None
                    failures += isinstance(error, BackendFailed | DeadlineExceeded)
                    exhausted = tries >= TRIES_MAX or failures > FAILURES_MAX
                    is_shown = take.chunks.first_s and not isinstance(error, NotReady)
                    if is_shown or exhausted or self._left_s() <= max(room_s or 0, RETRY_S_MIN):
                        raise
                    if take.handed_on:
                        self._uneven(f"segment {take.segment.number}: {error}; another replica renders it again")
                    if room_s is not None or isinstance(error, NotReady):
                        await asyncio.sleep(min(max(room_s or 0, RETRY_S_MIN), RETRY_S_MAX))
        except ServiceError as error:
            self._lose(take.segment, error)
        finally:
            take.chunks.end()

    async def _call(self, scene: Scene, take: _Take) -> None:
        """Has a segment rendered by the replica that can begin soonest; those that failed are chosen last."""
        wish = await asyncio.shield(take.wish)
        asked_s = now_s()
        # What one replica has rigged for this film, the next one need not.
        known = replace(scene, rigged=self._rigged or scene.rigged)
        choice = Choice(is_exact=True, avoided=self._failed | take.refused)
        parts = self._stage.animate(to_animate_segment(known, wish, take.segment), self._left_s(), choice)
        try:
            async with aclosing(watched("video", parts, self._idle_s, lambda: asked_s)) as answers:
                ready = await _accepted(answers)
                self._served(ready.card)
                if choice.replica:
                    choice.replica.promised(ready.backlog_s + ready.cost_s)
                if not take.accepted.done():
                    take.accepted.set_result(ready.quality)
                self._tell(ready.quality, wish, f"segment {take.segment.number}")
                number = 0
                async for chunk in self._chunks(ready, answers):
                    number += 1
                    if number > take.handed_on:  # A renderer makes the same of the same: what was shown stays.
                        take.chunks.put(chunk)
                        take.handed_on = number
        except ServiceError as error:
            if choice.replica:
                which = take.refused if isinstance(error, (Overloaded, NotReady)) else self._failed
                which.add(choice.replica.address)
            raise

    async def _chunks(
        self, ready: video.FaceReady, answers: AsyncGenerator[video.AnimateResponse]
    ) -> AsyncGenerator[pb.VideoChunk]:
        """Yields an accepted call's video; the first chunk says its type and quality."""
        head = pb.VideoChunk(mime_type=ready.mime_type, quality=ready.quality)
        rigged = bytearray()
        async for answer in answers:
            if answer.HasField("rigged"):
                rigged += answer.rigged
            elif rigged and not self._rigged:
                self._rigged = bytes(rigged)
                self._keep(ready.card.digest, self._rigged)
            if answer.HasField("chunk"):
                head.content = answer.chunk
                yield head
                head = pb.VideoChunk()

    def _tell(self, quality: str, wish: str, what: str) -> None:
        """Tells when there was no time for the quality that was wished."""
        wished = wish or next(iter(self._model.qualities), quality)
        if quality != wished:
            self._lowered(f"{what} is rendered as {quality!r} instead of {wished!r}: there is no time for better")

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


async def _accepted(answers: AsyncGenerator[video.AnimateResponse]) -> video.FaceReady:
    """Waits until a call is accepted.

    Raises:
        ServiceError: It is not.
    """
    async for answer in answers:
        if answer.HasField("ready"):
            return answer.ready
    raise BackendFailed("video: the call ended before it was accepted")
