"""The emotion model on the wire."""

import math
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Literal

import numpy as np

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common.errors import FailedPrecondition, InvalidRequest, Unsupported
from services.common.images import decode_image
from services.common.inference import InferenceQueue
from services.common.media import CHUNK_BYTES_MAX, Collector, float_of_pcm
from services.mllm.domain import (
    AUDIO_RATE_HZ,
    Act,
    Answer,
    Backend,
    Example,
    Frame,
    Level,
    Memory,
    Message,
    Modality,
    Profile,
    ReplyRecord,
    ReplyRequest,
    ReplySentence,
    Transcriber,
    Utterance,
    Writer,
    answer_of,
)

TEXT_CHARS_MAX = 4000
AUDIO_BYTES_MAX = 60 * AUDIO_RATE_HZ * 2
FRAMES_MAX = 64
ANSWER_CHARS_MAX = 200
"""Of what a model wrote, for the record."""
MEMORIES_MAX = 8
EXAMPLES_MAX = 8
EXAMPLE_CHARS_MAX = 1000
"""Of each side of an example."""
REPLIES_MAX = 16
ROUNDING = 1e-3
"""By which a cosine may be above 1."""

_SPEAKERS: dict[common.Speaker, Literal["user", "avatar"]] = {
    common.SPEAKER_USER: "user",
    common.SPEAKER_AVATAR: "avatar",
}
_LEVELS = {Level.LABEL: pb.LEVEL_LABEL, Level.CLASS: pb.LEVEL_CLASS}
_MODALITIES = {
    Modality.TEXT: common.MODALITY_TEXT,
    Modality.AUDIO: common.MODALITY_AUDIO,
    Modality.VIDEO: common.MODALITY_VIDEO,
}


