"""The face on the wire."""

import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, aclosing, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.common import rpc
from services.common.errors import InvalidRequest
from services.common.images import decode_image
from services.common.inference import InferenceQueue
from services.common.load import Load
from services.common.media import chunks
from services.common.metrics import UPLOAD
from services.common.streams import ticking
from services.video import intake
from services.video.backlog import Backlog, Promise
from services.video.domain import Backend, Expression, Progress, Rigged, Segments, Speech, Studio
from services.video.encoding import FragmentedMp4, mime_type_of
from services.video.film import Film
from services.video.footage import inspect
from services.video.intake import Order

HEARTBEAT_S = 2.0
"""Time between two signs to a waiting caller that the model gets on with those before it."""


@dataclass(frozen=True)
class _RiggedPiece:
    """A part of the rigged face as bytes."""

    content: bytes


_Item: TypeAlias = bytes | Progress | _RiggedPiece
"""Answer of a renderer of segments: parts of the video, its steps, and before them parts of the rigged face."""


class VideoServicer(video_pb2_grpc.VideoServiceServicer):
    """Serves one back-end.

    Attributes:
        model: What it says of its model, without the backlog.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        studio: Studio,
        queue: InferenceQueue,
        wheel: Wheel,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._backend = backend
        self._studio = studio
        self._queue = queue
        self._wheel = wheel
        self._heartbeat_s = heartbeat_s
        self._backlog = Backlog(name, backend, queue.variant)
        self._mime_type = mime_type_of(backend.size_px, backend.fps)
        self._replica = uuid.uuid4().hex
        segments = backend.segments or Segments(0, 0, 0)
        self.model = pb.GetModelResponse(
            card=common.ModelCard(backend=name, model=backend.model, digest=backend.digest, ontology_hash=wheel.digest),
            face_classes=backend.classes,
            fps=backend.fps,
            size_px=backend.size_px,
            qualities=backend.qualities,
            segment_min_s=segments.min_s,
            segment_max_s=segments.max_s,
            segment_first_s=segments.first_s,
            segment_window_s=segments.window_s,
        )

    def load(self) -> Load:
        """Return the load: what renderers of segments have promised, or the calls in the queue."""
        queue = self._queue.load()
        return Load(max(self._backlog.seconds, queue.backlog_s), queue.call_s)

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        model = pb.GetModelResponse(backlog_s=self._backlog.seconds)
        model.MergeFrom(self.model)
        return model

    async def CheckPortrait(
        self, request_iterator: AsyncIterator[pb.CheckPortraitRequest], context: Any
    ) -> pb.CheckPortraitResponse:
        content = await intake.read_picture(aiter(request_iterator))

        def check() -> tuple[int, ...]:
            image = decode_image(content, "portrait")
            self._studio.check_portrait(intake.digest_of(content), lambda: image)
            return image.shape

        height, width, _ = await self._queue.run(check, UPLOAD)
        return pb.CheckPortraitResponse(width_px=width, height_px=height)

    async def CheckFilm(
        self, request_iterator: AsyncIterator[pb.CheckFilmRequest], context: Any
    ) -> pb.CheckFilmResponse:
        parts = aiter(request_iterator)
        header = await intake.read_film_header(parts)
        self._queue.check()
        content = await intake.read_film(parts, header)
        async with aclosing(self._queue.stream(lambda: inspect(content, self._backend.flaw), stage=UPLOAD)) as steps:
            found = [step async for step in steps][-1]
        assert found, "a film that is not refused has been found usable"
        return pb.CheckFilmResponse(duration_s=found.duration_s, face_share=found.face_share)

    async def Animate(
        self, request_iterator: AsyncIterator[pb.AnimateRequest], context: Any
    ) -> AsyncIterator[pb.AnimateResponse]:
        parts = aiter(request_iterator)
        header = await intake.read_header(parts, self._wheel)
        expression = Expression(header.face_class, header.emotion.intensity)
        self._studio.check(expression)
        self._studio.check_duration(header.duration_s)
        tiers = self._studio.tiers(header.quality)
        if self._backend.segments:
            self._queue.check()
            self._backlog.check(header.duration_s, tiers, rpc.remaining_s())
        rigged = await intake.read_rigged(parts, header)
        order = Order(header, expression, tiers, rigged, await intake.read_portrait(parts, header))
        answers = self._by_segment(order, parts) if self._backend.segments else self._as_it_comes(order, parts)
        async with aclosing(answers):
            async for answer in answers:
                yield answer

    async def _as_it_comes(
        self, order: Order, parts: AsyncIterator[pb.AnimateRequest]
    ) -> AsyncGenerator[pb.AnimateResponse]:
        """Renders each stretch of speech when it has come."""
        quality, encoders = order.tiers[0], ExitStack()
        try:
            film, rigged = await self._queue.run(partial(self._begin, order, quality, encoders))
            yield self._ready(quality=quality, rig_s=rigged.rig_s)
            for piece in chunks(rigged.packed):
                yield pb.AnimateResponse(rigged=piece)
            async for speech in intake.speeches(parts, order.header):
                async with aclosing(self._queue.stream(partial(film.add, speech))) as items:
                    async for item in items:
                        yield _to_response(item)
            async with aclosing(self._queue.stream(film.finish)) as items:
                async for item in items:
                    yield _to_response(item)
        finally:
            self._queue.afterwards(encoders.close)

    async def _by_segment(
        self, order: Order, parts: AsyncIterator[pb.AnimateRequest]
    ) -> AsyncGenerator[pb.AnimateResponse]:
        """Renders all the speech at once, in one turn at the model."""
        header = order.header
        speeches = [speech async for speech in intake.speeches(parts, header)]
        if not any(len(speech.samples) for speech in speeches):
            raise InvalidRequest("speech.samples", f"none came; send the {header.duration_s:g} s of speech")
        with self._backlog.promise(header.duration_s, order.tiers, rpc.remaining_s()) as promise:
            items: AsyncGenerator[_Item] = self._queue.stream(
                lambda: self._render(order, promise, speeches), placed=Progress(0)
            )
            async with aclosing(items):
                # The loop runs nothing else between the promise and the place: promised order is rendering order.
                await anext(items)
                yield self._ready(quality=promise.quality, cost_s=promise.cost_s, backlog_s=promise.before_s)
                async with aclosing(self._with_heartbeats(items)) as answers:
                    async for answer in answers:
                        yield answer

    async def _with_heartbeats(self, items: AsyncGenerator[_Item]) -> AsyncGenerator[pb.AnimateResponse]:
        """Passes on what is rendered; who waits for it is told that the model gets on."""
        told_s, done = time.monotonic(), 0.0
        async with aclosing(ticking(items, self._heartbeat_s)) as ticks:
            async for item in ticks:
                if isinstance(item, bytes | _RiggedPiece):
                    yield _to_response(item)
                    continue
                if item is None and not self._backlog.moved_since(told_s):
                    continue  # the renderer hangs, and who waits shall see that
                done = item.done if item else done
                told_s = time.monotonic()
                yield _to_response(Progress(done))

    def _render(self, order: Order, promise: Promise, speeches: Sequence[Speech]) -> Iterator[_Item]:
        """Renders a segment, on the model's thread."""
        began_s = time.monotonic()
        with ExitStack() as encoders:
            film, rigged = self._begin(order, promise.quality, encoders)
            yield from map(_RiggedPiece, chunks(rigged.packed))
            with closing(film.render(speeches)) as items:
                for item in items:
                    if isinstance(item, Progress):
                        promise.progressed(item.done)
                    yield item
        promise.kept(time.monotonic() - began_s)

    def _begin(self, order: Order, quality: str, encoders: ExitStack) -> tuple[Film, Rigged]:
        """Begins a film, on the model's thread, where `encoders` is to be closed too: it may still be encoding."""
        header, image = order.header, partial(decode_image, order.portrait, "portrait")
        rigged = self._studio.rig(header.portrait_digest, image, order.rigged)
        performance = self._studio.perform(rigged.rig, order.expression, header.seed, quality)
        file = FragmentedMp4(self._backend.size_px, self._backend.fps, header.sample_rate_hz, header.first_frame)
        return Film(performance, encoders.enter_context(closing(file))), rigged

    def _ready(self, **fields: Any) -> pb.AnimateResponse:
        ready = pb.FaceReady(mime_type=self._mime_type, replica=self._replica, card=self.model.card, **fields)
        return pb.AnimateResponse(ready=ready)


def _to_response(item: _Item) -> pb.AnimateResponse:
    if isinstance(item, _RiggedPiece):
        return pb.AnimateResponse(rigged=item.content)
    if isinstance(item, Progress):
        return pb.AnimateResponse(progress=pb.AnimateProgress(done=item.done))
    return pb.AnimateResponse(chunk=item)
