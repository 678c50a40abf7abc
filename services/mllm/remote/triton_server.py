"""A model of a Triton Inference Server over gRPC: whether it is ready, what it is, and what it answers."""

import queue
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from services.common.errors import BackendFailed, DeadlineExceeded, FailedPrecondition, NotReady, ServiceError

CHECK_TIMEOUT_S = 5.0
"""How long the server may take to say whether it is ready."""
POLL_S = 0.05
"""How soon a silent server is left when nobody waits for its answer any more."""
UNREACHABLE = frozenset(f"StatusCode.{name}" for name in ("UNAVAILABLE", "NOT_FOUND", "CANCELLED", "DEADLINE_EXCEEDED"))
"""Statuses of a call that may do better later: the server is away, loads, drains, or has not loaded the model."""
CHANNEL = [
    # A server that comes back is found again within two seconds, not after gRPC's default of up to 120 s.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # gRPC's own pool would give a new channel the retry backoff of an older one to the same address.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]


class TritonServer:
    """One model of a server.

    Args:
        address: Of the server's gRPC port.
        model: Its name in the server's repository.
        version: Empty takes the one that the server prefers.
        timeout_s: Longest wait for the server's next word.

    Attributes:
        place: The address and the model, for messages.
    """

    def __init__(self, address: str, model: str, version: str, timeout_s: float) -> None:
        self.place = f"{address}, model {model!r}"
        self._model, self._version, self._timeout_s = model, version, timeout_s
        self._client = triton.InferenceServerClient(address, channel_args=CHANNEL)

    def described(self) -> tuple[Any, list[Any]]:
        """Returns the model's metadata, and all that tells it from others: the server's version and the model's own.

        Raises:
            NotReady: The server cannot be reached, is not live or not ready, or the model is not; it says which.
            BackendFailed: The server refused to tell.
        """
        model, version = self._model, self._version
        try:
            self._check_ready()
            found = self._client.get_model_metadata(model, version, client_timeout=CHECK_TIMEOUT_S)
            server = self._client.get_server_metadata(client_timeout=CHECK_TIMEOUT_S)
            config = self._client.get_model_config(model, version, as_json=True, client_timeout=CHECK_TIMEOUT_S)
        except InferenceServerException as error:
            raise self._meaning(error) from error
        return found, [server.name, server.version, model, version, found.platform, *found.versions, config]

    def check_takes(self, described: Any, inputs: frozenset[str], output: str) -> None:
        """Checks that the model has `inputs` and `output`.

        Raises:
            FailedPrecondition: It lacks some; the message names them.
        """
        lacks = sorted(inputs - {one.name for one in described.inputs})
        if lacks := lacks + sorted({output} - {one.name for one in described.outputs}):
            wanted = "serve it as Triton's vLLM back-end does"
            raise FailedPrecondition(f"{self.place}: it has no {', '.join(lacks)}; {wanted}")

    def results(
        self, request: Sequence[triton.InferInput], stopped: Callable[[], bool]
    ) -> Generator[triton.InferResult]:
        """Yields what the model answers. Each request has its own stream, for only a stream can be cancelled.

        Raises:
            NotReady: The server or the model has gone, or the answer was cut short.
            DeadlineExceeded: The server was silent for longer than `timeout_s`.
            BackendFailed: The model failed.
        """
        arrived: queue.SimpleQueue[tuple[triton.InferResult, None] | tuple[None, InferenceServerException]]
        arrived = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: arrived.put((result, error)))
        stream = self._client._stream
        listener = stream._handler
        try:
            # Without the last argument, an end that comes without words is not told.
            self._client.async_stream_infer(self._model, request, self._version, enable_empty_final_response=True)
            waits_until = time.monotonic() + self._timeout_s
            while not stopped():
                # The library does not tell that a server ended the stream in peace: its thread just ends.
                is_open = listener.is_alive()
                try:
                    result, error = arrived.get(timeout=POLL_S)
                except queue.Empty:
                    if not is_open:
                        raise NotReady(f"{self.place}: the server cut the answer short") from None
                    if time.monotonic() > waits_until:
                        silent = f"silent for {self._timeout_s:g} s"
                        raise DeadlineExceeded(f"{self.place}: {silent}; E3RG_MLLM_TIMEOUT_S allows more") from None
                    continue
                if error is not None:
                    raise self._meaning(error) from error
                yield result
                if is_last(result):
                    return
                waits_until = time.monotonic() + self._timeout_s
        finally:
            self._client.stop_stream(cancel_requests=True)
            # The library leaves the thread that feeds a cancelled stream waiting for its next request for ever.
            stream._request_queue.put(None)

    def close(self) -> None:
        """Closes the connection to the server."""
        # Closing alone would wait for an answer that is still coming.
        self._client.stop_stream(cancel_requests=True)
        self._client.close()

    def _check_ready(self) -> None:
        """Finds out what keeps the server from answering, if anything does.

        Raises:
            NotReady, InferenceServerException: Something does.
        """
        if not self._client.is_server_live(client_timeout=CHECK_TIMEOUT_S):
            raise NotReady(f"{self.place}: the server is not live")
        if not self._client.is_server_ready(client_timeout=CHECK_TIMEOUT_S):
            raise NotReady(f"{self.place}: the server is not ready; it is loading models, or one could not be loaded")
        if not self._client.is_model_ready(self._model, self._version, client_timeout=CHECK_TIMEOUT_S):
            # Says why, as a failure of its own, where the server does not even know the model.
            self._client.get_model_metadata(self._model, self._version, client_timeout=CHECK_TIMEOUT_S)
            raise NotReady(f"{self.place}: the server is ready, the model is not")

    def _meaning(self, error: InferenceServerException) -> ServiceError:
        """Returns what a failed call means for the caller."""
        said = f"{self.place}: {error.message()}"
        if error.status() in UNREACHABLE:
            return NotReady(said)
        if error.status() is None:
            # Failures within a stream have no status. Whether the model is still there, the server tells now.
            try:
                self._check_ready()
            except (NotReady, InferenceServerException) as reason:
                return NotReady(f"{said} ({reason})")
        return BackendFailed(said)


def is_last(result: triton.InferResult) -> bool:
    """Tells whether nothing comes after `result`."""
    return bool(result.get_response().parameters["triton_final_response"].bool_param)