class MllmServicer(mllm_pb2_grpc.MllmServiceServicer):
    """Serves one back-end.

    Attributes:
        model: What it says of its model.
    """

    def __init__(self, name: str, backend: Backend, queue: InferenceQueue, wheel: Wheel) -> None:
        self._name = name
        self._backend = backend
        self._queue = queue
        self._wheel = wheel
        self.model = _model_of(name, backend, wheel)

    async def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        return self.model

    async def PredictEmotion(
        self, request_iterator: AsyncIterator[pb.PredictEmotionRequest], context: Any
    ) -> pb.PredictEmotionResponse:
        message = await self._read_message(request_iterator)
        try:
            answer = await self._queue.run(lambda: answer_of(self._backend.predict(message), self._wheel))
        finally:
            message.stop.set()
        return _to_response(answer, self.model.card)

    async def Transcribe(
        self, request_iterator: AsyncIterator[pb.TranscribeRequest], context: Any
    ) -> pb.TranscribeResponse:
        backend = self._backend
        if not isinstance(backend, Transcriber):
            raise Unsupported(f"{self._name} cannot transcribe")
        audio = Collector("audio", AUDIO_BYTES_MAX)
        async for part in request_iterator:
            audio.add(part.audio)
        samples = _to_samples(audio)
        if samples is None:
            raise InvalidRequest("audio", "empty; send PCM s16le, mono, 16000 Hz")
        transcript = await self._queue.run(lambda: backend.transcribe(samples), stage="transcribe")
        return pb.TranscribeResponse(text=transcript.text, language=transcript.language, no_speech=transcript.no_speech)

    async def WriteReply(self, request: pb.WriteReplyRequest, context: Any) -> AsyncIterator[pb.WriteReplyResponse]:
        backend = self._backend
        if not isinstance(backend, Writer):
            raise Unsupported(f"{self._name} cannot write replies")
        order = self._to_reply_request(request)
        card, has_begun = self.model.card, False
        try:
            async with aclosing(self._queue.stream(lambda: backend.write(order), stage="reply")) as pieces:
                async for piece in pieces:
                    part = _to_reply_part(piece, card)
                    if not has_begun:
                        part.card.CopyFrom(card)
                        has_begun = True
                    yield part
        finally:
            order.stop.set()

    async def _read_message(self, parts: AsyncIterator[pb.PredictEmotionRequest]) -> Message:
        header: pb.PredictEmotionHeader | None = None
        audio = Collector("audio", AUDIO_BYTES_MAX)
        frames: list[Frame] = []
        async for part in parts:
            match part.WhichOneof("part"):
                case "header" if header is None:
                    header = part.header
                    self._check_wheel(header.ontology_hash, "header.ontology_hash")
                    _check_text(header.text, "header.text")
                case "audio" if header:
                    audio.add(part.audio)
                case "frame" if header:
                    if len(frames) == FRAMES_MAX:
                        raise InvalidRequest("frame", f"more than {FRAMES_MAX} frames; send fewer")
                    frames.append(_to_frame(part.frame))
                case found:
                    raise InvalidRequest(
                        "part", f"{found or 'nothing'} is out of order; send one header first, then media"
                    )
        if header is None:
            raise InvalidRequest("header", "missing; send it first")
        return Message(
            text=header.text,
            audio=_to_samples(audio),
            frames=tuple(frames),
            history=_to_history(header.history, "header.history"),
            seed=header.seed,
        )

    def _to_reply_request(self, request: pb.WriteReplyRequest) -> ReplyRequest:
        _check_text(request.text, "text")
        if not request.text.strip():
            raise InvalidRequest("text", "empty; a reply needs something to reply to")
        return ReplyRequest(
            message=Message(text=request.text, history=_to_history(request.history, "history")),
            user_emotion=self._to_label(request.user_emotion, "user_emotion"),
            reply_emotion=self._to_label(request.reply_emotion, "reply_emotion"),
            profile=Profile(
                name=request.profile.name,
                age=request.profile.age,
                gender=request.profile.gender,
                timbre=request.profile.timbre,
                language=request.profile.language or "en",
                about=request.profile.about,
                speaking_style=request.profile.speaking_style,
            ),
            seed=request.seed,
            memories=self._to_memories(request.memories),
            examples=self._to_examples(request.examples),
            act=_to_act(request.act),
            replies=_to_replies(request.replies, "replies"),
            may_restate=request.may_restate,
        )

    def _to_memories(self, memories: Sequence[pb.Memory]) -> tuple[Memory, ...]:
        if len(memories) > MEMORIES_MAX:
            raise InvalidRequest("memories", f"{len(memories)} of them; send at most {MEMORIES_MAX}")
        for place, row in enumerate(memories):
            field = f"memories[{place}]"
            _check_text(row.text, f"{field}.text")
            if not row.text.strip():
                raise InvalidRequest(f"{field}.text", "empty; send what the user said then")
            if row.emotion and row.emotion not in self._wheel.labels:
                raise InvalidRequest(f"{field}.emotion", f"{row.emotion!r}; {_one_of(self._wheel)}, or nothing")
            if not (math.isfinite(row.age_s) and row.age_s >= 0):
                raise InvalidRequest(f"{field}.age_s", f"{row.age_s}; send seconds, 0 when unknown")
            if not abs(row.similarity) <= 1 + ROUNDING:
                raise InvalidRequest(f"{field}.similarity", f"{row.similarity}; send a cosine from -1 to 1")
        return tuple(Memory(row.text, row.emotion, row.turns_ago, row.age_s, row.similarity) for row in memories)

    def _to_examples(self, examples: Sequence[pb.Example]) -> tuple[Example, ...]:
        if len(examples) > EXAMPLES_MAX:
            raise InvalidRequest("examples", f"{len(examples)} of them; send at most {EXAMPLES_MAX}")
        for place, row in enumerate(examples):
            field = f"examples[{place}]"
            for name, text in (("user_text", row.user_text), ("reply_text", row.reply_text)):
                if not text.strip():
                    raise InvalidRequest(f"{field}.{name}", f"empty; send 1 to {EXAMPLE_CHARS_MAX} characters")
                if len(text) > EXAMPLE_CHARS_MAX:
                    raise InvalidRequest(f"{field}.{name}", f"{len(text)} characters; send at most {EXAMPLE_CHARS_MAX}")
            if row.user_emotion not in self._wheel.labels:
                raise InvalidRequest(f"{field}.user_emotion", f"{row.user_emotion!r}; {_one_of(self._wheel)}")
            if not abs(row.similarity) <= 1 + ROUNDING:
                raise InvalidRequest(f"{field}.similarity", f"{row.similarity}; send a cosine from -1 to 1")
        return tuple(Example(row.user_text, row.user_emotion, row.reply_text, row.similarity) for row in examples)

    def _to_label(self, emotion: common.Emotion, field: str) -> str:
        self._check_wheel(emotion.ontology_hash, f"{field}.ontology_hash")
        if emotion.label not in self._wheel.labels:
            raise InvalidRequest(f"{field}.label", f"{emotion.label!r}; {_one_of(self._wheel)}")
        return emotion.label

    def _check_wheel(self, digest: str, field: str) -> None:
        if difference := self._wheel.difference(digest):
            raise FailedPrecondition(f"{field}: {difference}")


