"""Refuse files of an identity, and references of its emotions, that voice or face cannot use.

The files go on to the memory as each is checked, one after the other, so that no more than one of them is held here;
the memory keeps nothing of a request that does not come to its end. `archives.py` does the same for an archive.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing

from e3rg.memory.v1 import identities_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.video.v1 import video_pb2 as video
from orchestrator.stages import Tts, Video
from services.common.errors import InvalidRequest
from services.common.media import CHUNK_BYTES_MAX, chunks

MIB = 1 << 20
FILE_BYTES_MAX = {
    pb.REFERENCE_KIND_PORTRAIT: 16 * MIB,
    pb.REFERENCE_KIND_VOICE: 16 * MIB,
    pb.REFERENCE_KIND_FILM: 64 * MIB,
}
FILES_MAX, FILES_BYTES_MAX = 16, 128 * MIB
EMOTION_BYTES_MAX = 16 * MIB
FACES = {"image": pb.REFERENCE_KIND_PORTRAIT, "video": pb.REFERENCE_KIND_FILM}
"""Kind of the reference by the MIME type of a file that shows an emotion. Other files are a renderer's own priors."""

HEARTBEAT_S = 5.0
"""Interval of empty pieces while voice and face are busy: the memory gives up a caller who is long silent."""

Part = pb.AddIdentityRequest | pb.ChangeIdentityRequest | pb.ImportIdentityRequest | pb.PutEmotionReferenceRequest


class Examiner:
    """Asks voice and face, of the variant that is the control now, whether they can use what an identity shall have."""

    def __init__(
        self, tts_stage: Callable[[], Tts], video_stage: Callable[[], Video], heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._tts = tts_stage
        self._video = video_stage
        self._heartbeat_s = heartbeat_s

    async def addition(self, parts: AsyncIterator[pb.AddIdentityRequest]) -> AsyncGenerator[pb.AddIdentityRequest]:
        """Yields a request to add an identity, each file when it is checked.

        Raises:
            InvalidRequest: A part is out of order, the voice does not speak the language, or a file cannot be used;
                the text says which and why.
        """
        first = await anext(parts, pb.AddIdentityRequest())
        check_first(first)
        check_declared("header.references", first.header.references, files_min=1)
        await self.check_language("header.profile.language", first.header.profile.language)
        yield first
        contents = (content_of(part) async for part in parts)
        files = _by_field("header.references", first.header.references)
        async for piece in self._files("header.references", files, contents):
            yield pb.AddIdentityRequest(content=piece)

    async def change(self, parts: AsyncIterator[pb.ChangeIdentityRequest]) -> AsyncGenerator[pb.ChangeIdentityRequest]:
        """Yields a request to change an identity, each file when it is checked.

        Raises:
            InvalidRequest: As for an addition.
        """
        first = await anext(parts, pb.ChangeIdentityRequest())
        check_first(first)
        check_declared("header.added", first.header.added, files_min=0)
        await self.check_language("header.profile.language", first.header.profile.language)
        contents = (content_of(part) async for part in parts)
        if not first.header.added:
            await _check_end("header.added", b"", contents)  # the header alone is a whole request for the memory
        yield first
        files = _by_field("header.added", first.header.added)
        async for piece in self._files("header.added", files, contents):
            yield pb.ChangeIdentityRequest(content=piece)

    async def emotion(
        self, parts: AsyncIterator[pb.PutEmotionReferenceRequest]
    ) -> AsyncGenerator[pb.PutEmotionReferenceRequest]:
        """Yields a request to keep an emotional reference: what voice or face can look at when it is checked.

        A prior in a renderer's own format goes on as it comes, and so does what the memory refuses by its header.

        Raises:
            InvalidRequest: A part is out of order, or the recording, picture or film cannot be used; the text says why.
        """
        first = await anext(parts, pb.PutEmotionReferenceRequest())
        kind = kind_of(first.header.generator, first.header.media_type)
        if kind is None:
            yield first
            async for part in parts:
                yield part
            return
        size_bytes = first.header.size_bytes
        if not 1 <= size_bytes <= EMOTION_BYTES_MAX:
            raise InvalidRequest("header.size_bytes", f"{size_bytes}; send 1 to {EMOTION_BYTES_MAX}")
        yield first
        files = {"content": pb.NewReference(kind=kind, size_bytes=size_bytes)}
        async for piece in self._files("content", files, (content_of(part) async for part in parts)):
            yield pb.PutEmotionReferenceRequest(content=piece)

    async def check_language(self, field: str, language: str) -> None:
        """Refuses a language that the voice does not speak; empty is none.

        Raises:
            InvalidRequest: It is such a one.
        """
        if language and language not in (spoken := (await self._tts().model()).languages):
            problem = f"{language[:80]!a} is not spoken by the voice; use one of: {', '.join(spoken)}"
            raise InvalidRequest(field, problem)

    async def _files(
        self, field: str, files: Mapping[str, pb.NewReference], contents: AsyncGenerator[bytes]
    ) -> AsyncGenerator[bytes]:
        """Yields the files in pieces, each when it is checked, the last one when it is known that nothing follows.

        Args:
            field: Where they stand in the request.
            files: By the field of each.
            contents: Their bytes.
        """
        rest = b""
        for place, (name, file) in enumerate(files.items(), start=1):
            content = bytearray(rest[: file.size_bytes])
            rest = rest[file.size_bytes :]
            while lacking := file.size_bytes - len(content):
                piece = await anext(contents, None)
                if piece is None:
                    problem = f"{len(content)} of {file.size_bytes} bytes came; send all files whole, in this order"
                    raise InvalidRequest(name, problem)
                yield b""  # A caller may take longer for a file than the memory waits for anything.
                content += piece[:lacking]
                rest = piece[lacking:]
            whole = bytes(content)
            async with aclosing(self.check(name, file.kind, whole)) as pieces:
                async for piece in pieces:
                    yield piece
            if place == len(files):
                await _check_end(field, rest, contents)
            for piece in chunks(whole):
                yield piece

    async def check(self, name: str, kind: pb.ReferenceKind, content: bytes) -> AsyncGenerator[bytes]:
        """Refuses a file that cannot be used for what it is; yields an empty piece now and then while that lasts.

        Raises:
            InvalidRequest: It is such a one; the text names it and says why.
        """
        checking = asyncio.create_task(self._check(name, kind, content))
        try:
            while not (await asyncio.wait({checking}, timeout=self._heartbeat_s))[0]:
                yield b""
            await checking
        finally:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)

    async def _check(self, name: str, kind: pb.ReferenceKind, content: bytes) -> None:
        try:
            match kind:
                case pb.REFERENCE_KIND_PORTRAIT:
                    await self._video().check(_portrait(content))
                case pb.REFERENCE_KIND_VOICE:
                    await self._tts().check(_voice(content))
                case _:
                    await self._video().check_film(_film(content))
        except InvalidRequest as error:
            raise InvalidRequest(name, str(error)) from error


