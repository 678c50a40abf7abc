"""Channels over all replicas of a service: each call goes to one of them, and to another one when it fails.

A call is made again only while nothing was answered, and only when its replica was UNAVAILABLE. Writes carry an
idempotency key (`clients.options`), so a retry after a lost answer changes nothing.
"""

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message

from services.common.errors import NotReady
from services.common.replica import Choice
from services.common.replicas import Replicas

ATTEMPTS_MAX = 3
RETRY_S = 0.1
"""Wait before the second attempt where no other replica is ready; the next wait is twice as long."""
REPLAYED_BYTES_MAX = 1 << 25
"""Bytes of a call's messages that are kept to make it again; a call that sent more is not made again."""
REPLAYED_BYTES_MAX_OF_ALL = 1 << 26
"""The same for all calls of this process together: many large ones at once must not fill its memory."""

_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""CANCELLED comes of a server that stops before the call has ended; a call that is cancelled here has no status."""

Item = TypeVar("Item")

near: contextvars.ContextVar[str] = contextvars.ContextVar("near", default="")
"""Key of calls that should meet the same replica: their conversation, whose identity that one has warm."""


class Method:
    """One RPC over all replicas. Called with a request, it answers as the multi-callable of a plain channel does."""

    def __init__(self, replicas: Replicas, kind: str, about: Sequence[Any]) -> None:
        self.replicas = replicas
        self._kind, self._about = kind, about

    def begin(self, *request: Any, choice: Choice | None = None, **options: Any) -> Any:
        """Begin the call at one replica."""
        replica = self.replicas.choose(choice or Choice(), near.get())
        call = getattr(replica.channel, self._kind)(*self._about)(*request, **options)
        replica.begin(call)
        return call

    def __call__(self, *request: Any, **options: Any) -> Any:
        """Begin the call; one with a single request is made again elsewhere when its replica is lost."""
        if self._kind == "unary_unary":
            return self._answer(*request, **options)
        if self._kind == "unary_stream":
            return Answers(self, request, options)
        return self.begin(*request, **options)

    async def _answer(self, *request: Any, timeout: float | None = None, **options: Any) -> Any:
        attempts = Attempts(self, timeout)
        while True:
            try:
                with attempts.noticing_hangs():
                    return await attempts.begin(*request, **options)
            except (grpc.aio.AioRpcError, NotReady) as error:
                await attempts.again(error)


class Attempts:
    """The attempts of one call.

    Args:
        method: Its RPC; a multi-callable of a plain channel is begun as it is.
        timeout_s: Of all attempts together.
        choice: Wish for its replica.
    """

    def __init__(self, method: Any, timeout_s: float | None, choice: Choice | None = None) -> None:
        self._method, self._choice = method, choice or Choice()
        self._end_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._left = ATTEMPTS_MAX if isinstance(method, Method) else 1
        self._wait_s = RETRY_S
        self._call: Any = None

    def begin(self, *request: Any, **options: Any) -> Any:
        """Begin the next attempt.

        Raises:
            NotReady: No replica is known.
        """
        if self._end_s is not None:
            options["timeout"] = max(0.0, self._end_s - time.monotonic())
        if not isinstance(self._method, Method):
            return self._method(*request, **options)
        self._call = self._method.begin(*request, choice=self._choice, **options)
        return self._call

    def answered(self) -> None:
        """Make the call at no other replica any more: its first response has come."""
        if self._choice.replica:
            self._choice.replica.answered(self._call)

    @contextmanager
    def noticing_hangs(self) -> Iterator[None]:
        """Raise `NotReady` where the call was cancelled because its replica hangs.

        Raises:
            NotReady: It was.
        """
        try:
            yield
        except asyncio.CancelledError:
            task, replica = asyncio.current_task(), self._choice.replica
            if (task and task.cancelling()) or not (replica and replica.problem):
                raise
            raise NotReady(replica.problem) from None

    async def again(self, error: Exception) -> None:
        """Return when the call may be made again, at once where another replica is ready; else raise the error."""
        self._left -= 1
        is_lost = not isinstance(error, grpc.aio.AioRpcError) or error.code() in _LOST
        if not (is_lost and self._left):
            raise error
        self._choice.avoid()
        if not self._method.replicas.has_other(self._choice.avoided):
            await asyncio.sleep(self._wait_s)
            self._wait_s *= 2


class Answers(AsyncIterator[Any]):
    """Responses to one request. The call is made again elsewhere when its replica is lost before the first."""

    def __init__(self, method: Method, request: Sequence[Any], options: dict[str, Any]) -> None:
        self._attempts = Attempts(method, options.pop("timeout", None))
        self._request, self._options = request, options
        self._call: Any = None
        self._is_cancelled = False
        self._answers = self._read()

    def __aiter__(self) -> AsyncGenerator[Any]:
        """Return the responses."""
        return self._answers

    async def __anext__(self) -> Any:
        """Return the next response."""
        return await anext(self._answers)

    async def read(self) -> Any:
        """Return the next response, or `grpc.aio.EOF`."""
        return await anext(self._answers, grpc.aio.EOF)

    def cancel(self) -> bool:
        """Cancel the call."""
        self._is_cancelled = True
        return bool(self._call and self._call.cancel())

    async def _read(self) -> AsyncGenerator[Any]:
        has_answered = False
        while True:
            try:
                with self._attempts.noticing_hangs():
                    self._call = self._attempts.begin(*self._request, **self._options)
                    async for answer in self._call:
                        if not has_answered:
                            has_answered = True
                            self._attempts.answered()
                        yield answer
                return
            except (grpc.aio.AioRpcError, NotReady) as error:
                if has_answered or self._is_cancelled:
                    raise
                await self._attempts.again(error)


class Replay(Generic[Item]):
    """Messages of a call, kept to be sent again; `can_repeat` is false when they were too many or failed."""

    bytes_of_all: ClassVar[int] = 0

    def __init__(self, messages: AsyncIterator[Item]) -> None:
        self._messages = messages
        self._kept: list[Item] = []
        self._bytes = 0
        self._pulling: asyncio.Future[Item | None] | None = None
        self.can_repeat = True

    async def __aiter__(self) -> AsyncGenerator[Item]:
        """Yield the messages from the first. One consumer at a time; one that is cancelled loses none."""
        for kept in self._kept:
            yield kept
        while True:
            if self._pulling is None:
                self._pulling = asyncio.ensure_future(_next(self._messages))
            await asyncio.wait({self._pulling})
            try:
                item = self._pulling.result()
            except BaseException:
                self.can_repeat = False
                raise
            if item is None:
                return
            self._pulling = None
            self._keep(item)
            yield item

    def forget(self) -> None:
        """Keep no messages: the call is not made again."""
        Replay.bytes_of_all -= self._bytes
        self._kept, self._bytes, self.can_repeat = [], 0, False

    async def close(self) -> None:
        """Stop reading messages."""
        self.forget()
        if self._pulling:
            self._pulling.cancel()
            await asyncio.gather(self._pulling, return_exceptions=True)

    def _keep(self, item: Item) -> None:
        if not self.can_repeat:
            return
        size_bytes = item.ByteSize() if isinstance(item, Message) else len(cast("bytes", item))
        self._bytes += size_bytes
        Replay.bytes_of_all += size_bytes
        self._kept.append(item)
        if self._bytes > REPLAYED_BYTES_MAX or Replay.bytes_of_all > REPLAYED_BYTES_MAX_OF_ALL:
            self.forget()


class BalancedChannel(grpc.aio.Channel):
    """A channel over all replicas of a service."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas

    def unary_unary(self, *about: Any, **more: Any) -> Any:
        """Return an RPC with one request and one response."""
        return self._method("unary_unary", about, more)

    def unary_stream(self, *about: Any, **more: Any) -> Any:
        """Return an RPC with one request and several responses."""
        return self._method("unary_stream", about, more)

    def stream_unary(self, *about: Any, **more: Any) -> Any:
        """Return an RPC with several requests and one response."""
        return self._method("stream_unary", about, more)

    def stream_stream(self, *about: Any, **more: Any) -> Any:
        """Return an RPC with several requests and several responses."""
        return self._method("stream_stream", about, more)

    async def close(self, grace: float | None = None) -> None:
        """Close the channels to all replicas."""
        await self.replicas.close()

    async def __aenter__(self) -> "BalancedChannel":
        """Return the channel."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the channel."""
        await self.close()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return READY when a replica takes calls, else CONNECTING."""
        return grpc.ChannelConnectivity.READY if self.replicas.ready else grpc.ChannelConnectivity.CONNECTING

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Not there: a state of several channels says too little."""
        raise NotImplementedError

    async def channel_ready(self) -> None:
        """Wait until a replica takes calls."""
        await self.replicas.wait_ready()

    def _method(self, kind: str, about: Sequence[Any], more: dict[str, Any]) -> Any:
        names = ("request_serializer", "response_deserializer", "_registered_method")
        return Method(self.replicas, kind, (*about, *(more.get(name) for name in names[len(about) - 1 :])))


async def _next(items: AsyncIterator[Item]) -> Item | None:
    return await anext(items, None)
