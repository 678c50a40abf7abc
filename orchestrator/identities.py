"""Adds an identity only after face and voice have found its references usable."""

from collections.abc import AsyncIterator

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from orchestrator.stages import MEMORY_TIMEOUT_S, Memory, Tts, Video
from services.common import clients
from services.common.errors import InvalidRequest
from services.common.media import Collector, chunks

REFERENCE_BYTES_MAX = 16 << 20


async def add_identity(
    parts: AsyncIterator[pb.AddIdentityRequest], memory_stage: Memory, tts_stage: Tts, video_stage: Video
) -> memory.Identity:
    """Checks an identity's references and keeps it.

    Raises:
        InvalidRequest: A part is out of order, the voice does not speak the language, or a reference cannot be used;
            the text says why.
        AlreadyExists: The id is taken.
    """
    header, portrait, voice = await _read(aiter(parts))
    languages = (await tts_stage.model()).languages
    if header.profile.language and header.profile.language not in languages:
        problem = f"{header.profile.language!r} is not spoken by the voice; use one of: {', '.join(languages)}"
        raise InvalidRequest("header.profile.language", problem)
    await video_stage.check(_portrait(portrait))
    await tts_stage.check(_voice(voice))
    async with clients.calling("memory"):
        call = memory_stage.stub.AddIdentity(**clients.options(MEMORY_TIMEOUT_S))
        return (await clients.ask(call, _to_memory(header, portrait, voice))).identity


async def _read(parts: AsyncIterator[pb.AddIdentityRequest]) -> tuple[memory.AddIdentityHeader, bytes, bytes]:
    first = await anext(parts, pb.AddIdentityRequest())
    if first.WhichOneof("part") != "header":
        raise InvalidRequest("header", "missing; send it first")
    portrait, voice = Collector("portrait", REFERENCE_BYTES_MAX), Collector("voice", REFERENCE_BYTES_MAX)
    async for part in parts:
        match part.WhichOneof("part"):
            case "portrait":
                portrait.add(part.portrait)
            case "voice":
                voice.add(part.voice)
            case found:
                raise InvalidRequest("part", f"{found or 'nothing'} is out of order; send one header, then references")
    for file, remedy in ((portrait, "send a PNG or JPEG of one face"), (voice, "send a WAV file of the voice")):
        if not file.size:
            raise InvalidRequest(file.field, f"missing; {remedy}")
    portrait.check_whole(first.header.portrait_size_bytes)
    voice.check_whole(first.header.voice_size_bytes)
    return first.header, portrait.content, voice.content


async def _portrait(content: bytes) -> AsyncIterator[video.CheckPortraitRequest]:
    for piece in chunks(content):
        yield video.CheckPortraitRequest(image=piece)


async def _voice(content: bytes) -> AsyncIterator[tts.CheckVoiceRequest]:
    for piece in chunks(content):
        yield tts.CheckVoiceRequest(audio=piece)


async def _to_memory(
    header: memory.AddIdentityHeader, portrait: bytes, voice: bytes
) -> AsyncIterator[memory.AddIdentityRequest]:
    yield memory.AddIdentityRequest(header=header)
    for piece in chunks(portrait):
        yield memory.AddIdentityRequest(portrait=piece)
    for piece in chunks(voice):
        yield memory.AddIdentityRequest(voice=piece)