def kind_of(generator: pb.Generator, media_type: str) -> pb.ReferenceKind | None:
    """Returns as what an emotional reference is looked at; None when nobody can."""
    match generator:
        case pb.GENERATOR_VOICE:
            return pb.REFERENCE_KIND_VOICE
        case pb.GENERATOR_FACE:
            return FACES.get(media_type.partition("/")[0])
        case _:
            return None


def _by_field(field: str, declared: Sequence[pb.NewReference]) -> dict[str, pb.NewReference]:
    return {f"{field}[{place}]": file for place, file in enumerate(declared)}


async def _check_end(field: str, rest: bytes, contents: AsyncGenerator[bytes]) -> None:
    if rest or await anext(contents, None) is not None:
        raise InvalidRequest(field, "more bytes came than are declared; declare every file with its size")


def check_declared(field: str, declared: Sequence[pb.NewReference], files_min: int) -> None:
    """Refuses files by what the header says of them, before a byte of them is read.

    Raises:
        InvalidRequest: There are too few or too many, one is of no kind or size, or they are too large.
    """
    if not files_min <= len(declared) <= FILES_MAX:
        raise InvalidRequest(field, f"{len(declared)} files; send {files_min} to {FILES_MAX}")
    for place, file in enumerate(declared):
        if file.kind not in FILE_BYTES_MAX:
            kinds = ", ".join(pb.ReferenceKind.Name(kind) for kind in FILE_BYTES_MAX)
            raise InvalidRequest(f"{field}[{place}].kind", f"{file.kind}; use one of: {kinds}")
        limit = FILE_BYTES_MAX[file.kind]
        if not 1 <= file.size_bytes <= limit:
            raise InvalidRequest(f"{field}[{place}].size_bytes", f"{file.size_bytes}; send 1 to {limit}")
    if (total := sum(file.size_bytes for file in declared)) > FILES_BYTES_MAX:
        raise InvalidRequest(field, f"{total} bytes in all; send at most {FILES_BYTES_MAX}")


def content_of(part: Part) -> bytes:
    """Returns the content that a part of a request holds.

    Raises:
        InvalidRequest: It holds none, or too much.
    """
    if (found := part.WhichOneof("part")) != "content":
        raise InvalidRequest("part", f"{found or 'nothing'} is out of order; send one header, then content")
    if len(part.content) > CHUNK_BYTES_MAX:
        raise InvalidRequest("content", f"a message holds {len(part.content)} bytes; send at most {CHUNK_BYTES_MAX}")
    return part.content


def check_first(part: Part) -> None:
    """Refuses a request that does not begin with its header.

    Raises:
        InvalidRequest: It is such a one.
    """
    if part.WhichOneof("part") != "header":
        raise InvalidRequest("header", "missing; send it first")


async def _portrait(content: bytes) -> AsyncIterator[video.CheckPortraitRequest]:
    for piece in chunks(content):
        yield video.CheckPortraitRequest(image=piece)


async def _film(content: bytes) -> AsyncIterator[video.CheckFilmRequest]:
    yield video.CheckFilmRequest(header=video.CheckFilmHeader(size_bytes=len(content)))
    for piece in chunks(content):
        yield video.CheckFilmRequest(content=piece)


async def _voice(content: bytes) -> AsyncIterator[tts.CheckVoiceRequest]:
    for piece in chunks(content):
        yield tts.CheckVoiceRequest(audio=piece)
