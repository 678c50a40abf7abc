"""The mllm services as seats of the panel: votes, transcripts and replies over gRPC."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common import clients
from services.common.channels import BalancedChannel
from services.common.errors import DeadlineExceeded, FailedPrecondition
from services.common.media import chunks
from services.common.metrics import VARIANT
from services.understanding.answers import problem_of
from services.understanding.domain import Status, Vote
from services.understanding.panel import Introduction

CARD_TIMEOUT_S = 2.0
TRANSCRIBE_TIMEOUT_S = 20.0
REPLY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Message:
    """Message as the voters get it.

    Attributes:
        text: Typed, or transcribed.
        audio: PCM s16le, mono, 16000 Hz; empty when there is none.
        frames: JPEG frames with their times.
        history: The conversation before it, oldest first.
        seed: Same seed, same examples in the voters' prompts, same answers.
    """

    text: str
    audio: bytes
    frames: tuple[pb.Frame, ...]
    history: tuple[common.Utterance, ...]
    seed: int

    @property
    def modalities(self) -> set[common.Modality]:
        """Ways in which it can be perceived."""
        parts = {
            common.MODALITY_TEXT: self.text.strip(),
            common.MODALITY_AUDIO: self.audio,
            common.MODALITY_VIDEO: self.frames,
        }
        return {modality for modality, content in parts.items() if content}


@dataclass(frozen=True)
class Answer:
    """Part of a voter for the record: its model, if it is known, and its prediction, if it made one."""

    card: common.ModelCard | None
    prediction: pb.PredictEmotionResponse | None = None


class MllmVoter:
    """One variant of an mllm service.

    Args:
        name: Its name on the panel.
        channel: To its replicas, which tell what their models are.
        wheel: The panel's emotion wheel.
        variant: Name of the variant.
    """

    def __init__(self, name: str, channel: BalancedChannel, wheel: Wheel, variant: str = VARIANT) -> None:
        self.name, self.variant = name, variant
        self._label = f"mllm {name}" if variant == VARIANT else f"mllm {name}, variant {variant}"
        self._replicas, self._wheel = channel.replicas, wheel
        self._stub: mllm_pb2_grpc.MllmServiceAsyncStub = mllm_pb2_grpc.MllmServiceStub(channel)  # type: ignore[assignment]  # the async stub exists for the type checker only

    @property
    def problem(self) -> str:
        """Why none of its replicas takes calls; empty when one does."""
        return self._replicas.problem

    async def model(self) -> pb.GetModelResponse:
        """Asks what the model is and can do. Only for status: within a turn nobody waits for it.

        Raises:
            DeadlineExceeded: It did not answer in time; the message says in how much.
            ServiceError: It cannot be reached.
        """
        options = clients.options(CARD_TIMEOUT_S)
        try:
            async with clients.calling(self._label):
                return await self._stub.GetModel(pb.GetModelRequest(), **options)
        except DeadlineExceeded as error:
            problem = f"{self._label}: it did not tell its card within {options['timeout']:.3g} s"
            raise DeadlineExceeded(problem) from error

    def introduce(self) -> Introduction[Answer] | None:
        """Return what its replicas told of their models; None while none has."""
        models = self._models()
        if not models:
            return None
        return Introduction(
            wordless=all(set(model.perceives) == {common.MODALITY_VIDEO} for model in models),
            fine=any(model.level != pb.LEVEL_CLASS for model in models),
            source=_only(models),
        )

    def writes(self, language: str) -> bool:
        """Tell whether its replicas may write in a language; one that has not told which writes any."""
        return all(language in model.writes for model in self._models() if model.writes)

    async def vote(self, message: Message, timeout_s: float) -> Vote[Answer]:
        """Ask for its vote; whose it is says the answer. It is not asked if none of its models can read the message.

        Raises:
            ServiceError: It cannot be reached, failed, or uses another emotion wheel.
        """
        models = self._models()
        if models and all(model.card.ontology_hash != self._wheel.digest for model in models):
            raise FailedPrecondition(self._other_wheel(models[0].card))
        if reason := _unreadable(message, models):
            return Vote(self.name, Status.ABSTAINED, reason, source=_only(models))
        started_s = time.monotonic()
        async with clients.calling(self._label):
            answer = await clients.ask_any(self._stub.PredictEmotion, self._parts(message), clients.options(timeout_s))
        latency_s = time.monotonic() - started_s
        card = answer.card if answer.HasField("card") else None
        if problem := self._problem_of(answer):
            return Vote(self.name, Status.FAILED, problem, latency_s=latency_s, source=Answer(card))
        return Vote(
            voter=self.name,
            status=Status.ABSTAINED if answer.abstained else Status.VOTED,
            reason=answer.abstained,
            distribution=dict(answer.distribution),
            fine=answer.level == pb.LEVEL_LABEL,
            latency_s=latency_s,
            source=Answer(card, answer),
        )

    async def transcribe(self, audio: bytes) -> pb.TranscribeResponse:
        """Transcribes PCM s16le, mono, 16000 Hz.

        Raises:
            ServiceError: It cannot be reached, or cannot transcribe.
        """

        async def parts() -> AsyncIterator[pb.TranscribeRequest]:
            for piece in chunks(audio):
                yield pb.TranscribeRequest(audio=piece)

        async with clients.calling(f"{self._label}, which transcribes"):
            return await clients.ask_any(self._stub.Transcribe, parts(), clients.options(TRANSCRIBE_TIMEOUT_S))

    async def write_reply(self, request: pb.WriteReplyRequest) -> AsyncGenerator[pb.WriteReplyResponse]:
        """Has the reply written, part by part.

        Raises:
            ServiceError: It cannot be reached, or cannot write.
        """
        async with clients.calling(f"{self._label}, which writes the replies"):
            call = self._stub.WriteReply(request, **clients.options(REPLY_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                async for part in parts:
                    yield part

    def _models(self) -> list[pb.GetModelResponse]:
        return self._replicas.models(pb.GetModelResponse)

    def _problem_of(self, answer: pb.PredictEmotionResponse) -> str:
        """Return why an answer is no vote; empty when it is one."""
        # An older release names no model; it refuses another wheel by itself.
        if answer.HasField("card") and answer.card.ontology_hash != self._wheel.digest:
            return self._other_wheel(answer.card)
        levels = {model.card.digest: model.level for model in self._models()}
        problem = problem_of(answer, levels.get(answer.card.digest, pb.LEVEL_UNSPECIFIED), self._wheel)
        return problem and f"{self._label}: {problem}"

    def _other_wheel(self, card: common.ModelCard) -> str:
        return (
            f"{self._label} uses emotion wheel {card.ontology_hash[:12]}, the panel"
            f" {self._wheel.digest[:12]}; deploy the same version of both"
        )

    async def _parts(self, message: Message) -> AsyncIterator[pb.PredictEmotionRequest]:
        yield pb.PredictEmotionRequest(
            header=pb.PredictEmotionHeader(
                text=message.text, history=message.history, ontology_hash=self._wheel.digest, seed=message.seed
            )
        )
        for piece in chunks(message.audio):
            yield pb.PredictEmotionRequest(audio=piece)
        for frame in message.frames:
            yield pb.PredictEmotionRequest(frame=frame)


def _only(models: list[pb.GetModelResponse]) -> Answer | None:
    """Return the one model that they are for the record; None when they differ, or there are none."""
    if not models or any(model.card != models[0].card for model in models):
        return None
    return Answer(models[0].card)


def _unreadable(message: Message, models: list[pb.GetModelResponse]) -> str:
    """Return why none of the models can read a message; empty when one may, or nothing is known of them."""
    perceived = {modality for model in models for modality in model.perceives}
    if not perceived or perceived & message.modalities:
        return ""
    return f"it perceives {_names(perceived)}, and the message has {_names(message.modalities)}"


def _names(modalities: Iterable[common.Modality]) -> str:
    return " and ".join(common.Modality.Name(each).removeprefix("MODALITY_").lower() for each in sorted(modalities))
