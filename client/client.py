"""Talks to the orchestrator."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import grpc

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc

CHUNK_BYTES = 1 << 18
TIMEOUT_S = 120.0


class ClientError(Exception):
    """The deployment refused or failed. `status` is the gRPC status; the message is the deployment's own."""

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Timed:
    """An event of a turn, `seconds` after the request's last byte was handed over."""

    seconds: float
    event: pb.RespondResponse


class Client:
    """A connection to a deployment; use it in a `with` block.

    Args:
        address: The orchestrator's, as host:port.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = orchestrator_pb2_grpc.OrchestratorServiceStub(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def respond(
        self, header: pb.RespondHeader, audio: bytes = b"", video: bytes = b"", timeout_s: float = TIMEOUT_S
    ) -> Iterator[Timed]:
        """Sends a message and yields the events of the turn as they come. Closing the iterator cancels the turn.

        Args:
            header: What is asked for; the sizes of the files are filled in here.
            audio: Content of an audio file.
            video: Content of a video file.
            timeout_s: Deadline of the turn.

        Raises:
            ClientError: The turn was refused or failed.
        """
        sent_s = time.monotonic()

        def parts() -> Iterator[pb.RespondRequest]:
            nonlocal sent_s
            filled = pb.RespondHeader()
            filled.CopyFrom(header)
            filled.audio_size_bytes, filled.video_size_bytes = len(audio), len(video)
            yield pb.RespondRequest(header=filled)
            for piece in _pieces(audio):
                yield pb.RespondRequest(audio=piece)
            for piece in _pieces(video):
                yield pb.RespondRequest(video=piece)
            sent_s = time.monotonic()

        with _errors():
            call = self._stub.Respond(parts(), timeout=timeout_s)
            try:
                for event in call:
                    yield Timed(time.monotonic() - sent_s, event)
            finally:
                call.cancel()

    def status(self) -> list[pb.ServiceStatus]:
        """Returns how every service is.

        Raises:
            ClientError: The orchestrator cannot be reached.
        """
        with _errors():
            return list(self._stub.GetStatus(pb.GetStatusRequest(), timeout=TIMEOUT_S).services)

    def identities(self) -> list[memory.Identity]:
        """Returns all identities, by id.

        Raises:
            ClientError: The memory cannot be reached.
        """
        with _errors():
            return list(self._stub.ListIdentities(pb.ListIdentitiesRequest(), timeout=TIMEOUT_S).identities)

    def identity(self, name: str) -> memory.Identity:
        """Returns one identity.

        Raises:
            ClientError: There is none of that id.
        """
        with _errors():
            return self._stub.GetIdentity(pb.GetIdentityRequest(identity=name), timeout=TIMEOUT_S).identity

    def add_identity(self, header: memory.AddIdentityHeader, portrait: bytes, voice: bytes) -> memory.Identity:
        """Adds an identity with its references.

        Args:
            header: Who it is, and who allowed its use; the sizes of the files are filled in here.
            portrait: Content of a PNG or JPEG file with exactly one face.
            voice: Content of a WAV file.

        Raises:
            ClientError: The id is taken, or a field or a reference is wrong.
        """

        def parts() -> Iterator[pb.AddIdentityRequest]:
            filled = memory.AddIdentityHeader()
            filled.CopyFrom(header)
            filled.portrait_size_bytes, filled.voice_size_bytes = len(portrait), len(voice)
            yield pb.AddIdentityRequest(header=filled)
            for piece in _pieces(portrait):
                yield pb.AddIdentityRequest(portrait=piece)
            for piece in _pieces(voice):
                yield pb.AddIdentityRequest(voice=piece)

        with _errors():
            return self._stub.AddIdentity(parts(), timeout=TIMEOUT_S).identity

    def remove_identity(self, name: str) -> int:
        """Removes an identity with all that was kept of it; returns how many objects that were.

        Raises:
            ClientError: There is none of that id.
        """
        with _errors():
            return self._stub.RemoveIdentity(pb.RemoveIdentityRequest(identity=name), timeout=TIMEOUT_S).objects


def _pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        call = cast("grpc.Call", error)  # what the library raises is an error and a call; the call has the status
        raise ClientError(call.code(), call.details() or "no details") from error