def _model_of(name: str, backend: Backend, wheel: Wheel) -> pb.GetModelResponse:
    operations = [pb.OPERATION_PREDICT]
    operations += [pb.OPERATION_WRITE] if isinstance(backend, Writer) else []
    operations += [pb.OPERATION_TRANSCRIBE] if isinstance(backend, Transcriber) else []
    card = backend.card
    return pb.GetModelResponse(
        card=common.ModelCard(
            backend=name,
            model=card.model,
            digest=card.digest,
            ontology_hash=wheel.digest,
            prompt_version=card.prompt_version,
        ),
        operations=operations,
        perceives=_to_modalities(card.perceives),
        level=_LEVELS[card.level],
        writes=card.writes,
    )


def _one_of(wheel: Wheel) -> str:
    return f"use one of: {', '.join(wheel.labels)}"


def _check_text(text: str, field: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidRequest(field, f"{len(text)} characters; send at most {TEXT_CHARS_MAX}")


def _to_samples(audio: Collector) -> "np.ndarray[tuple[int], np.dtype[np.float32]] | None":
    pcm = audio.content
    if len(pcm) % 2:
        raise InvalidRequest("audio", f"{len(pcm)} bytes; PCM s16le has two bytes a sample")
    return float_of_pcm(pcm) if pcm else None


def _to_frame(frame: pb.Frame) -> Frame:
    if len(frame.jpeg) > CHUNK_BYTES_MAX:
        raise InvalidRequest("frame.jpeg", f"{len(frame.jpeg)} bytes; send at most {CHUNK_BYTES_MAX}")
    return Frame(frame.time_s, decode_image(frame.jpeg, "frame.jpeg"))


def _to_history(history: Iterable[common.Utterance], field: str) -> tuple[Utterance, ...]:
    utterances = []
    for place, row in enumerate(history):
        if row.speaker not in _SPEAKERS:
            problem = f"{row.speaker}; use SPEAKER_USER or SPEAKER_AVATAR"
            raise InvalidRequest(f"{field}[{place}].speaker", problem)
        utterances.append(Utterance(_SPEAKERS[row.speaker], row.text, row.emotion))
    return tuple(utterances)


def _to_modalities(modalities: Iterable[Modality]) -> list[common.Modality]:
    return [_MODALITIES[modality] for modality in sorted(modalities)]


def _to_reply_part(piece: ReplySentence | ReplyRecord, card: common.ModelCard) -> pb.WriteReplyResponse:
    if isinstance(piece, ReplySentence):
        return pb.WriteReplyResponse(sentence=piece.text)
    return pb.WriteReplyResponse(
        record=pb.ReplyRecord(
            degraded=piece.degraded,
            candidates=piece.candidates,
            rejected=piece.rejected,
            retries=piece.retries,
            history_dropped=piece.history_dropped,
            memories=[
                pb.MemoryUse(sentence=use.sentence, read=use.is_read, unused=use.unused) for use in piece.memories
            ],
            examples_used=piece.examples_used,
            card=card,
        )
    )


def _to_response(answer: Answer, card: common.ModelCard) -> pb.PredictEmotionResponse:
    prediction = answer.prediction
    return pb.PredictEmotionResponse(
        distribution=answer.distribution,
        label=answer.label,
        level=_LEVELS[prediction.level],
        face_class=answer.face_class,
        saw=_to_modalities(prediction.saw),
        parse=prediction.parse,
        abstained=prediction.abstained,
        evidence=prediction.evidence,
        crisis=prediction.crisis,
        shots=[pb.Shot(id=shot.id, label=shot.label, similarity=shot.similarity) for shot in prediction.shots],
        history_dropped=prediction.history_dropped,
        answer=prediction.answer[:ANSWER_CHARS_MAX],
        card=card,
    )


def _to_act(act: pb.Act) -> Act:
    if act not in pb.Act.values():
        raise InvalidRequest("act", f"{act}; use one of: {', '.join(pb.Act.keys())}")
    return Act("" if act == pb.ACT_UNSPECIFIED else pb.Act.Name(act).removeprefix("ACT_").lower())


def _to_replies(replies: Sequence[str], field: str) -> tuple[str, ...]:
    if len(replies) > REPLIES_MAX:
        raise InvalidRequest(field, f"{len(replies)} of them; send at most {REPLIES_MAX}")
    for place, reply in enumerate(replies):
        if not 0 < len(reply.strip()) <= len(reply) <= EXAMPLE_CHARS_MAX:
            raise InvalidRequest(f"{field}[{place}]", f"{len(reply)} characters; send 1 to {EXAMPLE_CHARS_MAX}")
    return tuple(replies)
