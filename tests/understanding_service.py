"""A panel over real voters with fake models, served, and messages to it."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING
from typing import cast as typed

import grpc

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.understanding.v1 import understanding_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2_grpc
from tests.deployment import Cast, serving_understanding
from tests.model_services import serving_mllm
from tests.samples import wav
from tests.serving import Served

if TYPE_CHECKING:
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub as Stub

WHEEL = emotions.load()
MIB = 1 << 20
INVALID = grpc.StatusCode.INVALID_ARGUMENT
AUDIO = wav()


class Panel:
    """A running panel over the fakes of a cast, whose voters can be stopped one by one."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.addresses: dict[str, str] = {}
        """Of all voters, and of the variants of voters that the cast has."""
        self._stacks: dict[str, AsyncExitStack] = {}

    async def start(self) -> "Stub":
        for name, voter in {**self.cast.voters, **self.cast.variant_voters}.items():
            served = await self._start(name, serving_mllm(name, voter, self.cast.wheel(f"mllm {name}")))
            self.addresses[name] = served.address
        voters = {name: self.addresses[name] for name in self.cast.voters}
        served = await self._start("panel", serving_understanding(self.cast, voters))
        return typed("Stub", understanding_pb2_grpc.UnderstandingServiceStub(served.channel))

    async def _start(self, name: str, serving_it: AbstractAsyncContextManager[Served]) -> Served:
        self._stacks[name] = AsyncExitStack()
        return await self._stacks[name].enter_async_context(serving_it)

    async def stop(self, name: str) -> None:
        await self._stacks[name].aclose()

    async def stop_all(self) -> None:
        for stack in reversed([*self._stacks.values()]):
            await stack.aclose()


def emotion(label: str) -> common.Emotion:
    return common.Emotion(label=label, intensity=0.5, ontology_hash=WHEEL.digest)


def header(
    text: str = "", audio: int = 0, video: int = 0, ontology_hash: str = WHEEL.digest, seed: int = 0
) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(
        header=pb.UnderstandHeader(
            text=text, audio_size_bytes=audio, video_size_bytes=video, ontology_hash=ontology_hash, seed=seed
        )
    )


def context(*history: common.Utterance) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(context=pb.UnderstandContext(history=history))


def audio(content: bytes) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(audio=content)


def video(content: bytes) -> pb.UnderstandRequest:
    return pb.UnderstandRequest(video=content)


async def understand(stub: "Stub", *parts: pb.UnderstandRequest, timeout_s: float = 20) -> pb.UnderstandResponse:
    return await stub.Understand(iter(parts), timeout=timeout_s)


async def understand_text(stub: "Stub", text: str = "I lost my job.") -> pb.UnderstandResponse:
    return await understand(stub, header(text), context())
