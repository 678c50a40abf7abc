"""What a caller of tts sends, and how it reads the answers."""

import asyncio
import hashlib
from typing import TYPE_CHECKING, cast

import grpc
from prometheus_client import REGISTRY

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as pb
from tests.samples import wav

if TYPE_CHECKING:
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub as Stub

HASH = emotions.load().digest
VOICE = wav()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
Speaking = grpc.aio.StreamStreamCall[pb.SpeakRequest, pb.SpeakResponse]


def header(
    label: str = "caring",
    intensity: float = 0.5,
    ontology_hash: str = HASH,
    style: str = "friendly",
    content: bytes = VOICE,
    digest: str = "",
    size_bytes: int = -1,
) -> pb.SpeakRequest:
    return pb.SpeakRequest(
        header=pb.SpeakHeader(
            emotion=common.Emotion(label=label, intensity=intensity, ontology_hash=ontology_hash),
            style=style,
            profile=common.Profile(name="Ada", age="young", gender="female", timbre="mid"),
            voices=[
                pb.VoiceFile(
                    digest=digest or hashlib.sha256(content).hexdigest(),
                    size_bytes=len(content) if size_bytes < 0 else size_bytes,
                )
            ],
        )
    )


def reference(content: bytes = VOICE) -> list[pb.SpeakRequest]:
    return [pb.SpeakRequest(voice=content[at : at + MIB]) for at in range(0, len(content), MIB)]


def lending(recordings: list[bytes], fitted_size_bytes: int = 0) -> pb.SpeakRequest:
    request = header()
    files = [pb.VoiceFile(digest=hashlib.sha256(each).hexdigest(), size_bytes=len(each)) for each in recordings]
    request.header.ClearField("voices")
    request.header.voices.extend(files)
    request.header.fitted_size_bytes = fitted_size_bytes
    return request


def sentence(text: str) -> pb.SpeakRequest:
    return pb.SpeakRequest(sentence=text)


FIRST = [header(), *reference()]


async def speak(stub: "Stub", *parts: pb.SpeakRequest) -> list[pb.SpeakResponse]:
    return [part async for part in stub.Speak(iter(parts), timeout=20)]


async def read(call: Speaking) -> pb.SpeakResponse:
    return cast("pb.SpeakResponse", await call.read())


async def rest(call: Speaking) -> list[pb.SpeakResponse]:
    parts = []
    while (part := await call.read()) is not grpc.aio.EOF:
        parts.append(cast("pb.SpeakResponse", part))
    return parts


async def check(stub: "Stub", *pieces: bytes) -> pb.CheckVoiceResponse:
    return await stub.CheckVoice(pb.CheckVoiceRequest(audio=piece) for piece in pieces)


async def stand_in_line(stub: "Stub", count: int) -> None:
    """Waits until so many calls wait for the model."""
    async with asyncio.timeout(20):
        while (
            REGISTRY.get_sample_value("e3rg_queue_length", {"stage": "speech", "model": "fake", "variant": "default"})
            != count
        ):
            await stub.GetModel(pb.GetModelRequest())
