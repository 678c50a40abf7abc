"""Client channels to other services: a deadline on every call, errors of the server passed on."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Protocol, TypedDict, TypeVar

import grpc

from services.common import idempotency, rpc, tracing
from services.common.channels import Attempts, BalancedChannel, Replay
from services.common.errors import NotReady
from services.common.replica import Choice
from services.common.replicas import Replicas
from services.common.server import KEEPALIVE_S, MESSAGE_BYTES_MAX
from services.common.targets import host_of
from services.common.tls import TlsFiles, channel_credentials

KEEPALIVE_TIMEOUT_S = 10
"""A connection whose other end does not answer for so long is closed. One that only lacks a core answers late."""
_SILENT = "Deadline Exceeded"
"""Part of the details that gRPC gives a call without an answer."""

_NOT_WRITTEN = "Internal error from Core"
"""Details that gRPC gives a call of which a message could not be written."""
ENDED_WITHIN_S = 1.0
"""After a message could not be written, the service's own word is there so soon, mostly at once."""

_OPTIONS: list[tuple[str, Any]] = [
    # `channels` makes calls again, at another replica.
    ("grpc.enable_retries", 0),
    # gRPC's own pool would give a new channel the retry backoff of an older one to the same address.
    ("grpc.use_local_subchannel_pool", 1),
    # A replica that comes back is found again within a second or two, not after gRPC's default of up to 120 s.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A replica that hangs, or whose machine is gone: no call would tell in time.
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
]

Request = TypeVar("Request")
Response = TypeVar("Response")
Response_co = TypeVar("Response_co", covariant=True)


class CallOptions(TypedDict):
    """Options of every call."""

    timeout: float
    metadata: tuple[tuple[str, str], ...]


def open_channel(target: str, name: str = "", tls: TlsFiles | None = None) -> BalancedChannel:
    """Open a channel over all replicas behind a target (`services.common.replicas`), to be called on a running loop.

    Args:
        target: Where they are; certificates have to be for its host name.
        name: Name of the service, for errors and metrics.
        tls: Files for TLS; None for plaintext.

    Raises:
        OSError, ValueError: A file of TLS cannot be used.
    """
    connect, version = connector(target, tls)
    return BalancedChannel(Replicas(name or target, target, connect, version))


def connector(target: str, tls: TlsFiles | None) -> tuple[Callable[[str], grpc.aio.Channel], Callable[[], object]]:
    """Return what opens a channel to one replica, and what tells a value that changes with the certificates.

    Args:
        target: Where all replicas are; certificates have to be for its host name.
        tls: Files for TLS; None for plaintext.

    Raises:
        OSError, ValueError: A file of TLS cannot be used.
    """
    if not tls:
        return (lambda replica: grpc.aio.insecure_channel(replica, _OPTIONS)), (lambda: None)
    credentials, version = channel_credentials(tls)
    named = [*_OPTIONS, ("grpc.ssl_target_name_override", host_of(target))]
    return (lambda replica: grpc.aio.secure_channel(replica, credentials(), named)), version


def options(timeout_s: float) -> CallOptions:
    """Returns the deadline, what remains of the caller's and at most `timeout_s`, and the trace to go on with."""
    remaining = rpc.remaining_s()
    return {
        "timeout": timeout_s if remaining is None else min(timeout_s, remaining),
        # Each attempt has the same: a write whose answer was lost is made once.
        "metadata": (
            *tracing.headers(),
            (idempotency.HEADER, idempotency.key() or secrets.token_hex(16)),
        ),
    }


@asynccontextmanager
async def calling(service: str) -> AsyncIterator[None]:
    """Turns a failed call within the block into the error that the server had, prefixed where the name helps."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise translate(error, service) from error


def translate(error: grpc.aio.AioRpcError, service: str) -> Exception:
    """Returns the error that the server had; failures to reach it name the service."""
    details = error.details() or error.code().name
    if _SILENT in details:
        details = "it did not answer in time; try again later, or allow more time"
    if error.code() in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
    ):
        details = f"{service}: {details}"
    told_s = {
        key: int(value) / 1000
        for key, value in error.trailing_metadata() or ()
        if key in (rpc.RETRY_AFTER_KEY, rpc.ALLOW_MORE_KEY)
    }
    return rpc.error_of(error.code(), details, told_s.get(rpc.RETRY_AFTER_KEY), told_s.get(rpc.ALLOW_MORE_KEY, 0.0))


class Responses(Protocol[Response_co]):
    """Responses of a call that can be cancelled."""

    def __aiter__(self) -> AsyncIterator[Response_co]:
        """Return the responses."""

    def cancel(self) -> bool:
        """Cancel the call."""


async def responses(call: Responses[Response]) -> AsyncGenerator[Response]:
    """Yields a call's responses; closing this cancels the call, so that its stage stops too."""
    try:
        async for response in call:
            yield response
    finally:
        call.cancel()


