"""The face on the wire."""

import hashlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from e3rg.video.v1 import video_pb2_grpc
from emotions import Wheel
from services.common.errors import FailedPrecondition, InvalidRequest
from services.common.images import decode_image
from services.common.inference import InferenceQueue
from services.common.media import Collector, collect
from services.common.server import CHUNK_BYTES_MAX
from services.video.domain import Backend, Expression, Performance, Portrait, Rig, Speech, Studio, VisemeSpan
from services.video.encoding import FragmentedMp4

PORTRAIT_BYTES_MAX = 16 << 20
RATE_HZ_MIN, RATE_HZ_MAX = 8_000, 48_000


class VideoServicer(video_pb2_grpc.VideoServiceServicer):
    """Serves one back-end."""

    def __init__(self, name: str, backend: Backend, studio: Studio, queue: InferenceQueue, wheel: Wheel) -> None:
        self._name = name
        self._backend = backend
        self._studio = studio
        self._queue = queue
        self._wheel = wheel

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        backend = self._backend
        return pb.GetModelResponse(
            card=common.ModelCard(
                backend=self._name, model=backend.model, digest=backend.digest, ontology_hash=self._wheel.digest
            ),
            face_classes=backend.classes,
            fps=backend.fps,
            size_px=backend.size_px,
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
        started_s = time.monotonic()
        rig, known = await self._read_rig(parts, header)
        rig_s = 0 if known else time.monotonic() - started_s
        file = FragmentedMp4(self._backend.size_px, self._backend.fps, header.sample_rate_hz)
        yield pb.AnimateResponse(ready=pb.FaceReady(rig_s=rig_s, mime_type=file.mime_type))
        film = _Film(self._studio.perform(rig, expression, header.seed), file)
        async for part in parts:
            speech = _to_speech(part, header.sample_rate_hz)
            async with aclosing(self._queue.stream(partial(film.add, speech))) as chunks:
                async for chunk in chunks:
                    yield pb.AnimateResponse(chunk=chunk)
        async with aclosing(self._queue.stream(film.finish)) as chunks:
            async for chunk in chunks:
                yield pb.AnimateResponse(chunk=chunk)

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

    async def _read_rig(self, parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> tuple[Rig, bool]:
        content = await collect("portrait", header.portrait_size_bytes, parts, _piece)
        portrait = _to_portrait(content)
        if portrait.digest != header.portrait_digest:
            problem = f"{header.portrait_digest!r} is not the SHA-256 of the portrait, {portrait.digest}"
            raise InvalidRequest("header.portrait_digest", problem)
        known = self._studio.knows(portrait.digest)
        return await self._queue.run(lambda: self._studio.rig(portrait)), known


class _Film:
    """A performance with the file that it is written to; used on the model's thread."""

    def __init__(self, performance: Performance, file: FragmentedMp4) -> None:
        self._performance = performance
        self._file = file

    def add(self, speech: Speech) -> Iterator[bytes]:
        yield from self._file.add((), speech.samples)
        yield from self._write(self._performance.feed(speech))

    def finish(self) -> Iterator[bytes]:
        yield from self._write(self._performance.finish())
        yield from self._file.finish()

    def _write(self, frames: Iterator[NDArray[np.uint8]]) -> Iterator[bytes]:
        for frame in frames:
            yield from self._file.add((frame,), np.empty(0, np.int16))


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


def _to_viseme(phoneme: common.Phoneme) -> VisemeSpan:
    return VisemeSpan(phoneme.viseme, phoneme.start_s, phoneme.duration_s)
