"""Client of a deployment, for a user's own code."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from client import credentials
from client.connection import TIMEOUT_S, Upload, ask, errors
from client.emotion_references import EmotionReferences
from client.erasure import Erasure
from client.exemplars import Exemplars
from client.files import Content, pieces, size_of
from client.identities import Identities
from client.turns import Turns
from client.variants import Variants
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc

TENANT_DEFAULT = "default"


@dataclass(frozen=True)
class Timed:
    """An event of a turn, `seconds` after the request's last byte was handed over."""

    seconds: float
    event: pb.RespondResponse


class Client:
    """A connection to a deployment; use it in a `with` block.

    Every method raises `ClientError` with the deployment's own words when it refuses or fails or cannot be reached;
    one that sends files raises `OSError` when one of them cannot be read, or is empty. Nothing is tried again.

    Attributes:
        identities: Who the avatars are.
        emotions: What shows voices and faces an emotion.
        exemplars: Examples of answers.
        turns: What was said.
        erasure: How long things are kept, and what was erased.
        variants: Which model of each stage serves which share of the conversations.

    Args:
        address: The orchestrator's, as host:port.
        tenant: Whose identities and turns they are.
        ca_file: PEM file of the authorities that certify the deployment: with it, the connection is TLS.
        certificate_file: PEM file of the certificate that is shown to a deployment that demands one.
        key_file: PEM file of its private key.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is missing beside the others, or holds nothing usable.
    """

    def __init__(
        self,
        address: str,
        tenant: str = TENANT_DEFAULT,
        ca_file: str | Path = "",
        certificate_file: str | Path = "",
        key_file: str | Path = "",
    ) -> None:
        # gRPC's own pool would give a new client the retry backoff of an older one to the same address.
        options = [("grpc.use_local_subchannel_pool", 1)]
        found = credentials.read(ca_file, certificate_file, key_file)
        self._channel = (
            grpc.secure_channel(address, found, options) if found else grpc.insecure_channel(address, options)
        )
        self._stub = orchestrator_pb2_grpc.OrchestratorServiceStub(self._channel)
        self._tenant = tenant
        self.identities = Identities(self._channel, tenant)
        self.emotions = EmotionReferences(self._channel, tenant)
        self.exemplars = Exemplars(self._channel, tenant)
        self.turns = Turns(self._channel, tenant)
        self.erasure = Erasure(self._channel, tenant)
        self.variants = Variants(self._channel)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def respond(
        self,
        header: pb.RespondHeader,
        audio: Content = b"",
        video: Content = b"",
        timeout_s: float = TIMEOUT_S,
        variants: Mapping[str, str] | None = None,
    ) -> Iterator[Timed]:
        """Sends a message and yields the events of the turn as they come. Closing the iterator cancels the turn.

        Args:
            header: What is asked for; the sizes of the files, and the tenant where it names none, are filled in here.
            audio: An audio file, or its content.
            video: A video file, or its content.
            timeout_s: Deadline of the turn.
            variants: Variant by stage, for a test; without, the gateway chooses.
        """
        sent_s = time.monotonic()
        filled = pb.RespondHeader()
        filled.CopyFrom(header)
        filled.tenant = header.tenant or self._tenant
        filled.audio_size_bytes, filled.video_size_bytes = size_of(audio), size_of(video)

        def parts() -> Iterator[pb.RespondRequest]:
            nonlocal sent_s
            yield pb.RespondRequest(header=filled)
            for piece in pieces(audio):
                yield pb.RespondRequest(audio=piece)
            for piece in pieces(video):
                yield pb.RespondRequest(video=piece)
            sent_s = time.monotonic()

        upload = Upload(parts())
        with errors(upload):
            named = ",".join(f"{stage}={variant}" for stage, variant in (variants or {}).items())
            metadata = (("e3rg-variant", named),) if named else ()
            call = self._stub.Respond(iter(upload), timeout=timeout_s, metadata=metadata)
            upload.belongs_to(call)
            try:
                for event in call:
                    yield Timed(time.monotonic() - sent_s, event)
            finally:
                call.cancel()

    def status(self) -> list[pb.ServiceStatus]:
        """Returns how every service is."""
        return list(ask(self._stub.GetStatus, pb.GetStatusRequest()).services)