async def ask(call: "grpc.aio.StreamUnaryCall[Request, Response]", messages: AsyncIterator[Request]) -> Response:
    """Writes the messages of a call and returns its response; raises what `messages` raises."""
    feeding = asyncio.ensure_future(_feed(call, messages))
    answer = asyncio.ensure_future(_answer(call))
    try:
        async with _ended_by_the_service(call):
            await asyncio.wait({feeding, answer}, return_when=asyncio.FIRST_EXCEPTION)
            if not answer.done():
                feeding.result()  # it failed, or the wait would go on
            return answer.result()
    finally:
        feeding.cancel()
        answer.cancel()
        call.cancel()
        await asyncio.gather(feeding, answer, return_exceptions=True)


async def ask_any(
    method: "grpc.aio.StreamUnaryMultiCallable[Request, Response]",
    messages: AsyncIterator[Request],
    options: CallOptions,
) -> Response:
    """Does what `ask` does, at another replica again when the first is lost."""
    attempts, replay = Attempts(method, options["timeout"]), Replay(messages)
    try:
        while True:
            try:
                with attempts.noticing_hangs():
                    async with aclosing(aiter(replay)) as again:
                        return await ask(attempts.begin(metadata=options["metadata"]), again)
            except (grpc.aio.AioRpcError, NotReady) as error:
                if not replay.can_repeat:
                    raise
                await attempts.again(error)
    finally:
        await replay.close()


async def converse(
    call: "grpc.aio.StreamStreamCall[Request, Response]", messages: AsyncIterator[Request]
) -> AsyncGenerator[Response]:
    """Writes the messages of a call while yielding its responses; closing this cancels the call."""
    feeding = asyncio.ensure_future(_feed(call, messages))
    try:
        async with _ended_by_the_service(call), aclosing(responses(call)) as received:
            async for response in received:
                yield response
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def converse_any(
    method: "grpc.aio.StreamStreamMultiCallable[Request, Response]",
    messages: AsyncIterator[Request],
    options: CallOptions,
    choice: Choice | None = None,
) -> AsyncGenerator[Response]:
    """Does what `converse` does, at another replica again when the first is lost before its first response."""
    attempts, replay, has_answered = Attempts(method, options["timeout"], choice), Replay(messages), False
    try:
        while True:
            try:
                with attempts.noticing_hangs():
                    async with aclosing(aiter(replay)) as again:
                        call = attempts.begin(metadata=options["metadata"])
                        async with aclosing(converse(call, again)) as received:
                            async for response in received:
                                if not has_answered:
                                    has_answered = True
                                    attempts.answered()
                                    replay.forget()
                                yield response
                return
            except (grpc.aio.AioRpcError, NotReady) as error:
                if not replay.can_repeat:
                    raise
                await attempts.again(error)
    finally:
        await replay.close()


@asynccontextmanager
async def _ended_by_the_service(call: grpc.aio.Call) -> AsyncIterator[None]:
    """Gives a failed call within the block the status that its service sent.

    A message that is under way when the service ends the call cannot be written. gRPC then sets a status of its own,
    before the service's or in its place: so each is noted when it is set.
    """
    ends: list[grpc.aio.AioRpcError] = []
    ended = asyncio.Event()

    def note(call: grpc.aio.Call) -> None:
        end = _end_of(call)
        if end.details() != _NOT_WRITTEN:
            ends.append(end)
            ended.set()

    call.add_done_callback(note)
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.details() != _NOT_WRITTEN:
            raise
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), ENDED_WITHIN_S)
        raise (ends or [error])[0] from None


def _end_of(call: grpc.aio.Call) -> grpc.aio.AioRpcError:
    """Returns how a call has ended."""

    async def read() -> grpc.aio.AioRpcError:
        return grpc.aio.AioRpcError(
            await call.code(), grpc.aio.Metadata(), await call.trailing_metadata(), await call.details()
        )

    reading = read()
    try:
        reading.send(None)  # The call has ended, so it waits for nothing.
    except StopIteration as done:
        end: grpc.aio.AioRpcError = done.value
        return end
    raise RuntimeError("gRPC said that a call has ended, and does not say how")


async def _answer(call: grpc.aio.StreamUnaryCall[Request, Response]) -> Response:
    return await call


async def _feed(
    call: grpc.aio.StreamUnaryCall[Request, Response] | grpc.aio.StreamStreamCall[Request, Response],
    messages: AsyncIterator[Request],
) -> None:
    try:
        async for message in messages:
            await call.write(message)
        # gRPC has an error of its own for a call that ends at this moment; its status, which the reader gets, says why.
        with suppress(Exception):
            await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        # The server ended the call before it had read everything. Its status, which the reader gets, says why.
        if not call.done():
            raise
