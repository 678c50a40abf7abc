"""Calls of turns, over several connections: one HTTP/2 connection limits the turns that are open at once."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import grpc

from benchmarks.load.messages import Message
from benchmarks.load.playback import InvalidVideo
from benchmarks.load.profile import OUTPUTS, Profile
from benchmarks.load.turn import Recorder, Turn
from client import credentials
from client.files import pieces
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

TURNS_PER_CONNECTION = 50
"""Proxies allow some hundred streams; another connection is made before that."""
OUTCOMES = {grpc.StatusCode.RESOURCE_EXHAUSTED: "refused", grpc.StatusCode.DEADLINE_EXCEEDED: "late"}
SEEDS = 1 << 32


@dataclass
class _Connection:
    stub: "Stub"
    turns: int = 0


class Caller:
    """Makes turns on a gateway, each on the connection with the fewest; use it in an `async with` block.

    Args:
        profile: What they are like.
        now_s: Returns the time since the begin of the run.

    Raises:
        OSError: A file of the profile's TLS cannot be read.
        ValueError: One is missing beside the others, or holds nothing usable.
    """

    def __init__(self, profile: Profile, now_s: Callable[[], float]) -> None:
        self._profile = profile
        self._now_s = now_s
        self._seeds = random.Random(f"{profile.seed} replies")
        self._credentials = credentials.read(profile.ca_file, profile.certificate_file, profile.key_file)
        self._channels = AsyncExitStack()
        self._connections: list[_Connection] = []

    async def __aenter__(self) -> "Caller":
        for _ in range(self._profile.connections):
            await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channels.aclose()

    async def make(self, turn: Turn, message: Message, conversation: str) -> None:
        """Make a turn, and fill its record. Nothing is tried again. Cancelling this cancels the turn."""
        recorder = Recorder(turn, OUTPUTS[self._profile.output], self._now_s)
        header = self._header(message, conversation)
        turn.trace_id = secrets.token_hex(16)
        turn.bytes_sent = len(message.text.encode()) + len(message.content)
        connection = await self._free()
        connection.turns += 1
        call = connection.stub.Respond(
            _parts(header, message, recorder),
            timeout=self._profile.deadline_s,
            metadata=(("traceparent", f"00-{turn.trace_id}-{secrets.token_hex(8)}-01"),),
        )
        try:
            async for event in call:
                recorder.take(event)
            recorder.end()
        except grpc.aio.AioRpcError as error:
            status = error.code()
            recorder.stop(OUTCOMES.get(status, "failed"), status.name, error.details() or "no details")
            turn.retry_after_s = _retry_after_s(error)
        except InvalidVideo as error:
            recorder.stop("failed", "OK", f"the video is no fragmented MP4: {error}")
        except asyncio.CancelledError:
            recorder.stop("unfinished", "CANCELLED")
            raise
        finally:
            connection.turns -= 1
            call.cancel()

    def _header(self, message: Message, conversation: str) -> pb.RespondHeader:
        return pb.RespondHeader(
            text=message.text,
            audio_size_bytes=len(message.audio),
            video_size_bytes=len(message.video),
            identity=self._profile.identity,
            tenant=self._profile.tenant,
            conversation=conversation,
            keep_clips=self._profile.keep_clips,
            output=OUTPUTS[self._profile.output],
            seed=self._seeds.randrange(SEEDS),
        )

    async def _free(self) -> _Connection:
        connection = min(self._connections, key=lambda each: each.turns)
        return connection if connection.turns < TURNS_PER_CONNECTION else await self._connect()

    async def _connect(self) -> _Connection:
        # Channels of a common pool would share one connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        address, found = self._profile.address, self._credentials
        channel = await self._channels.enter_async_context(
            grpc.aio.secure_channel(address, found, options) if found else grpc.aio.insecure_channel(address, options)
        )
        self._connections.append(_Connection(cast("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))))
        return self._connections[-1]


async def _parts(header: pb.RespondHeader, message: Message, recorder: Recorder) -> AsyncIterator[pb.RespondRequest]:
    yield pb.RespondRequest(header=header)
    for piece in pieces(message.audio):
        yield pb.RespondRequest(audio=piece)
    for piece in pieces(message.video):
        yield pb.RespondRequest(video=piece)
    recorder.uploaded()


def _retry_after_s(error: grpc.aio.AioRpcError) -> float:
    """Return the pause that a refusal asks for; 0 where it names none."""
    found = dict(error.trailing_metadata() or ()).get("retry-after-ms", "")
    return int(found) / 1000 if str(found).isdecimal() else 0.0
