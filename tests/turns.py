"""Turns as a caller of the door sees them."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from typing import cast as typed

import av
import grpc

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from services.common.errors import NotReady

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

Start = Callable[[], Awaitable["Stub"]]
"""Starts a deployment; returns its door."""
REPLY = "I am sorry to hear that. Tell me more."
"""What the lead of a deployment writes unless it is told otherwise."""


def away(*methods: str) -> Callable[[str], None]:
    """Returns a `before` of a memory whose store is away for these."""

    def refuse(method: str) -> None:
        if method in methods:
            raise NotReady("the store is away; retry")

    return refuse


def header(text: str = "I lost my job.", identity: str = "ada", **fields: object) -> pb.RespondRequest:
    return pb.RespondRequest(header=pb.RespondHeader(text=text, identity=identity, **fields))  # type: ignore[arg-type]


class Turn:
    """The events of a turn."""

    def __init__(self, events: list[pb.RespondResponse]) -> None:
        self.events = events
        self.kinds = [event.WhichOneof("event") for event in events]
        self.understood = next(event.understood for event in events if event.HasField("understood"))
        self.delivery = next(event.delivery for event in events if event.HasField("delivery"))
        self.identity = next(event.identity for event in events if event.HasField("identity"))
        self.sentences = [event.text.sentence for event in events if event.HasField("text")]
        self.audio = [event.audio for event in events if event.HasField("audio")]
        self.video = [event.video for event in events if event.HasField("video")]
        self.recalled = [event.recalled for event in events if event.HasField("recalled")]
        self.timings = {event.timing.stage: event.timing for event in events if event.HasField("timing")}
        self.degraded = [event.degraded for event in events if event.HasField("degraded")]
        assert self.kinds.count("done") == 1
        self.done = events[-1].done
        assert self.kinds[-1] == "done"

    @property
    def audio_s(self) -> float:
        assert {chunk.sample_rate_hz for chunk in self.audio} <= {16_000}
        return sum(len(chunk.samples) for chunk in self.audio) / 2 / 16_000

    @property
    def frames(self) -> int:
        with av.open(io.BytesIO(b"".join(chunk.content for chunk in self.video)), mode="r") as film:
            return sum(1 for _ in film.decode(video=0))


async def respond(stub: "Stub", *parts: pb.RespondRequest, timeout_s: float = 20) -> Turn:
    return Turn([event async for event in stub.Respond(iter(parts), timeout=timeout_s)])


Answering = grpc.aio.StreamStreamCall[pb.RespondRequest, pb.RespondResponse]


async def until(call: Answering, kind: str) -> pb.RespondResponse:
    """Reads events up to the first of a kind."""
    async with asyncio.timeout(20):
        while True:
            read = await call.read()
            assert read is not grpc.aio.EOF, f"the turn ended without {kind}"
            event = typed("pb.RespondResponse", read)
            if event.WhichOneof("event") == kind:
                return event


def lost(turn: Turn) -> list[tuple[str, str]]:
    """Stage and loss of all that was dropped."""
    return [(degraded.stage, degraded.dropped) for degraded in turn.degraded]
