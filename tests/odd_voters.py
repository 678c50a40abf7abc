"""A panel with a voter straight on the wire, which says whatever a test lets it say."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any
from typing import cast as typed

import grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.mllm.v1 import mllm_pb2_grpc
from e3rg.understanding.v1 import understanding_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2_grpc
from services.common import server
from services.common.errors import NotReady
from tests.deployment import Cast, serving_understanding
from tests.fake_voters import FakeVoter
from tests.fakes import PATIENCE_S
from tests.model_services import serving_mllm
from tests.serving import Served, loopback, serving

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

WHEEL = emotions.load()
MLLM = "e3rg.mllm.v1.MllmService"
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def card(model: str = "odd-1", ontology_hash: str = WHEEL.digest) -> mllm.GetModelResponse:
    return mllm.GetModelResponse(
        card=common.ModelCard(backend="odd", model=model, digest=model * 8, ontology_hash=ontology_hash),
        operations=[mllm.OPERATION_PREDICT],
        perceives=[common.MODALITY_TEXT],
        level=mllm.LEVEL_LABEL,
    )


def answer(distribution: Mapping[str, float], **changes: Any) -> mllm.PredictEmotionResponse:
    """A vote that nothing is wrong with but `changes`."""
    fields: dict[str, Any] = {"label": "furious", "face_class": "angry", "level": mllm.LEVEL_LABEL, "parse": "scored"}
    return mllm.PredictEmotionResponse(distribution=distribution, **(fields | changes))


class Odd(mllm_pb2_grpc.MllmServiceServicer):
    """A voter straight on the wire, which says `answer`, whatever that is, as soon as `ready` is set.

    Attributes:
        model: It says so when it is asked, once `known` is set; when it is watched, if `is_told`; and of each answer,
            if `is_named`.
        is_leaving: Whether it answers as one that stops.
    """

    def __init__(self, model: str = "odd-1") -> None:
        self.model = card(model)
        self.is_told = self.is_named = True
        self.is_leaving = False
        self.answer = answer({"furious": 1.0})
        self.ready = asyncio.Event()
        self.ready.set()
        self.known = asyncio.Event()
        self.known.set()
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.remaining_s = 0.0
        """Of the vote's own deadline, when it was cancelled."""

    async def GetModel(self, request: mllm.GetModelRequest, context: Any) -> mllm.GetModelResponse:  # noqa: N802
        await self.known.wait()
        return self.model

    async def PredictEmotion(self, request_iterator: Any, context: Any) -> mllm.PredictEmotionResponse:  # noqa: N802
        try:
            async for _ in request_iterator:
                pass
            self.asked.set()
            await self.ready.wait()
        except asyncio.CancelledError:
            self.remaining_s = context.time_remaining()
            self.cancelled.set()
            raise
        if self.is_leaving:
            raise NotReady("it is being stopped")
        said = mllm.PredictEmotionResponse()
        said.CopyFrom(self.answer)
        if self.is_named:
            said.card.CopyFrom(self.model.card)
        return said

    async def Transcribe(self, request_iterator: Any, context: Any) -> mllm.TranscribeResponse:  # noqa: N802
        raise NotImplementedError

    async def WriteReply(  # noqa: N802
        self, request: mllm.WriteReplyRequest, context: Any
    ) -> AsyncIterator[mllm.WriteReplyResponse]:
        self.asked.set()
        if self.is_leaving:
            raise NotReady("it is being stopped")
        yield mllm.WriteReplyResponse(sentence=f"I am {self.model.card.model}.", card=self.model.card)
        yield mllm.WriteReplyResponse(record=mllm.ReplyRecord(card=self.model.card))

    def register(self, to: grpc.aio.Server) -> None:
        mllm_pb2_grpc.add_MllmServiceServicer_to_server(self, to)


class Panel:
    """A panel of an odd voter, a lead, and as many sad ones as are told."""

    def __init__(self) -> None:
        self.cast = Cast(vote_deadline_s=20)
        self.odd = Odd()
        self.more_odds: list[Odd] = []
        """Further replicas of the odd voter."""
        self.sad: list[FakeVoter] = []
        """Started with the panel."""
        self.writer = "lead"
        self.odd_port = 0
        self._stack = AsyncExitStack()
        self._odd_stack = AsyncExitStack()

    async def start(self, sad: int = 1) -> "Stub":
        odd = await self._odd_stack.enter_async_context(self._serving(self.odd))
        self.odd_port = odd.running.port
        more = [(await self._stack.enter_async_context(self._serving(each))).address for each in self.more_odds]
        voters = {"odd": f"ipv4:{','.join([odd.address, *more])}"}
        self.sad = [FakeVoter({"sad": 0.9, "lonely": 0.1}) for _ in range(sad)]
        others = {f"sad{number}": voter for number, voter in enumerate(self.sad)}
        for name, voter in {**others, "lead": self.cast.lead}.items():
            voters[name] = (await self._stack.enter_async_context(serving_mllm(name, voter, WHEEL))).address
        served = await self._stack.enter_async_context(serving_understanding(self.cast, voters, self.writer))
        return typed("Stub", understanding_pb2_grpc.UnderstandingServiceStub(served.channel))

    async def stop_odd(self) -> None:
        await self._odd_stack.aclose()

    async def replace_odd(self, odd: Odd) -> None:
        """Stops the odd voter, and starts another where it was."""
        await self.stop_odd()
        settings = loopback(port=self.odd_port, shutdown_grace_s=0)
        running = await self._odd_stack.enter_async_context(server.running(MLLM, "mllm", settings))
        running.serve(odd.register, model=odd.model)
        await running.set_ready()

    @staticmethod
    def _serving(odd: Odd) -> AbstractAsyncContextManager[Served]:
        return serving(MLLM, odd.register, grace_s=0, model=odd.model if odd.is_told else None)

    async def stop(self) -> None:
        await self._stack.aclose()
        await self._odd_stack.aclose()


async def understand(
    stub: "Stub",
    text: str = "I lost my job.",
    history: int = 0,
    seed: int = 0,
    audio: bytes = b"",
    video: bytes = b"",
) -> pb.UnderstandResponse:
    header = pb.UnderstandHeader(
        text=text,
        ontology_hash=WHEEL.digest,
        seed=seed,
        audio_size_bytes=len(audio),
        video_size_bytes=len(video),
    )
    said = [common.Utterance(speaker=common.SPEAKER_USER, text=f"turn {number}") for number in range(history)]
    parts = [pb.UnderstandRequest(header=header)]
    parts += [pb.UnderstandRequest(audio=audio[at : at + (1 << 20)]) for at in range(0, len(audio), 1 << 20)]
    parts += [pb.UnderstandRequest(video=video[at : at + (1 << 20)]) for at in range(0, len(video), 1 << 20)]
    parts.append(pb.UnderstandRequest(context=pb.UnderstandContext(history=said)))
    return await stub.Understand(iter(parts), timeout=PATIENCE_S)
