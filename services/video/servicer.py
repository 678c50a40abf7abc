"""The face on the wire."""

import hashlib
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, aclosing, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.common import rpc
from services.common.errors import FailedPrecondition, InvalidRequest
from services.common.images import decode_image
from services.common.inference import InferenceQueue
from services.common.media import CHUNK_BYTES_MAX, Collector, collect
from services.common.streams import ticking
from services.video.backlog import Backlog, Promise
from services.video.domain import Backend, Expression, Progress, Segments, Speech, Studio, VisemeSpan
from services.video.encoding import FragmentedMp4, mime_type_of
from services.video.film import Film

PORTRAIT_BYTES_MAX = 16 << 20
RATE_HZ_MIN, RATE_HZ_MAX = 8_000, 48_000
HEARTBEAT_S = 2.0
"""How often one that waits for its turn is told that the model gets on with those before it."""


class VideoServicer(video_pb2_grpc.VideoServiceServicer):
    """Serves one back-end."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        studio: Studio,
        queue: InferenceQueue,
        wheel: Wheel,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._name = name
        self._backend = backend
        self._studio = studio
        self._queue = queue
        self._wheel = wheel
        self._heartbeat_s = heartbeat_s
        self._backlog = Backlog(backend)
        self._mime_type = mime_type_of(backend.size_px, backend.fps)
        self._replica = uuid.uuid4().hex

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        backend = self._backend
        segments = backend.segments or Segments(0, 0, 0)
        return pb.GetModelResponse(
            card=common.ModelCard(
                backend=self._name, model=backend.model, digest=backend.digest, ontology_hash=self._wheel.digest
            ),
            face_classes=backend.classes,
            fps=backend.fps,
            size_px=backend.size_px,
            qualities=backend.qualities,
            segment_min_s=segments.min_s,
            segment_max_s=segments.max_s,
            backlog_s=self._backlog.seconds,
            segment_first_s=segments.first_s,
            segment_window_s=segments.window_s,
        )

    async def CheckPortrait(
        self, request_iterator: AsyncIterator[pb.CheckPortraitRequest], context: Any
    ) -> pb.CheckPortraitResponse:
        file = Collector("portrait", PORTRAIT_BYTES_MAX)
        async for part in request_iterator:
            file.add(part.image)

        def check() -> tuple[int, ...]:
            image = decode_image(file.content, "portrait")
            self._studio.rig(_digest_of(file.content), lambda: image)
            return image.shape

        height, width, _ = await self._queue.run(check)
        return pb.CheckPortraitResponse(width_px=width, height_px=height)

    async def Animate(
        self, request_iterator: AsyncIterator[pb.AnimateRequest], context: Any
    ) -> AsyncIterator[pb.AnimateResponse]:
        parts = aiter(request_iterator)
        header = await self._read_header(parts)
        expression = Expression(header.face_class, header.emotion.intensity)
        self._studio.check(expression)
        self._studio.check_duration(header.duration_s)
        tiers = self._studio.tiers(header.quality)
        if self._backend.segments:
            self._queue.check()
            self._backlog.check(header.duration_s, tiers, rpc.remaining_s())
        order = _Order(header, expression, tiers, await self._read_portrait(parts, header))
        answers = self._by_segment(order, parts) if self._backend.segments else self._as_it_comes(order, parts)
        async with aclosing(answers):
            async for answer in answers:
                yield answer

    async def _as_it_comes(
        self, order: "_Order", parts: AsyncIterator[pb.AnimateRequest]
    ) -> AsyncGenerator[pb.AnimateResponse]:
        """Renders each stretch of speech when it has come."""
        started_s, quality = time.monotonic(), order.tiers[0]
        known = self._studio.knows(order.header.portrait_digest)
        encoders = ExitStack()
        try:
            film = await self._queue.run(partial(self._begin, order, quality, encoders))
            yield self._ready(quality=quality, rig_s=0 if known else time.monotonic() - started_s)
            async for speech in _speeches(parts, order.header):
                async with aclosing(self._queue.stream(partial(film.add, speech))) as chunks:
                    async for chunk in chunks:
                        yield _to_response(chunk)
            async with aclosing(self._queue.stream(film.finish)) as chunks:
                async for chunk in chunks:
                    yield _to_response(chunk)
        finally:
            self._queue.afterwards(encoders.close)

    async def _by_segment(
        self, order: "_Order", parts: AsyncIterator[pb.AnimateRequest]
    ) -> AsyncGenerator[pb.AnimateResponse]:
        """Renders all the speech at once, in one turn at the model."""
        header = order.header
        speeches = [speech async for speech in _speeches(parts, header)]
        if not any(len(speech.samples) for speech in speeches):
            raise InvalidRequest("speech.samples", f"none came; send the {header.duration_s:g} s of speech")
        with self._backlog.promise(header.duration_s, order.tiers, rpc.remaining_s()) as promise:
            items: AsyncGenerator[bytes | Progress] = self._queue.stream(
                lambda: self._render(order, promise, speeches), placed=Progress(0)
            )
            async with aclosing(items):
                # The loop runs nothing else between the promise and the place: promised order is rendering order.
                await anext(items)
                yield self._ready(quality=promise.quality, cost_s=promise.cost_s, backlog_s=promise.before_s)
                async with aclosing(self._with_heartbeats(items)) as answers:
                    async for answer in answers:
                        yield answer

    async def _with_heartbeats(self, items: AsyncGenerator[bytes | Progress]) -> AsyncGenerator[pb.AnimateResponse]:
        """Passes on what is rendered; who waits for it is told that the model gets on."""
        told_s, done = time.monotonic(), 0.0
        async with aclosing(ticking(items, self._heartbeat_s)) as ticks:
            async for item in ticks:
                if isinstance(item, bytes):
                    yield _to_response(item)
                    continue
                if item is None and not self._backlog.moved_since(told_s):
                    continue  # the renderer hangs, and who waits shall see that
                done = item.done if item else done
                told_s = time.monotonic()
                yield _to_response(Progress(done))

    def _render(self, order: "_Order", promise: Promise, speeches: Sequence[Speech]) -> Iterator[bytes | Progress]:
        """Renders a segment, on the model's thread."""
        began_s = time.monotonic()
        with ExitStack() as encoders, closing(self._begin(order, promise.quality, encoders).render(speeches)) as items:
            for item in items:
                if isinstance(item, Progress):
                    promise.progressed(item.done)
                yield item
        promise.kept(time.monotonic() - began_s)

    def _begin(self, order: "_Order", quality: str, encoders: ExitStack) -> Film:
        """Begins a film, on the model's thread, where `encoders` is to be closed too: it may still be encoding."""
        header, image = order.header, partial(decode_image, order.portrait, "portrait")
        rig = self._studio.rig(header.portrait_digest, image)
        performance = self._studio.perform(rig, order.expression, header.seed, quality)
        file = FragmentedMp4(self._backend.size_px, self._backend.fps, header.sample_rate_hz, header.first_frame)
        return Film(performance, encoders.enter_context(closing(file)))

    def _ready(self, **fields: Any) -> pb.AnimateResponse:
        return pb.AnimateResponse(ready=pb.FaceReady(mime_type=self._mime_type, replica=self._replica, **fields))

    async def _read_header(self, parts: AsyncIterator[pb.AnimateRequest]) -> pb.AnimateHeader:
        first = await anext(parts, pb.AnimateRequest())
        if first.WhichOneof("part") != "header":
            raise InvalidRequest("header", "missing; send it first")
        header = first.header
        if difference := self._wheel.difference(header.emotion.ontology_hash):
            raise FailedPrecondition(f"header.emotion.ontology_hash: {difference}")
        if header.emotion.label not in self._wheel.labels:
            known = ", ".join(self._wheel.labels)
            raise InvalidRequest("header.emotion.label", f"{header.emotion.label!r}; use one of: {known}")
        if not RATE_HZ_MIN <= header.sample_rate_hz <= RATE_HZ_MAX:
            problem = f"{header.sample_rate_hz}; send {RATE_HZ_MIN} to {RATE_HZ_MAX}"
            raise InvalidRequest("header.sample_rate_hz", problem)
        if not 1 <= header.portrait_size_bytes <= PORTRAIT_BYTES_MAX:
            problem = f"{header.portrait_size_bytes}; send 1 to {PORTRAIT_BYTES_MAX}"
            raise InvalidRequest("header.portrait_size_bytes", problem)
        return header

    async def _read_portrait(self, parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> bytes:
        content = await collect("portrait", header.portrait_size_bytes, parts, _piece)
        if (digest := _digest_of(content)) != header.portrait_digest:
            problem = f"{header.portrait_digest!r} is not the SHA-256 of the portrait, {digest}"
            raise InvalidRequest("header.portrait_digest", problem)
        return content


@dataclass(frozen=True)
class _Order:
    """What a call asks for: `tiers` may be used, best first; `portrait` is a file, not looked into yet."""

    header: pb.AnimateHeader
    expression: Expression
    tiers: tuple[str, ...]
    portrait: bytes


async def _speeches(parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> AsyncIterator[Speech]:
    """Yields the speech; no more of it than the header said, if it did."""
    samples = 0
    async for part in parts:
        speech = _to_speech(part, header.sample_rate_hz)
        samples += len(speech.samples)
        # Seconds are told as a fraction: half a sample more is none.
        if header.duration_s and samples > header.duration_s * header.sample_rate_hz + 0.5:
            problem = f"{samples / header.sample_rate_hz:g} s and more came; header.duration_s is {header.duration_s:g}"
            raise InvalidRequest("speech.samples", problem)
        yield speech


def _piece(part: pb.AnimateRequest) -> bytes | None:
    return part.portrait if part.WhichOneof("part") == "portrait" else None


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _to_speech(part: pb.AnimateRequest, sample_rate_hz: int) -> Speech:
    if part.WhichOneof("part") != "speech":
        raise InvalidRequest("part", f"{part.WhichOneof('part')} is out of order; only speech follows the portrait")
    if len(part.speech.samples) > CHUNK_BYTES_MAX:
        raise InvalidRequest("speech.samples", f"{len(part.speech.samples)} bytes; send at most {CHUNK_BYTES_MAX}")
    if len(part.speech.samples) % 2:
        raise InvalidRequest("speech.samples", f"{len(part.speech.samples)} bytes; PCM s16le has two bytes a sample")
    return Speech(
        samples=np.frombuffer(part.speech.samples, "<i2"),
        sample_rate_hz=sample_rate_hz,
        visemes=tuple(_to_viseme(phoneme) for phoneme in part.speech.phonemes),
    )


def _to_response(item: bytes | Progress) -> pb.AnimateResponse:
    if isinstance(item, Progress):
        return pb.AnimateResponse(progress=pb.AnimateProgress(done=item.done))
    return pb.AnimateResponse(chunk=item)


def _to_viseme(phoneme: common.Phoneme) -> VisemeSpan:
    return VisemeSpan(phoneme.viseme, phoneme.start_s, phoneme.duration_s)
