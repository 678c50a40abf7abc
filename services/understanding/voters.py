"""The mllm services as seats of the panel: votes, transcripts and replies over gRPC."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import grpc

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common import clients
from services.common.errors import BackendFailed, DeadlineExceeded, FailedPrecondition, ServiceError
from services.common.media import chunks
from services.understanding.answers import problem_of
from services.understanding.domain import Status, Vote
from services.understanding.panel import Introduction

CARD_TIMEOUT_S = 2.0
CARD_AGAIN_TIMEOUT_S = 0.5
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


@dataclass(frozen=True)
class Answer:
    """Part of a voter for the record: its model, and its prediction if it made one."""

    model: pb.GetModelResponse
    prediction: pb.PredictEmotionResponse | None = None


class MllmVoter:
    """One mllm service.

    Args:
        name: Its name on the panel.
        channel: To its address.
        wheel: The panel's emotion wheel.
    """

    def __init__(self, name: str, channel: grpc.aio.Channel, wheel: Wheel) -> None:
        self.name = name
        self._wheel = wheel
        self._stub: mllm_pb2_grpc.MllmServiceAsyncStub = mllm_pb2_grpc.MllmServiceStub(channel)  # type: ignore[assignment]  # the async stub exists for the type checker only

    async def model(self) -> pb.GetModelResponse:
        """Asks what the model is and can do. Not remembered: a voter may be replaced while the panel runs.

        Raises:
            DeadlineExceeded: It did not answer in time; the message says in how much.
            ServiceError: It cannot be reached.
        """
        options = clients.options(CARD_TIMEOUT_S)
        try:
            async with clients.calling(f"mllm {self.name}"):
                return await self._stub.GetModel(pb.GetModelRequest(), **options)
        except DeadlineExceeded as error:
            problem = f"mllm {self.name}: it did not tell its card within {options['timeout']:.3g} s"
            raise DeadlineExceeded(problem) from error

    async def introduce(self) -> Introduction[Answer]:
        """Asks what it perceives and how fine its votes are.

        Raises:
            ServiceError: It cannot be reached.
        """
        model = await self.model()
        return Introduction(
            wordless=set(model.perceives) == {common.MODALITY_VIDEO},
            fine=model.level != pb.LEVEL_CLASS,
            source=Answer(model),
        )

    async def vote(self, message: Message, introduction: Introduction[Answer], timeout_s: float) -> Vote[Answer]:
        """Asks for its vote.

        Raises:
            ServiceError: It cannot be reached, failed, uses another emotion wheel, answered what is no vote, or was
                replaced on the way.
        """
        started_s = time.monotonic()
        model = introduction.source.model
        if model.card.ontology_hash != self._wheel.digest:
            raise FailedPrecondition(
                f"mllm {self.name} uses emotion wheel {model.card.ontology_hash[:12]}, the panel"
                f" {self._wheel.digest[:12]}; deploy the same version of both"
            )
        async with clients.calling(f"mllm {self.name}"):
            answer = await clients.ask_any(self._stub.PredictEmotion, self._parts(message), clients.options(timeout_s))
        latency_s = time.monotonic() - started_s
        if problem := problem_of(answer, model.level, self._wheel):
            raise BackendFailed(f"mllm {self.name}: {problem}")
        await self._check_same(model)
        return Vote(
            voter=self.name,
            status=Status.ABSTAINED if answer.abstained else Status.VOTED,
            reason=answer.abstained,
            distribution=dict(answer.distribution),
            fine=answer.level == pb.LEVEL_LABEL,
            latency_s=latency_s,
            source=Answer(model, answer),
        )

    async def transcribe(self, audio: bytes) -> pb.TranscribeResponse:
        """Transcribes PCM s16le, mono, 16000 Hz.

        Raises:
            ServiceError: It cannot be reached, or cannot transcribe.
        """

        async def parts() -> AsyncIterator[pb.TranscribeRequest]:
            for piece in chunks(audio):
                yield pb.TranscribeRequest(audio=piece)

        async with clients.calling(f"mllm {self.name}, which transcribes"):
            return await clients.ask_any(self._stub.Transcribe, parts(), clients.options(TRANSCRIBE_TIMEOUT_S))

    async def write_reply(self, request: pb.WriteReplyRequest) -> AsyncGenerator[pb.WriteReplyResponse]:
        """Has the reply written, part by part.

        Raises:
            ServiceError: It cannot be reached, or cannot write.
        """
        async with clients.calling(f"mllm {self.name}, which writes the replies"):
            call = self._stub.WriteReply(request, **clients.options(REPLY_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                async for part in parts:
                    yield part

    async def _check_same(self, model: pb.GetModelResponse) -> None:
        """Raises BackendFailed when the service now runs another model: whose vote it was cannot be told then.

        A call that broke off is tried again, and what answers may be what the voter was replaced with. One that
        cannot be asked any more was not replaced; its vote counts.
        """
        try:
            async with clients.calling(f"mllm {self.name}"):
                now = await self._stub.GetModel(pb.GetModelRequest(), **clients.options(CARD_AGAIN_TIMEOUT_S))
        except ServiceError:
            return
        if now.card != model.card:
            raise BackendFailed(
                f"mllm {self.name} was replaced while it voted: {model.card.model} {model.card.digest[:12]} before,"
                f" {now.card.model} {now.card.digest[:12]} after"
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
