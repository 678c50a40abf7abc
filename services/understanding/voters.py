"""The mllm services as seats of the panel: votes, transcripts and replies over gRPC."""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import grpc

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from services.common import clients
from services.common.errors import FailedPrecondition
from services.common.media import chunks
from services.understanding.domain import Status, Vote

CARD_TIMEOUT_S = 2.0
TRANSCRIBE_TIMEOUT_S = 20.0
REPLY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Message:
    """What the voters get.

    Attributes:
        text: Typed, or transcribed.
        audio: PCM s16le, mono, 16000 Hz; empty when there is none.
        frames: JPEG frames with their times.
        history: The conversation before it, oldest first.
        ontology_hash: Digest of the panel's wheel.
    """

    text: str
    audio: bytes
    frames: tuple[pb.Frame, ...]
    history: tuple[common.Utterance, ...]
    ontology_hash: str


@dataclass(frozen=True)
class Answer:
    """What is kept of a vote for the record."""

    prediction: pb.PredictEmotionResponse
    card: common.ModelCard


class MllmVoter:
    """One mllm service.

    Args:
        name: Its name on the panel.
        channel: To its address.
    """

    def __init__(self, name: str, channel: grpc.aio.Channel) -> None:
        self.name = name
        self._stub: mllm_pb2_grpc.MllmServiceAsyncStub = mllm_pb2_grpc.MllmServiceStub(channel)  # type: ignore[assignment]  # the async stub exists for the type checker only

    async def model(self) -> pb.GetModelResponse:
        """Asks what the model is and can do. Not remembered: a voter may be replaced while the panel runs.

        Raises:
            ServiceError: It cannot be reached.
        """
        async with clients.calling(f"mllm {self.name}"):
            return await self._stub.GetModel(pb.GetModelRequest(), **clients.options(CARD_TIMEOUT_S))

    async def wordless(self) -> bool:
        """Tells whether it perceives pictures only.

        Raises:
            ServiceError: It cannot be reached.
        """
        return set((await self.model()).perceives) == {common.MODALITY_VIDEO}

    async def vote(self, message: Message, timeout_s: float) -> Vote[Answer]:
        """Asks for its vote.

        Raises:
            ServiceError: It cannot be reached, failed, or uses another emotion wheel.
        """
        started_s = time.monotonic()
        model = await self.model()
        if model.card.ontology_hash != message.ontology_hash:
            raise FailedPrecondition(
                f"mllm {self.name} uses emotion wheel {model.card.ontology_hash[:12]}, the panel"
                f" {message.ontology_hash[:12]}; deploy the same version of both"
            )
        async with clients.calling(f"mllm {self.name}"):
            answer = await self._stub.PredictEmotion(_parts(message), **clients.options(timeout_s))
        return Vote(
            voter=self.name,
            status=Status.ABSTAINED if answer.abstained else Status.VOTED,
            reason=answer.abstained,
            distribution=dict(answer.distribution),
            fine=answer.level == pb.LEVEL_LABEL,
            latency_s=time.monotonic() - started_s,
            source=Answer(answer, model.card),
        )

    async def transcribe(self, audio: bytes) -> pb.TranscribeResponse:
        """Transcribes PCM s16le, mono, 16000 Hz.

        Raises:
            ServiceError: It cannot be reached, or cannot transcribe.
        """
        parts = (pb.TranscribeRequest(audio=piece) for piece in chunks(audio))
        async with clients.calling(f"mllm {self.name}"):
            return await self._stub.Transcribe(parts, **clients.options(TRANSCRIBE_TIMEOUT_S))

    async def write_reply(self, request: pb.WriteReplyRequest) -> AsyncGenerator[pb.WriteReplyResponse]:
        """Has the reply written, part by part.

        Raises:
            ServiceError: It cannot be reached, or cannot write.
        """
        async with clients.calling(f"mllm {self.name}"):
            call = self._stub.WriteReply(request, **clients.options(REPLY_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                async for part in parts:
                    yield part


def _parts(message: Message) -> Iterator[pb.PredictEmotionRequest]:
    yield pb.PredictEmotionRequest(
        header=pb.PredictEmotionHeader(text=message.text, history=message.history, ontology_hash=message.ontology_hash)
    )
    for piece in chunks(message.audio):
        yield pb.PredictEmotionRequest(audio=piece)
    for frame in message.frames:
        yield pb.PredictEmotionRequest(frame=frame)
