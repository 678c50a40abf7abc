"""What a caller is told when the service ends a call while a message is being written.

gRPC sets a status of its own then, before the service's or in its place; by chance, so the call here is a fake.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import grpc
import pytest

from services.common import clients

NOT_WRITTEN = (grpc.StatusCode.INTERNAL, "Internal error from Core")
REFUSED = (grpc.StatusCode.INVALID_ARGUMENT, "audio: more than 1920000 bytes")
AWAY = (grpc.StatusCode.UNAVAILABLE, "Socket closed")

Status = tuple[grpc.StatusCode, str]


class FakeCall:
    """A call of `grpc.aio` that ends at its second message, with one status and then with another.

    Args:
        first: Set when the message cannot be written, one after the other; a caller that looks then sees the last.
        later: Set when a caller has seen that.
    """

    def __init__(self, first: tuple[Status, ...], later: tuple[Status, ...] = ()) -> None:
        self.first, self.later = first, later
        self.status: Status | None = None
        self.is_cancelled = False
        self._written = 0
        self._ended = asyncio.Event()
        self._callbacks: list[Callable[[Any], None]] = []

    def end(self, status: Status) -> None:
        self.status = status
        self._ended.set()
        for callback in self._callbacks:
            callback(self)

    def error(self) -> grpc.aio.AioRpcError:
        code, details = self.status or (grpc.StatusCode.UNKNOWN, "it has not ended")
        return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(("told", "so")), details)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def done(self) -> bool:
        return self._ended.is_set()

    def cancel(self) -> bool:
        self.is_cancelled = True
        return not self.done()

    async def code(self) -> grpc.StatusCode:
        return self.error().code()

    async def details(self) -> str | None:
        return self.error().details()

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return self.error().trailing_metadata()

    async def write(self, message: bytes) -> None:
        self._written += 1
        if self._written == 2:
            for status in self.first:
                self.end(status)
            raise self.error()

    async def done_writing(self) -> None:
        """Nothing more comes."""

    async def _answer(self) -> bytes:
        await self._ended.wait()
        error = self.error()
        for status in self.later:
            asyncio.get_running_loop().call_soon(self.end, status)
        raise error

    def __await__(self) -> Generator[Any, None, bytes]:
        return self._answer().__await__()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"heard"
        yield await self._answer()


async def messages() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"message"


async def ask(call: Any) -> None:
    await clients.ask(call, messages())


async def converse(call: Any) -> None:
    assert [response async for response in clients.converse(call, messages())] == [b"heard"]


every_way = pytest.mark.parametrize("way", [ask, converse])


@every_way
@pytest.mark.parametrize("service", [REFUSED, AWAY])
@pytest.mark.parametrize("is_first", [True, False], ids=["the service first", "gRPC first"])
async def test_a_call_that_ends_while_a_message_is_written_has_the_status_of_the_service(
    way: Callable[[Any], Any], service: Status, is_first: bool
) -> None:
    call = FakeCall((service, NOT_WRITTEN)) if is_first else FakeCall((NOT_WRITTEN,), (service,))
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await way(call)
    assert (failure.value.code(), failure.value.details()) == service
    assert dict(failure.value.trailing_metadata()) == {"told": "so"}
    assert call.is_cancelled


@every_way
async def test_a_call_of_which_the_service_says_nothing_has_the_status_of_grpc(way: Callable[[Any], Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await way(FakeCall((NOT_WRITTEN,)))
    assert (failure.value.code(), failure.value.details()) == NOT_WRITTEN


class EndingCall(FakeCall):
    """One that ends while it is told that nothing more comes; gRPC's error then is none of a call."""

    async def write(self, message: bytes) -> None:
        """All can be written."""

    async def done_writing(self) -> None:
        asyncio.get_running_loop().call_later(0.01, self.end, self.first[0])
        raise RuntimeError("SendCloseFromClientOperation")


@every_way
async def test_a_call_that_ends_while_its_messages_come_to_their_end_has_its_status(way: Callable[[Any], Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await way(EndingCall((AWAY,)))
    assert (failure.value.code(), failure.value.details()) == AWAY
