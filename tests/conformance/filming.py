"""What the promises of a face are tested with: portraits, speech, and films of them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.video.v1 import video_pb2 as pb
from services.common.images import decode_image
from services.common.media import chunks
from services.video.domain import (
    Expression,
    Performance,
    Portrait,
    Progress,
    Speech,
    VisemeSpan,
)
from tests.conformance.voice import recording

if TYPE_CHECKING:
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub as Stub

WHEEL = emotions.load()
IDENTITIES = Path(__file__).parents[2] / "services" / "memory" / "identities"
NAMES = ("anna", "marcus")
RATE_HZ = 24_000
DURATION_S = 1.3
MIB = 1 << 20
NEUTRAL = Expression("neutral", 0.0)
Frames = NDArray[np.uint8]


def portrait(name: str) -> bytes:
    return (IDENTITIES / name / "portrait.png").read_bytes()


def picture(content: bytes) -> Portrait:
    return Portrait(hashlib.sha256(content).hexdigest(), decode_image(content, "portrait"))


def speech(duration_s: float = DURATION_S) -> Speech:
    """Somebody's speech with a mouth that opens and closes about as often."""
    count = round(duration_s * RATE_HZ)
    samples = np.resize(recording("anna").samples[RATE_HZ:], count) * 32767
    shapes = ("PP", "aa", "SS", "O", "nn", "E")
    steps = np.arange(0, duration_s, 0.12)
    spans = [
        VisemeSpan(shapes[number % len(shapes)], float(start_s), min(0.12, duration_s - float(start_s)))
        for number, start_s in enumerate(steps)
    ]
    return Speech(samples.astype(np.int16), RATE_HZ, tuple(spans))


def cut(whole: Speech, step: int) -> Iterator[Speech]:
    """The same speech in pieces of `step` samples, each sound with the piece in which it begins."""
    for start in range(0, len(whole.samples), step):
        spans = [span for span in whole.visemes if start <= span.start_s * RATE_HZ < start + step]
        yield Speech(whole.samples[start : start + step], RATE_HZ, tuple(spans))


def frames_of(performance: Performance, parts: Iterator[Speech]) -> Frames:
    items = [item for part in parts for item in performance.feed(part)]
    items += performance.finish()
    return np.array([item for item in items if not isinstance(item, Progress)])


def asked(
    said: Speech,
    content: bytes = b"",
    face_class: str = "neutral",
    quality: str = "",
    first_frame: int = 0,
    rigged: bytes = b"",
) -> list[pb.AnimateRequest]:
    content = content or portrait("anna")
    head = pb.AnimateHeader(
        emotion=common.Emotion(label="neutral", intensity=0.5, ontology_hash=WHEEL.digest),
        face_class=face_class,
        portrait_digest=hashlib.sha256(content).hexdigest(),
        portrait_size_bytes=len(content),
        sample_rate_hz=RATE_HZ,
        seed=3,
        first_frame=first_frame,
        duration_s=len(said.samples) / RATE_HZ,
        quality=quality,
        rigged_size_bytes=len(rigged),
    )
    phonemes = [
        common.Phoneme(symbol=span.viseme, viseme=span.viseme, start_s=span.start_s, duration_s=span.duration_s)
        for span in said.visemes
    ]
    chunk = pb.SpeechChunk(samples=said.samples.tobytes(), phonemes=phonemes)
    face = [pb.AnimateRequest(rigged=piece) for piece in chunks(rigged)]
    face += [pb.AnimateRequest(portrait=piece) for piece in chunks(content)]
    return [pb.AnimateRequest(header=head), *face, pb.AnimateRequest(speech=chunk)]


async def film(stub: "Stub", parts: list[pb.AnimateRequest]) -> tuple[pb.FaceReady, list[bytes]]:
    answers = [answer async for answer in stub.Animate(iter(parts), timeout=300)]
    assert [answer.WhichOneof("part") for answer in answers].count("ready") == 1
    return answers[0].ready, [answer.chunk for answer in answers if answer.WhichOneof("part") == "chunk"]
