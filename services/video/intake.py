"""What the face is sent, taken from the wire."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from emotions import Wheel
from services.common.errors import FailedPrecondition, InvalidRequest
from services.common.media import CHUNK_BYTES_MAX, Collector, collect
from services.video.domain import PACKED_BYTES_MAX, Expression, Speech, VisemeSpan

PORTRAIT_BYTES_MAX = 16 << 20
FILM_BYTES_MAX = 64 << 20
RATE_HZ_MIN, RATE_HZ_MAX = 8_000, 48_000


@dataclass(frozen=True)
class Order:
    """What a call asks for.

    Attributes:
        header: As it was sent.
        expression: What the face shows.
        tiers: The quality tiers that may be used, best first.
        rigged: The rigged face as bytes, not looked into yet; may be empty.
        portrait: The file, not looked into yet.
    """

    header: pb.AnimateHeader
    expression: Expression
    tiers: tuple[str, ...]
    rigged: bytes
    portrait: bytes


async def read_picture(parts: AsyncIterator[pb.CheckPortraitRequest]) -> bytes:
    """Reads a picture to check."""
    file = Collector("portrait", PORTRAIT_BYTES_MAX)
    async for part in parts:
        file.add(part.image)
    return file.content


async def read_film_header(parts: AsyncIterator[pb.CheckFilmRequest]) -> pb.CheckFilmHeader:
    """Reads what film follows, and refuses one that is too large before it is read."""
    first = await anext(parts, pb.CheckFilmRequest())
    if first.WhichOneof("part") != "header":
        raise InvalidRequest("header", "missing; send it first")
    _check_size("header.size_bytes", first.header.size_bytes, 1, FILM_BYTES_MAX)
    return first.header


async def read_film(parts: AsyncIterator[pb.CheckFilmRequest], header: pb.CheckFilmHeader) -> bytes:
    """Reads the film, which is all that follows the header."""
    content = await collect("film", header.size_bytes, parts, _film_piece)
    async for part in parts:
        raise InvalidRequest("part", f"{part.WhichOneof('part')} is out of order; the film is whole")
    return content


async def read_header(parts: AsyncIterator[pb.AnimateRequest], wheel: Wheel) -> pb.AnimateHeader:
    """Reads whose face it is, and how; what only the model can judge is not checked."""
    first = await anext(parts, pb.AnimateRequest())
    if first.WhichOneof("part") != "header":
        raise InvalidRequest("header", "missing; send it first")
    header = first.header
    if difference := wheel.difference(header.emotion.ontology_hash):
        raise FailedPrecondition(f"header.emotion.ontology_hash: {difference}")
    if header.emotion.label not in wheel.labels:
        known = ", ".join(wheel.labels)
        raise InvalidRequest("header.emotion.label", f"{header.emotion.label!r}; use one of: {known}")
    if not RATE_HZ_MIN <= header.sample_rate_hz <= RATE_HZ_MAX:
        problem = f"{header.sample_rate_hz}; send {RATE_HZ_MIN} to {RATE_HZ_MAX}"
        raise InvalidRequest("header.sample_rate_hz", problem)
    _check_size("header.portrait_size_bytes", header.portrait_size_bytes, 1, PORTRAIT_BYTES_MAX)
    _check_size("header.rigged_size_bytes", header.rigged_size_bytes, 0, PACKED_BYTES_MAX)
    return header


async def read_rigged(parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> bytes:
    """Reads the rigged face; empty when none was announced."""
    return await collect("rigged", header.rigged_size_bytes, parts, _rigged_piece)


async def read_portrait(parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> bytes:
    """Reads the portrait, and makes sure that it is the one that was announced."""
    content = await collect("portrait", header.portrait_size_bytes, parts, _portrait_piece)
    if (digest := digest_of(content)) != header.portrait_digest:
        problem = f"{header.portrait_digest!r} is not the SHA-256 of the portrait, {digest}"
        raise InvalidRequest("header.portrait_digest", problem)
    return content


async def speeches(parts: AsyncIterator[pb.AnimateRequest], header: pb.AnimateHeader) -> AsyncIterator[Speech]:
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


def digest_of(content: bytes) -> str:
    """Returns the SHA-256 (hex)."""
    return hashlib.sha256(content).hexdigest()


def _check_size(field: str, size_bytes: int, least: int, most: int) -> None:
    if not least <= size_bytes <= most:
        raise InvalidRequest(field, f"{size_bytes}; send {least} to {most}")


def _film_piece(part: pb.CheckFilmRequest) -> bytes | None:
    return part.content if part.WhichOneof("part") == "content" else None


def _rigged_piece(part: pb.AnimateRequest) -> bytes | None:
    return part.rigged if part.WhichOneof("part") == "rigged" else None


def _portrait_piece(part: pb.AnimateRequest) -> bytes | None:
    return part.portrait if part.WhichOneof("part") == "portrait" else None


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
