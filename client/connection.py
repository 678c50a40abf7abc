"""Calls to a deployment: a deadline on each, its own error when it refuses, and nothing is tried again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar, cast

import grpc

TIMEOUT_S = 120.0
LONG_TIMEOUT_S = 1800.0
"""For what grows with all that was ever said: archives, erasures."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class ClientError(Exception):
    """The deployment refused or failed. `status` is the gRPC status; the message is the deployment's own."""

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status
        self.message = message


class _Cancellable(Protocol):
    def cancel(self) -> object: ...


class Upload(Generic[Request]):
    """The parts of a request as gRPC takes them: in a thread of its own, where nobody would see an error.

    When a file cannot be read any further, the call is cancelled, and `error` says why. Ending the parts there
    instead would make something shorter of it.
    """

    def __init__(self, parts: Iterator[Request]) -> None:
        self.error: OSError | None = None
        self._parts = parts
        self._call: _Cancellable | None = None
        self._called = threading.Event()

    def belongs_to(self, call: _Cancellable) -> None:
        """Says which call takes the parts."""
        self._call = call
        self._called.set()

    def __iter__(self) -> Iterator[Request]:
        try:
            yield from self._parts
        except OSError as error:
            self.error = error
            self._called.wait()
            if self._call:
                self._call.cancel()


@contextmanager
def errors(upload: "Upload[Request] | None" = None) -> Iterator[None]:
    """Turns the failure of the call within into `ClientError`, or into what kept `upload` from being read."""
    try:
        yield
    except (grpc.RpcError, grpc.FutureCancelledError) as error:
        if upload and upload.error:
            raise upload.error from None
        if isinstance(error, grpc.FutureCancelledError):
            raise ClientError(grpc.StatusCode.CANCELLED, "the call was cancelled") from error
        call = cast("grpc.Call", error)  # what the library raises is an error and a call; the call has the status
        raise ClientError(call.code(), call.details() or "no details") from error


def ask(
    method: "grpc.UnaryUnaryMultiCallable[Request, Response]", request: Request, timeout_s: float = TIMEOUT_S
) -> Response:
    """Asks one thing.

    Raises:
        ClientError: The deployment refused, or cannot be reached.
    """
    with errors():
        return method(request, timeout=timeout_s)


def send(
    method: "grpc.StreamUnaryMultiCallable[Request, Response]", parts: Iterator[Request], timeout_s: float = TIMEOUT_S
) -> Response:
    """Sends something in parts. Whatever interrupts this cancels the call.

    Raises:
        ClientError: The deployment refused, or cannot be reached.
        OSError: A file could not be read to its end.
    """
    upload = Upload(parts)
    with errors(upload):
        call = method.future(iter(upload), timeout=timeout_s)
        upload.belongs_to(call)
        try:
            return call.result()
        finally:
            call.cancel()


def read(
    method: "grpc.UnaryStreamMultiCallable[Request, Response]", request: Request, timeout_s: float = TIMEOUT_S
) -> Iterator[Response]:
    """Yields what comes in parts. Closing this cancels the call.

    Raises:
        ClientError: The deployment refused or failed, maybe after some parts.
    """
    with errors():
        call = method(request, timeout=timeout_s)
        try:
            yield from call
        finally:
            call.cancel()
