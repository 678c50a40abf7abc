"""The voice on the wire."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from emotions import Wheel
from services.common.errors import FailedPrecondition, InvalidRequest
from services.common.inference import InferenceQueue
from services.common.media import CHUNK_BYTES_MAX, Collector, collect, read_ahead
from services.common.metrics import UPLOAD
from services.tts.domain import Backend, Delivery, Fitted, Phoneme, Profile, Speech, Voice, Voices
from services.tts.recordings import read_voice

TEXT_CHARS_MAX = 2000
RECORDINGS_MAX = 8
RECORDINGS_BYTES_MAX = 16 << 20
CHUNK_S = 0.4
"""Length of a piece of speech: short enough for the face to start early, long enough to be few."""


class TtsServicer(tts_pb2_grpc.TtsServiceServicer):
    """Serves one back-end.

    Attributes:
        model: What it says of its model.
    """

    def __init__(self, name: str, backend: Backend, voices: Voices, queue: InferenceQueue, wheel: Wheel) -> None:
        self._backend = backend
        self._voices = voices
        self._queue = queue
        self._wheel = wheel
        self.model = pb.GetModelResponse(
            card=common.ModelCard(backend=name, model=backend.model, digest=backend.digest, ontology_hash=wheel.digest),
            styles=backend.styles,
            languages=backend.languages,
            sample_rate_hz=backend.sample_rate_hz,
        )

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        return self.model

    async def CheckVoice(
        self, request_iterator: AsyncIterator[pb.CheckVoiceRequest], context: Any
    ) -> pb.CheckVoiceResponse:
        file = Collector("voice", RECORDINGS_BYTES_MAX)
        async for part in request_iterator:
            file.add(part.audio)

        def listen() -> float:
            reference = read_voice(file.content, "voice")
            self._backend.check(reference)
            return len(reference.samples) / reference.sample_rate_hz

        return pb.CheckVoiceResponse(duration_s=await self._queue.run(listen, UPLOAD))

    async def Speak(
        self, request_iterator: AsyncIterator[pb.SpeakRequest], context: Any
    ) -> AsyncIterator[pb.SpeakResponse]:
        parts = aiter(request_iterator)
        header = await self._read_header(parts)
        profile, delivery = _from_profile(header.profile), Delivery(header.style, header.emotion.intensity)
        self._voices.check(profile, delivery)
        fitted = await self._read_voice(parts, header, profile)
        yield pb.SpeakResponse(
            ready=pb.VoiceReady(
                fit_s=fitted.fit_s,
                fitted=fitted.packed,
                card=self.model.card,
                sample_rate_hz=self.model.sample_rate_hz,
            )
        )
        spoken = 0
        async with read_ahead(parts, self._backend.texts_max) as waiting:
            async for asked in waiting:
                async with aclosing(self._speak(asked, fitted.voice, delivery, spoken)) as answers:
                    async for answer in answers:
                        spoken += len(answer.chunk.samples) // 2
                        yield answer

    async def _speak(
        self, asked: list[pb.SpeakRequest], voice: Voice, delivery: Delivery, spoken: int
    ) -> AsyncGenerator[pb.SpeakResponse]:
        """Speaks the sentences that wait; those before a wrong one are spoken before it is refused."""
        texts, refusal = _texts(asked)
        begun = spoken
        ending = iter(texts)
        if texts:
            speaking = self._queue.stream(lambda: self._backend.speak(texts, voice, delivery), begun=spoken > 0)
            async with aclosing(speaking) as speeches:
                async for speech in speeches:
                    for chunk in _to_chunks(speech, spoken):
                        yield pb.SpeakResponse(chunk=chunk)
                    spoken += len(speech.samples)
                    if speech.ends_text:
                        duration_s = (spoken - begun) / self._backend.sample_rate_hz
                        end = pb.SentenceEnd(sentence=next(ending), duration_s=duration_s, applied=speech.applied)
                        yield pb.SpeakResponse(sentence_end=end)
                        begun = spoken
        if refusal:
            raise refusal

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
        if not 1 <= len(header.voices) <= RECORDINGS_MAX:
            raise InvalidRequest("header.voices", f"{len(header.voices)} recordings; send 1 to {RECORDINGS_MAX}")
        total = sum(voice.size_bytes for voice in header.voices)
        if total > RECORDINGS_BYTES_MAX or not all(voice.size_bytes for voice in header.voices):
            sizes = " + ".join(str(voice.size_bytes) for voice in header.voices)
            problem = f"{sizes}; send at least 1 byte each and at most {RECORDINGS_BYTES_MAX} together"
            raise InvalidRequest("header.voices.size_bytes", problem)
        if header.fitted_size_bytes > CHUNK_BYTES_MAX:
            problem = f"{header.fitted_size_bytes}; send at most {CHUNK_BYTES_MAX}"
            raise InvalidRequest("header.fitted_size_bytes", problem)
        return header

    async def _read_voice(
        self, parts: AsyncIterator[pb.SpeakRequest], header: pb.SpeakHeader, profile: Profile
    ) -> Fitted:
        packed = await collect("fitted", header.fitted_size_bytes, parts, partial(_piece, "fitted"))
        total = sum(voice.size_bytes for voice in header.voices)
        content = await collect("voice", total, parts, partial(_piece, "voice"))
        files = list(_files(content, header.voices))
        digests = [voice.digest for voice in header.voices]
        # Decoding may take a tenth of a second, so it is the model's thread that does it, and only for a new voice.
        return await self._queue.run(
            lambda: self._voices.fit(digests, profile, packed, lambda: [read_voice(file, "voice") for file in files])
        )


def _piece(kind: str, part: pb.SpeakRequest) -> bytes | None:
    return getattr(part, kind) if part.WhichOneof("part") == kind else None


def _files(content: bytes, declared: Iterable[pb.VoiceFile]) -> Iterator[bytes]:
    """Cuts the recordings, which came one after the other, apart."""
    start = 0
    for each in declared:
        file = content[start : start + each.size_bytes]
        digest = hashlib.sha256(file).hexdigest()
        if digest != each.digest:
            raise InvalidRequest(
                "header.voices.digest", f"{each.digest!r} is not the SHA-256 of the recording, {digest}"
            )
        yield file
        start += each.size_bytes


def _texts(asked: Iterable[pb.SpeakRequest]) -> tuple[list[str], InvalidRequest | None]:
    """Returns the texts up to the first that cannot be spoken, and what is wrong with that one."""
    texts: list[str] = []
    for part in asked:
        kind, text = part.WhichOneof("part"), part.sentence
        if kind != "sentence":
            return texts, InvalidRequest("part", f"{kind} is out of order; only sentences follow the voice")
        if not text.strip():
            return texts, InvalidRequest("sentence", "empty; send something to say")
        if len(text) > TEXT_CHARS_MAX:
            return texts, InvalidRequest("sentence", f"{len(text)} characters; send at most {TEXT_CHARS_MAX}")
        texts.append(text)
    return texts, None


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
