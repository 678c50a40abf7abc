"""Interceptor that maps errors to gRPC statuses, measures calls and logs them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, cast

import grpc
from google.protobuf.message import DecodeError

from services.common import deadline, errors, idempotency, metrics, tracing

log = logging.getLogger(__name__)

STATUS_BY_ERROR: dict[type[BaseException], grpc.StatusCode] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.Conflict: grpc.StatusCode.ABORTED,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Unsupported: grpc.StatusCode.UNIMPLEMENTED,
    errors.NotReady: grpc.StatusCode.UNAVAILABLE,
    errors.Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
}
READ_OUT_S_MAX = 2.0
READ_OUT_IDLE_S = 0.05
RETRY_AFTER_KEY = "retry-after-ms"
ALLOW_MORE_KEY = "allow-more-ms"

remaining_s = deadline.remaining_s
"""Seconds that the caller of this call still allows: see there."""


def status_of(error: BaseException) -> grpc.StatusCode:
    """Returns the status of the nearest mapped ancestor of `error`, else INTERNAL."""
    for cls in type(error).__mro__:
        if cls in STATUS_BY_ERROR:
            return STATUS_BY_ERROR[cls]
    return grpc.StatusCode.INTERNAL


def error_of(
    status: grpc.StatusCode, details: str, retry_after_s: float | None = None, allow_more_s: float = 0.0
) -> errors.ServiceError:
    """Returns the error that the server had: the inverse of `status_of`."""
    match status:
        case grpc.StatusCode.INVALID_ARGUMENT:
            field, _, problem = details.partition(": ")
            return errors.InvalidRequest(field, problem) if problem else errors.InvalidRequest("request", details)
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return errors.Overloaded(details, retry_after_s, allow_more_s)
        case grpc.StatusCode.CANCELLED:
            return errors.NotReady(f"the call was cancelled by the server: {details}")
    for cls, mapped in STATUS_BY_ERROR.items():
        if mapped is status:
            return cast("errors.ServiceError", cls(details))
    return errors.BackendFailed(details)


class _Handler(Protocol):
    """Fields of `grpc.RpcMethodHandler`, untyped in the library."""

    request_streaming: bool
    response_streaming: bool
    request_deserializer: Any
    response_serializer: Any
    unary_unary: Any
    unary_stream: Any
    stream_unary: Any
    stream_stream: Any


class Interceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc, unused-ignore]  # untyped base in older stubs
    """Around every call but health checks, load reports, reflection: context, errors to statuses, time, a log line."""

    def __init__(self, component: str) -> None:
        self._component = component
        self.calls = 0
        """Calls in progress."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wraps the handler of the call."""
        handler = cast("_Handler | None", await continuation(handler_call_details))
        method = str(handler_call_details.method)
        if handler is None or method.startswith(("/grpc.", "/e3rg.replica.")):
            return handler
        read = _reading(handler.request_deserializer)
        # A single request is decoded within `_call`, as those of a stream are: one that cannot be gets a status too.
        whole = _as_it_is if handler.request_streaming else read
        codec = (read if handler.request_streaming else None, handler.response_serializer)
        if handler.response_streaming:
            inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
            return make(self._streaming(inner, method, whole), *codec)
        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary
        make = (
            grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
        )
        return make(self._unary(inner, method, whole), *codec)

    def _unary(
        self, inner: Callable[..., Awaitable[Any]], method: str, read: Callable[[Any], Any]
    ) -> Callable[..., Awaitable[Any]]:
        async def call(request: Any, context: Any) -> Any:
            async with self._call(method, context), _reading_out(request):
                idempotency.start(method, _sent(context, idempotency.HEADER))
                return await inner(read(request), context)

        return call

    def _streaming(
        self, inner: Callable[..., Any], method: str, read: Callable[[Any], Any]
    ) -> Callable[..., AsyncIterator[Any]]:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            async with (
                self._call(method, context),
                _reading_out(request),
                contextlib.aclosing(inner(read(request), context)) as responses,
            ):
                idempotency.start(method, _sent(context, idempotency.HEADER))
                async for response in responses:
                    yield response

        return call

    @contextlib.asynccontextmanager
    async def _call(self, method: str, context: Any) -> AsyncIterator[None]:
        name = method.rsplit("/", 1)[1]
        started_s = time.monotonic()
        span = tracing.begin(method, context.invocation_metadata() or ())
        deadline.start(context.time_remaining())
        status, details = grpc.StatusCode.OK, ""
        self.calls += 1
        try:
            yield
        except errors.ServiceError as error:
            status, details = status_of(error), str(error)
            if isinstance(error, errors.Overloaded):
                told = ((RETRY_AFTER_KEY, error.retry_after_s), (ALLOW_MORE_KEY, error.allow_more_s or None))
                context.set_trailing_metadata(tuple((key, str(round(s * 1000))) for key, s in told if s is not None))
            if status is grpc.StatusCode.INTERNAL and not isinstance(error, errors.Damaged):
                log.exception("call failed")
                details = "internal error; the log of the service has the details"
        except (Exception, GeneratorExit) as error:
            if isinstance(error, GeneratorExit):
                status = grpc.StatusCode.CANCELLED
                raise
            status, details = grpc.StatusCode.INTERNAL, "internal error; the log of the service has the details"
            log.exception("call failed")
        except BaseException:
            status = grpc.StatusCode.CANCELLED
            raise
        finally:
            self.calls -= 1
            seconds = time.monotonic() - started_s
            metrics.observe(metrics.CALL_SECONDS.labels(self._component, name, status.name), seconds)
            log.info(
                "call", extra={"method": name, "status": status.name, "seconds": round(seconds, 4), "why": details}
            )
            tracing.end(span, status.name, details)
        if status is not grpc.StatusCode.OK:
            await context.abort(status, details)


@contextlib.asynccontextmanager
async def _reading_out(request: Any) -> AsyncIterator[None]:
    """On a refusal, drops what the caller still sends, for a while, before it is told.

    A caller whose write fails because the call has ended reports INTERNAL instead of the status (grpcio's asyncio
    client does not wait for it); and one that has written everything cannot fail to write.
    """
    try:
        yield
    except errors.ServiceError:
        if hasattr(request, "__aiter__"):
            end_s = time.monotonic() + READ_OUT_S_MAX
            with contextlib.suppress(TimeoutError, StopAsyncIteration, errors.InvalidRequest):
                while time.monotonic() < end_s:
                    await asyncio.wait_for(anext(request), READ_OUT_IDLE_S)
        raise


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(content: bytes) -> Any:
        try:
            return deserialize(content)
        except DecodeError:
            problem = f"{len(content)} bytes that are no message of this contract; send text as UTF-8"
            raise errors.InvalidRequest("request", problem) from None

    return read


def _as_it_is(requests: Any) -> Any:
    return requests


def _sent(context: Any, wanted: str) -> str:
    """Return the metadata that the caller sent under a key; empty without."""
    return next((str(value) for key, value in context.invocation_metadata() or () if key == wanted), "")
