"""Proxy of the memory's services at the gateway: requests and responses pass unchanged.

Streams go through piece by piece, and nothing is held back but the files of a new, changed or imported identity and
what shows an emotion: voice and face look at those first (`identities.py`, `archives.py`). Cancelling a call here
cancels it there, and its deadline holds there too.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, memory_pb2, turns_pb2
from e3rg.memory.v1 import identities_pb2 as pb
from orchestrator.archives import ArchiveExaminer
from orchestrator.identities import Examiner
from orchestrator.memory import Memory, calling
from orchestrator.stages import STREAM_TIMEOUT_S
from services.common import clients
from services.common.errors import Unsupported

SERVICES: tuple[ServiceDescriptor, ...] = tuple(
    file.DESCRIPTOR.services_by_name[name]
    for file, name in (
        (pb, "IdentityService"),
        (memory_pb2, "MemoryService"),
        (exemplars_pb2, "ExemplarService"),
        (erasure_pb2, "ErasureService"),
        (turns_pb2, "TurnService"),
    )
)
IN_TURNS = frozenset({"Recall", "Remember", "PutClip", "PutTimings", "RaiseRisk", "GetDerived", "PutDerived"})
"""RPCs of turns only: nobody plants from outside what an avatar remembers, or how its voice was fitted."""
WITHIN = IN_TURNS | {"PutScores", "SummarizeUsers"}
"""RPCs of the services within: nobody outside scores turns by machine, or looks across tenants."""


class Memories:
    """The memory's services, for a server.

    Args:
        memory: Where calls go.
        examiner: Looks at the files of identities.
    """

    def __init__(self, memory: Memory, examiner: Examiner) -> None:
        self._memory = memory
        self._examiner = examiner

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the services to a server."""
        for service in SERVICES:
            handlers = {method.name: self._handler(service, method) for method in service.methods}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    def _handler(self, service: ServiceDescriptor, method: MethodDescriptor) -> Any:
        path = f"/{service.full_name}/{method.name}"
        examined: dict[str, tuple[type[Message], Callable[..., AsyncIterator[Any]]]] = {
            "AddIdentity": (pb.AddIdentityRequest, self._examiner.addition),
            "ImportIdentity": (pb.ImportIdentityRequest, lambda parts: ArchiveExaminer(self._examiner).examined(parts)),
            "PutEmotionReference": (pb.PutEmotionReferenceRequest, self._examiner.emotion),
        }
        match method.name:
            case name if name in examined:
                return self._examining(path, *examined[name])
            case "ChangeIdentity":
                return grpc.stream_unary_rpc_method_handler(self._changing(path), pb.ChangeIdentityRequest.FromString)
            case "EraseIdentity":
                read = erasure_pb2.EraseIdentityRequest.FromString
                return grpc.unary_unary_rpc_method_handler(self._erasing(path), read)
            case name if name in WITHIN:
                return _handler_of(method, *_refusals(name))
        answer = self._sending(path) if method.client_streaming else self._asking(path)
        return _handler_of(method, answer, self._reading(path))

    def _asking(self, path: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def ask(request: bytes, context: Any) -> bytes:
            async with calling():
                piped: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._memory.channel.unary_unary(path)
                return await piped(request, **_options())

        return ask

    def _reading(self, path: str) -> Callable[[bytes, Any], AsyncGenerator[bytes]]:
        async def read(request: bytes, context: Any) -> AsyncGenerator[bytes]:
            async with calling():
                piped: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._memory.channel.unary_stream(path)
                async with aclosing(clients.responses(piped(request, **_options()))) as parts:
                    async for part in parts:
                        yield part

        return read

    def _sending(self, path: str) -> Callable[[AsyncIterator[bytes], Any], Awaitable[bytes]]:
        async def send(requests: AsyncIterator[bytes], context: Any) -> bytes:
            async with calling():
                piped: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = self._memory.channel.stream_unary(path)
                return await clients.ask_any(piped, requests, _options())

        return send

    def _examining(self, path: str, kind: type[Message], examine: Callable[..., AsyncIterator[Any]]) -> Any:
        """Returns what serves a method whose requests, of this kind, go on when they are examined."""
        send = self._sending(path)

        async def put(requests: AsyncIterator[Any], context: Any) -> bytes:
            return await send((part.SerializeToString() async for part in examine(aiter(requests))), context)

        return grpc.stream_unary_rpc_method_handler(put, kind.FromString)

    def _changing(self, path: str) -> Callable[[AsyncIterator[pb.ChangeIdentityRequest], Any], Awaitable[bytes]]:
        send = self._sending(path)

        async def change(requests: AsyncIterator[pb.ChangeIdentityRequest], context: Any) -> bytes:
            header = pb.ChangeIdentityHeader()

            async def noted() -> AsyncGenerator[bytes]:
                async for part in self._examiner.change(aiter(requests)):
                    if part.HasField("header"):
                        header.CopyFrom(part.header)
                    yield part.SerializeToString()

            try:
                return await send(noted(), context)
            finally:
                self._memory.forget(header.tenant, header.id)

        return change

    def _erasing(self, path: str) -> Callable[[erasure_pb2.EraseIdentityRequest, Any], Awaitable[bytes]]:
        ask = self._asking(path)

        async def erase(request: erasure_pb2.EraseIdentityRequest, context: Any) -> bytes:
            try:
                return await ask(request.SerializeToString(), context)
            finally:
                self._memory.forget(request.tenant, request.identity)

        return erase


def _refusals(method: str) -> tuple[Callable[..., Awaitable[bytes]], Callable[..., AsyncGenerator[bytes]]]:
    instead = "; here a turn does it (OrchestratorService.Respond)" if method in IN_TURNS else ""
    error = Unsupported(f"{method} is for the services within{instead}")

    async def refuse(requests: Any, context: Any) -> bytes:
        raise error

    async def refuse_stream(requests: Any, context: Any) -> AsyncGenerator[bytes]:
        yield await refuse(requests, context)

    return refuse, refuse_stream


def _handler_of(
    method: MethodDescriptor, answer: Callable[..., Awaitable[bytes]], stream: Callable[..., AsyncGenerator[bytes]]
) -> Any:
    """Returns what serves a method: `stream` when it answers with a stream."""
    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(answer, bytes)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream, bytes)
    return grpc.unary_unary_rpc_method_handler(answer, bytes)


def _options() -> clients.CallOptions:
    return clients.options(STREAM_TIMEOUT_S)
