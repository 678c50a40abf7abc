"""The services that a turn goes through, as the pipeline calls them.

Every method raises the `ServiceError` that the service had; failures to reach it name the service.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import grpc

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.memory.v1 import memory_pb2_grpc
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.tts.v1 import tts_pb2_grpc
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.understanding.v1 import understanding_pb2_grpc
from e3rg.video.v1 import video_pb2 as video
from e3rg.video.v1 import video_pb2_grpc
from services.common import clients
from services.common.caches import LastUsed
from services.common.errors import ServiceError

if TYPE_CHECKING:  # these exist in the stubs only
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub

log = logging.getLogger(__name__)

CARD_TIMEOUT_S = 3.0
MEMORY_TIMEOUT_S = 5.0
STREAM_TIMEOUT_S = 600.0
"""A stream ends with its turn; this only bounds one whose caller set no deadline."""
REFERENCES_BYTES_MAX = 128 << 20
"""Room for the references of the identities used last; one may have 16 MiB."""


class Understanding:
    """The panel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub = understanding_pb2_grpc.UnderstandingServiceStub(channel)
        self._stub = cast("UnderstandingServiceAsyncStub", stub)

    async def panel(self) -> understanding.GetPanelResponse:
        """Tells who sits on the panel."""
        async with clients.calling("understanding"):
            return await self._stub.GetPanel(understanding.GetPanelRequest(), **clients.options(CARD_TIMEOUT_S))

    async def understand(
        self, parts: AsyncIterator[understanding.UnderstandRequest]
    ) -> understanding.UnderstandResponse:
        """Has a message understood. What `parts` raises is raised here."""
        async with clients.calling("understanding"):
            return await clients.ask(self._stub.Understand(**clients.options(STREAM_TIMEOUT_S)), parts)

    async def write_reply(self, request: mllm.WriteReplyRequest) -> AsyncGenerator[understanding.WriteReplyResponse]:
        """Has a reply written, part by part."""
        async with clients.calling("understanding"):
            order = understanding.WriteReplyRequest(reply=request)
            call = self._stub.WriteReply(order, **clients.options(STREAM_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                async for part in parts:
                    yield part


class Memory:
    """Identities and turns. The references of the identities used last are kept here, until they are removed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = cast("MemoryServiceAsyncStub", memory_pb2_grpc.MemoryServiceStub(channel))
        self._references: LastUsed[tuple[str, str], bytes] = LastUsed(REFERENCES_BYTES_MAX, len)

    async def recall(self, request: memory.RecallRequest) -> memory.RecallResponse:
        """Recalls an identity and the last turns."""
        async with clients.calling("memory"):
            return await self.stub.Recall(request, **clients.options(MEMORY_TIMEOUT_S))

    async def reference(self, identity: memory.Identity, kind: memory.ReferenceKind) -> bytes:
        """Reads the portrait or the voice of an identity."""
        portrait = kind == memory.REFERENCE_KIND_PORTRAIT
        digest = identity.portrait.digest if portrait else identity.voice.digest
        key = (identity.id, digest)
        if key not in self._references:
            request = memory.GetReferenceRequest(identity=identity.id, kind=kind)
            content = bytearray()
            async with clients.calling("memory"):
                call = self.stub.GetReference(request, **clients.options(MEMORY_TIMEOUT_S))
                async with aclosing(clients.responses(call)) as parts:
                    async for part in parts:
                        content += part.content
            return self._references.get(key, lambda: bytes(content))
        return self._references.get(key, bytes)

    async def remove(self, identity_id: str) -> int:
        """Removes an identity, here too; returns how many objects that were."""
        try:
            async with clients.calling("memory"):
                request = memory.RemoveIdentityRequest(identity=identity_id)
                return (await self.stub.RemoveIdentity(request, **clients.options(MEMORY_TIMEOUT_S))).objects
        finally:
            self._references.forget(lambda key: key[0] == identity_id)

    async def fitted_voice(self, identity: memory.Identity, model_digest: str) -> bytes:
        """Reads the identity's voice as a model fitted it; empty when there is none: it can always be fitted again."""
        request = memory.GetDerivedRequest(
            identity=identity.id,
            kind=memory.REFERENCE_KIND_VOICE,
            reference_digest=identity.voice.digest,
            model_digest=model_digest,
        )
        try:
            async with clients.calling("memory"):
                return (await self.stub.GetDerived(request, **clients.options(MEMORY_TIMEOUT_S))).content
        except ServiceError as error:
            log.info("voice will be fitted", extra={"identity": identity.id, "why": str(error)})
            return b""

    async def keep_fitted_voice(self, identity: memory.Identity, model_digest: str, content: bytes) -> None:
        """Keeps the identity's voice as a model fitted it; a failure is logged only."""
        request = memory.PutDerivedRequest(
            identity=identity.id,
            kind=memory.REFERENCE_KIND_VOICE,
            reference_digest=identity.voice.digest,
            model_digest=model_digest,
            content=content,
        )
        try:
            async with clients.calling("memory"):
                await self.stub.PutDerived(request, **clients.options(MEMORY_TIMEOUT_S))
        except ServiceError as error:
            log.warning("fitted voice not kept", extra={"identity": identity.id, "why": str(error)})

    async def remember(self, request: memory.RememberRequest) -> None:
        """Keeps a turn."""
        async with clients.calling("memory"):
            await self.stub.Remember(request, **clients.options(MEMORY_TIMEOUT_S))

    async def store(self) -> memory.GetStoreResponse:
        """Tells which store it is."""
        async with clients.calling("memory"):
            return await self.stub.GetStore(memory.GetStoreRequest(), **clients.options(CARD_TIMEOUT_S))


class Tts:
    """The voice."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = cast("TtsServiceAsyncStub", tts_pb2_grpc.TtsServiceStub(channel))

    async def model(self) -> tts.GetModelResponse:
        """Tells which voice it is."""
        async with clients.calling("tts"):
            return await self._stub.GetModel(tts.GetModelRequest(), **clients.options(CARD_TIMEOUT_S))

    async def check(self, parts: AsyncIterator[tts.CheckVoiceRequest]) -> tts.CheckVoiceResponse:
        """Tells whether a recording can be a voice."""
        async with clients.calling("tts"):
            return await clients.ask(self._stub.CheckVoice(**clients.options(STREAM_TIMEOUT_S)), parts)

    async def speak(self, parts: AsyncIterator[tts.SpeakRequest]) -> AsyncGenerator[tts.SpeakResponse]:
        """Speaks sentences as they come."""
        async with clients.calling("tts"):
            call = self._stub.Speak(**clients.options(STREAM_TIMEOUT_S))
            async with aclosing(clients.converse(call, parts)) as spoken:
                async for part in spoken:
                    yield part


class Video:
    """The face."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = cast("VideoServiceAsyncStub", video_pb2_grpc.VideoServiceStub(channel))

    async def model(self) -> video.GetModelResponse:
        """Tells which renderer it is."""
        async with clients.calling("video"):
            return await self._stub.GetModel(video.GetModelRequest(), **clients.options(CARD_TIMEOUT_S))

    async def check(self, parts: AsyncIterator[video.CheckPortraitRequest]) -> video.CheckPortraitResponse:
        """Tells whether a picture can be a face."""
        async with clients.calling("video"):
            return await clients.ask(self._stub.CheckPortrait(**clients.options(STREAM_TIMEOUT_S)), parts)

    async def animate(
        self, parts: AsyncIterator[video.AnimateRequest], timeout_s: float = STREAM_TIMEOUT_S
    ) -> AsyncGenerator[video.AnimateResponse]:
        """Animates a portrait to speech, as it comes or to a segment of it."""
        async with clients.calling("video"):
            call = self._stub.Animate(**clients.options(timeout_s))
            async with aclosing(clients.converse(call, parts)) as filmed:
                async for part in filmed:
                    yield part
