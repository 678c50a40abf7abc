"""The services that a turn goes through beside the memory, as the pipeline calls them.

Every method raises the `ServiceError` that the service had; failures to reach it name the service.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import grpc

from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.tts.v1 import tts_pb2_grpc
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.understanding.v1 import understanding_pb2_grpc
from e3rg.video.v1 import video_pb2 as video
from e3rg.video.v1 import video_pb2_grpc
from services.common import clients
from services.common.replica import Choice

if TYPE_CHECKING:  # these exist in the stubs only
    from e3rg.tts.v1.tts_pb2_grpc import TtsServiceAsyncStub
    from e3rg.understanding.v1.understanding_pb2_grpc import UnderstandingServiceAsyncStub
    from e3rg.video.v1.video_pb2_grpc import VideoServiceAsyncStub

CARD_TIMEOUT_S = 5.0
VARIANTS_TIMEOUT_S = 12.0
"""The panel waits for replicas of new variants."""
STREAM_TIMEOUT_S = 600.0
"""A stream ends with its turn; this only bounds one whose caller set no deadline."""


class Understanding:
    """The panel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub = understanding_pb2_grpc.UnderstandingServiceStub(channel)
        self._stub = cast("UnderstandingServiceAsyncStub", stub)

    async def panel(self) -> understanding.GetPanelResponse:
        """Tells who sits on the panel."""
        async with clients.calling("understanding"):
            return await self._stub.GetPanel(understanding.GetPanelRequest(), **clients.options(CARD_TIMEOUT_S))

    async def check_variants(
        self, variants: Sequence[understanding.StageVariant]
    ) -> understanding.CheckVariantsResponse:
        """Tells whether variants of the voters and of the writer could serve."""
        request = understanding.CheckVariantsRequest(variants=variants)
        async with clients.calling("understanding"):
            return await self._stub.CheckVariants(request, **clients.options(VARIANTS_TIMEOUT_S))

    async def understand(
        self, parts: AsyncIterator[understanding.UnderstandRequest]
    ) -> understanding.UnderstandResponse:
        """Has a message understood. What `parts` raises is raised here."""
        async with clients.calling("understanding"):
            return await clients.ask_any(self._stub.Understand, parts, clients.options(STREAM_TIMEOUT_S))

    async def write_reply(
        self, request: understanding.WriteReplyRequest
    ) -> AsyncGenerator[understanding.WriteReplyResponse]:
        """Has a reply written, part by part."""
        async with clients.calling("understanding"):
            call = self._stub.WriteReply(request, **clients.options(STREAM_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                async for part in parts:
                    yield part


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
            return await clients.ask_any(self._stub.CheckVoice, parts, clients.options(STREAM_TIMEOUT_S))

    async def speak(self, parts: AsyncIterator[tts.SpeakRequest]) -> AsyncGenerator[tts.SpeakResponse]:
        """Speaks sentences as they come."""
        async with clients.calling("tts"):
            options = clients.options(STREAM_TIMEOUT_S)
            async with aclosing(clients.converse_any(self._stub.Speak, parts, options)) as spoken:
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
            return await clients.ask_any(self._stub.CheckPortrait, parts, clients.options(STREAM_TIMEOUT_S))

    async def check_film(self, parts: AsyncIterator[video.CheckFilmRequest]) -> video.CheckFilmResponse:
        """Tells whether a film can be a reference of a face."""
        async with clients.calling("video"):
            return await clients.ask_any(self._stub.CheckFilm, parts, clients.options(STREAM_TIMEOUT_S))

    async def animate(
        self,
        parts: AsyncIterator[video.AnimateRequest],
        timeout_s: float = STREAM_TIMEOUT_S,
        choice: Choice | None = None,
    ) -> AsyncGenerator[video.AnimateResponse]:
        """Animates a portrait to speech, as it comes or to a segment of it."""
        async with clients.calling("video"):
            options = clients.options(timeout_s)
            async with aclosing(clients.converse_any(self._stub.Animate, parts, options, choice)) as filmed:
                async for part in filmed:
                    yield part
