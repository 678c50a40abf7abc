"""The voice on the wire."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from emotions import Wheel
from services.common.errors import FailedPrecondition, InvalidRequest
from services.common.inference import InferenceQueue
from services.common.media import Collector, collect
from services.tts.domain import Backend, Delivery, Phoneme, Profile, Speaker, Speech, Voice
from services.tts.recordings import read_voice

TEXT_CHARS_MAX = 2000
REFERENCE_BYTES_MAX = 16 << 20
CHUNK_S = 0.4
"""Length of a piece of speech: short enough for the face to start early, long enough to be few."""


class TtsServicer(tts_pb2_grpc.TtsServiceServicer):
    """Serves one back-end."""

    def __init__(self, name: str, backend: Backend, speaker: Speaker, queue: InferenceQueue, wheel: Wheel) -> None:
        self._name = name
        self._backend = backend
        self._speaker = speaker
        self._queue = queue
        self._wheel = wheel

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        backend = self._backend
        return pb.GetModelResponse(
            card=common.ModelCard(
                backend=self._name, model=backend.model, digest=backend.digest, ontology_hash=self._wheel.digest
            ),
            styles=backend.styles,
            languages=backend.languages,
            sample_rate_hz=backend.sample_rate_hz,
        )

    async def CheckVoice(
        self, request_iterator: AsyncIterator[pb.CheckVoiceRequest], context: Any
    ) -> pb.CheckVoiceResponse:
        file = Collector("voice", REFERENCE_BYTES_MAX)
        async for part in request_iterator:
            file.add(part.audio)
        reference = read_voice(file.content, "voice")
        profile = Profile("", "", "")
        await self._queue.run(lambda: self._speaker.voice(reference, profile))
        return pb.CheckVoiceResponse(duration_s=len(reference.samples) / reference.sample_rate_hz)

    async def Speak(
        self, request_iterator: AsyncIterator[pb.SpeakRequest], context: Any
    ) -> AsyncIterator[pb.SpeakResponse]:
        parts = aiter(request_iterator)
        header = await self._read_header(parts)
        delivery = Delivery(header.style, header.emotion.intensity)
        self._speaker.check(delivery)
        started_s = time.monotonic()
        voice, known = await self._read_voice(parts, header)
        yield pb.SpeakResponse(ready=pb.VoiceReady(fit_s=0 if known else time.monotonic() - started_s))
        spoken = 0
        async for part in parts:
            if part.WhichOneof("part") != "sentence":
                raise InvalidRequest(
                    "part", f"{part.WhichOneof('part')} is out of order; only sentences follow the voice"
                )
            samples = 0
            applied: dict[str, float] = {}
            async with aclosing(self._speak(part.sentence, voice, delivery)) as speeches:
                async for speech in speeches:
                    for chunk in _to_chunks(speech, spoken + samples):
                        yield pb.SpeakResponse(chunk=chunk)
                    samples += len(speech.samples)
                    applied = speech.applied
            if not samples:
                raise InvalidRequest("sentence", f"{part.sentence[:60]!r} holds no sound; send words")
            spoken += samples
            yield pb.SpeakResponse(
                sentence_end=pb.SentenceEnd(
                    sentence=part.sentence, duration_s=samples / self._backend.sample_rate_hz, applied=applied
                )
            )

    def _speak(self, text: str, voice: Voice, delivery: Delivery) -> AsyncGenerator[Speech]:
        if not text.strip():
            raise InvalidRequest("sentence", "empty; send something to say")
        if len(text) > TEXT_CHARS_MAX:
            raise InvalidRequest("sentence", f"{len(text)} characters; send at most {TEXT_CHARS_MAX}")
        return self._queue.stream(lambda: self._speaker.speak(text, voice, delivery))

    async def _read_header(self, parts: AsyncIterator[pb.SpeakRequest]) -> pb.SpeakHeader:
        first = await anext(parts, pb.SpeakRequest())
        if first.WhichOneof("part") != "header":
            raise InvalidRequest("header", "missing; send it first")
        header = first.header
        if difference := self._wheel.difference(header.emotion.ontology_hash):
            raise FailedPrecondition(f"header.emotion.ontology_hash: {difference}")
        if header.emotion.label not in self._wheel.labels:
            known = ", ".join(self._wheel.labels)
            raise InvalidRequest("header.emotion.label", f"{header.emotion.label!r}; use one of: {known}")
        if not 1 <= header.voice_size_bytes <= REFERENCE_BYTES_MAX:
            problem = f"{header.voice_size_bytes}; send 1 to {REFERENCE_BYTES_MAX}"
            raise InvalidRequest("header.voice_size_bytes", problem)
        return header

    async def _read_voice(self, parts: AsyncIterator[pb.SpeakRequest], header: pb.SpeakHeader) -> tuple[Voice, bool]:
        content = await collect("voice", header.voice_size_bytes, parts, _piece)
        reference = read_voice(content, "voice")
        if reference.digest != header.voice_digest:
            problem = f"{header.voice_digest!r} is not the SHA-256 of the reference, {reference.digest}"
            raise InvalidRequest("header.voice_digest", problem)
        profile = _from_profile(header.profile)
        known = self._speaker.knows(reference.digest, profile)
        return await self._queue.run(lambda: self._speaker.voice(reference, profile)), known


def _piece(part: pb.SpeakRequest) -> bytes | None:
    return part.voice if part.WhichOneof("part") == "voice" else None


def _from_profile(profile: common.Profile) -> Profile:
    return Profile(profile.age, profile.gender, profile.timbre, profile.language or "en")


def _to_chunks(speech: Speech, offset: int) -> Iterator[pb.SpeechChunk]:
    """Cuts a sentence into pieces; each sound goes with the piece in which it begins."""
    rate_hz = speech.sample_rate_hz
    step = round(CHUNK_S * rate_hz)
    waiting = list(speech.phonemes)
    for start in range(0, len(speech.samples), step):
        end = start + step
        last = end >= len(speech.samples)
        begin_here = [phoneme for phoneme in waiting if last or phoneme.start_s * rate_hz < end]
        waiting = waiting[len(begin_here) :]
        yield pb.SpeechChunk(
            samples=speech.samples[start:end].astype("<i2").tobytes(),
            sample_rate_hz=rate_hz,
            phonemes=[_to_phoneme(phoneme, offset / rate_hz) for phoneme in begin_here],
        )


def _to_phoneme(phoneme: Phoneme, offset_s: float) -> common.Phoneme:
    return common.Phoneme(
        symbol=phoneme.symbol,
        viseme=phoneme.viseme,
        start_s=offset_s + phoneme.start_s,
        duration_s=phoneme.duration_s,
    )
