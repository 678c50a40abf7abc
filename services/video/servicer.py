"""The face on the wire."""

import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
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
from services.common.media import Collector, collect
from services.common.server import CHUNK_BYTES_MAX
from services.common.streams import ticking
from services.video.backlog import Backlog, Promise
from services.video.domain import Backend, Expression, Portrait, Progress, Rig, Speech, Studio, VisemeSpan
from services.video.encoding import FragmentedMp4
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

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        backend = self._backend
        return pb.GetModelResponse(
            card=common.ModelCard(
                backend=self._name, model=backend.model, digest=backend.digest, ontology_hash=self._wheel.digest
            ),
            face_classes=backend.classes,
            fps=backend.fps,
            size_px=backend.size_px,
            qualities=backend.qualities,
            segment_min_s=backend.segment_s[0],
            segment_max_s=backend.segment_s[1],
            backlog_s=self._backlog.seconds,
        )

    async def CheckPortrait(
        self, request_iterator: AsyncIterator[pb.CheckPortraitRequest], context: Any
    ) -> pb.CheckPortraitResponse:
        file = Collector("portrait", PORTRAIT_BYTES_MAX)
        async for part in request_iterator:
            file.add(part.image)
        portrait = _to_portrait(file.content)
        await self._queue.run(lambda: self._studio.rig(portrait))
        height, width, _ = portrait.image.shape
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
        portrait = await self._read_portrait(parts, header)
        with self._backlog.promise(header.duration_s, tiers, rpc.remaining_s()) as promise:
            order = _Order(header, portrait, expression, promise)
            answers = (
                self._by_segment(order, parts) if any(self._backend.segment_s) else self._as_it_comes(order, parts)
            )
            async with aclosing(answers):
                async for answer in answers:
                    yield answer

    async def _as_it_comes(
        self, order: "_Order", parts: AsyncIterator[pb.AnimateRequest]
    ) -> AsyncGenerator[pb.AnimateResponse]:
        """Renders each stretch of speech when it has come."""
        started_s = time.monotonic()
        known = self._studio.knows(order.portrait.digest)
        rig = await self._queue.run(lambda: self._studio.rig(order.portrait))
        file = self._file(order.header)
        yield order.ready(file.mime_type, 0 if known else time.monotonic() - started_s)
        film = self._film(order, rig, file)
        async for speech in _speeches(parts, order.header):
            async with aclosing(self._queue.stream(partial(film.add, speech))) as chunks:
                async for chunk in chunks:
                    yield _to_response(chunk)
        async with aclosing(self._queue.stream(film.finish)) as chunks:
            async for chunk in chunks:
                yield _to_response(chunk)

    async def _by_segment(
        self, order: "_Order", parts: AsyncIterator[pb.AnimateRequest]
    ) -> AsyncGenerator[pb.AnimateResponse]:
        """Renders all the speech at once, in one turn at the model; who waits for it is told that it gets on."""
        file = self._file(order.header)
        yield order.ready(file.mime_type, 0)
        speeches = [speech async for speech in _speeches(parts, order.header)]
        if not any(len(speech.samples) for speech in speeches):
            raise InvalidRequest("speech.samples", f"none came; send the {order.header.duration_s:g} s of speech")

        def render() -> Iterator[bytes | Progress]:
            yield from self._film(order, self._studio.rig(order.portrait), file).render(speeches)

        told_s, done = time.monotonic(), 0.0
        async with aclosing(ticking(self._queue.stream(render), self._heartbeat_s)) as items:
            async for item in items:
                if isinstance(item, bytes):
                    yield _to_response(item)
                    continue
                if item is None and self._backlog.moved_s < told_s:
                    continue  # the renderer hangs, and who waits shall see that
                done = item.done if item else done
                told_s = time.monotonic()
                yield _to_response(Progress(done))

    def _file(self, header: pb.AnimateHeader) -> FragmentedMp4:
        return FragmentedMp4(self._backend.size_px, self._backend.fps, header.sample_rate_hz, header.first_frame)

    def _film(self, order: "_Order", rig: Rig, file: FragmentedMp4) -> Film:
        performance = self._studio.perform(rig, order.expression, order.header.seed, order.promise.quality)
        return Film(performance, file, order.promise)

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

    async def _read_portrait(self, parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> Portrait:
        portrait = _to_portrait(await collect("portrait", header.portrait_size_bytes, parts, _piece))
        if portrait.digest != header.portrait_digest:
            problem = f"{header.portrait_digest!r} is not the SHA-256 of the portrait, {portrait.digest}"
            raise InvalidRequest("header.portrait_digest", problem)
        return portrait


@dataclass(frozen=True)
class _Order:
    """What a call asks for, accepted."""

    header: pb.AnimateHeader
    portrait: Portrait
    expression: Expression
    promise: Promise

    def ready(self, mime_type: str, rig_s: float) -> pb.AnimateResponse:
        promise = self.promise
        return pb.AnimateResponse(
            ready=pb.FaceReady(
                rig_s=rig_s,
                mime_type=mime_type,
                quality=promise.quality,
                cost_s=promise.cost_s,
                backlog_s=promise.before_s,
            )
        )


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


def _to_portrait(content: bytes) -> Portrait:
    return Portrait(hashlib.sha256(content).hexdigest(), decode_image(content, "portrait"))


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
