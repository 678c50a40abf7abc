"""Replicas of a service that answers with what it is sent, and callers in all four ways."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
from google.protobuf.message import Message

from e3rg.replica.v1 import replica_pb2, replica_pb2_grpc
from services.common import clients, errors, server
from services.common.channels import BalancedChannel
from services.common.load import Load
from tests.fakes import PATIENCE_S
from tests.serving import loopback

NAME = "echo"


OPTIONS = clients.CallOptions(timeout=PATIENCE_S, metadata=())


class Echo:
    """A service whose answers are the messages with its name before; `before` may hold or end a call, `between` too.

    Attributes:
        left_s: Seconds that the last call had until its deadline.
    """

    def __init__(self, name: str, model: Message | None = None) -> None:
        self.name, self.asked, self.left_s = name, 0, 0.0
        self.model = model
        self.before: Callable[[Any], Awaitable[None]] | None = None
        self.between: Callable[[Any], Awaitable[None]] | None = None
        self.load = Load()
        self._stack = AsyncExitStack()
        self.running: server.Running | None = None

    @property
    def target(self) -> str:
        assert self.running
        return f"ipv4:127.0.0.1:{self.running.port}"

    async def start(self, grace_s: float = 0) -> "Echo":
        self.running = await self._stack.enter_async_context(
            server.running(NAME, NAME, loopback(shutdown_grace_s=grace_s))
        )
        self.running.serve(self._register, lambda: self.load, self.model)
        await self.running.set_ready()
        return self

    async def stop(self) -> None:
        await self._stack.aclose()

    def _register(self, to: Any) -> None:
        handlers = {
            "Ask": grpc.unary_unary_rpc_method_handler(self._ask, bytes, bytes),
            "Read": grpc.unary_stream_rpc_method_handler(self._read, bytes, bytes),
            "Send": grpc.stream_unary_rpc_method_handler(self._send, bytes, bytes),
            "Talk": grpc.stream_stream_rpc_method_handler(self._talk, bytes, bytes),
        }
        to.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))

    async def _begin(self) -> None:
        self.asked += 1
        if self.before:
            await self.before(self)

    async def _ask(self, request: bytes, context: Any) -> bytes:
        self.left_s = context.time_remaining()
        await self._begin()
        return self.name.encode() + request

    async def _read(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        await self._begin()
        yield self.name.encode()
        if self.between:
            await self.between(self)
        yield request

    async def _send(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        messages = [message async for message in requests]
        await self._begin()
        return self.name.encode() + b"".join(messages)

    async def _talk(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        await self._begin()
        yield self.name.encode()
        async for message in requests:
            yield message


async def echoes(stack: AsyncExitStack, count: int, models: Sequence[Message | None] = ()) -> list[Echo]:
    told = [*models, *[None] * count]
    found = [await Echo(f"{number} ", told[number]).start() for number in range(count)]
    for echo in found:
        stack.push_async_callback(echo.stop)
    return found


async def connected(stack: AsyncExitStack, *replicas: Echo) -> BalancedChannel:
    targets = ",".join(each.target.removeprefix("ipv4:") for each in replicas)
    channel = await stack.enter_async_context(clients.open_channel(f"ipv4:{targets}", NAME))
    await channel.replicas.wait_ready(len(replicas))
    return channel


async def ask(channel: BalancedChannel) -> str:
    answer: bytes = await channel.unary_unary(f"/{NAME}/Ask")(b"?", **OPTIONS)
    return answer.decode()


async def each(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


async def lose(echo: Echo) -> None:
    """Ends the call as when its replica has gone."""
    echo.before = None
    raise errors.NotReady("gone")


async def unary(channel: BalancedChannel) -> bytes:
    return (await ask(channel)).encode()


async def read(channel: BalancedChannel) -> bytes:
    return b"".join([part async for part in channel.unary_stream(f"/{NAME}/Read")(b"?", **OPTIONS)])


async def send(channel: BalancedChannel) -> bytes:
    answer: bytes = await clients.ask_any(channel.stream_unary(f"/{NAME}/Send"), each(b"a", b"b"), OPTIONS)
    return answer


async def talk(channel: BalancedChannel) -> bytes:
    method = channel.stream_stream(f"/{NAME}/Talk")
    return b"".join([part async for part in clients.converse_any(method, each(b"a", b"b"), OPTIONS)])


class Hanging(Echo):
    """Reports that it is idle, once, and answers nothing; its connection lives on."""

    async def start(self, grace_s: float = 0) -> "Echo":
        silent = grpc.aio.server()
        replica_pb2_grpc.add_ReplicaServiceServicer_to_server(_Silent(), silent)
        self.before = self._hang
        self._register(silent)
        self._port = silent.add_insecure_port("127.0.0.1:0")
        await silent.start()
        self._stack.push_async_callback(silent.stop, None)
        return self

    @property
    def target(self) -> str:
        return f"ipv4:127.0.0.1:{self._port}"

    async def _hang(self, echo: Echo) -> None:
        await asyncio.Event().wait()


class _Silent(replica_pb2_grpc.ReplicaServiceServicer):
    async def WatchReplica(  # noqa: N802
        self, request: replica_pb2.WatchReplicaRequest, context: Any
    ) -> AsyncIterator[replica_pb2.WatchReplicaResponse]:
        yield replica_pb2.WatchReplicaResponse(ready=True)
        await asyncio.Event().wait()
