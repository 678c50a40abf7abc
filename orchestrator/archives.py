"""Lets no archive into the memory with a file that voice and face have not found usable.

An archive goes on to the memory as it comes, and the end of a file when it is checked, so that no more than one is
held here. Its files stand before everything else, behind `identity.json`, which names them; then come its earlier
versions, then its emotional references. The memory refuses an archive in which they do not. So it is read here no
further than to the last of those, by the memory's own reader.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from e3rg.memory.v1 import identities_pb2 as pb
from orchestrator.identities import EMOTION_BYTES_MAX, Examiner, check_declared, check_first, content_of, kind_of
from services.common.errors import InvalidRequest
from services.common.tar import Member, Reader

ABOUT = "identity.json"
FILES = "references/"
EARLIER = "versions/"
EMOTIONS = "emotions/"
ABOUT_BYTES_MAX = 1 << 20
KINDS = {
    "portrait": pb.REFERENCE_KIND_PORTRAIT,
    "voice": pb.REFERENCE_KIND_VOICE,
    "film": pb.REFERENCE_KIND_FILM,
}
GENERATORS = {"voice": pb.GENERATOR_VOICE, "face": pb.GENERATOR_FACE}


@dataclass(frozen=True)
class _Profile:
    language: str


@dataclass(frozen=True)
class _File:
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Field(ge=0, lt=1 << 63)]
    kind: Literal["portrait", "voice", "film"]


@dataclass(frozen=True)
class _About:
    """What is read here of `identity.json`."""

    profile: _Profile
    references: tuple[_File, ...]


_ABOUTS = TypeAdapter(_About)


class _PastAll(Exception):
    """Nothing is looked at from here on."""


class ArchiveExaminer:
    """Asks voice and face, through `examiner`, whether they can use what is in one archive."""

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner
        self._reader = Reader(self._bytes_max)
        self._files: dict[str, _File] | None = None  # Those that are still to come; None before it is known which.
        self._is_past_all = False

    async def examined(
        self, parts: AsyncIterator[pb.ImportIdentityRequest]
    ) -> AsyncGenerator[pb.ImportIdentityRequest]:
        """Yields a request to import an archive.

        Raises:
            InvalidRequest: A part is out of order, the archive is none, the voice does not speak its identity's
                language, or a file of it cannot be used; the text says which and why.
        """
        first = await anext(parts, pb.ImportIdentityRequest())
        check_first(first)
        yield first
        try:
            async for part in parts:
                content = content_of(part)
                if not self._is_past_all:
                    async with aclosing(self._examine(content)) as pieces:
                        async for piece in pieces:
                            yield pb.ImportIdentityRequest(content=piece)
                yield part
        finally:
            self._reader.close()

    async def _examine(self, piece: bytes) -> AsyncGenerator[bytes]:
        """Examines what is whole with this piece; yields as `Examiner.check` does."""
        try:
            for member in self._reader.read(piece):
                if self._files is None:
                    self._files = await self._named(member.content)
                    continue
                kind = _as_what(member, self._files)
                if kind is None:
                    continue
                async with aclosing(self._examiner.check(f"archive: {member.name}", kind, member.content)) as pieces:
                    async for empty in pieces:
                        yield empty
            self._is_past_all = self._reader.at_end
        except _PastAll:
            self._is_past_all = True
        if self._is_past_all:
            self._reader.close()

    def _bytes_max(self, name: str) -> int:
        if self._files is None and name == ABOUT:
            return ABOUT_BYTES_MAX
        if self._files is not None and name in self._files:
            return self._files[name].size_bytes
        if self._files == {}:
            if name.startswith(EARLIER):
                return ABOUT_BYTES_MAX
            if name.startswith(EMOTIONS):
                return EMOTION_BYTES_MAX
            raise _PastAll
        expected = ", ".join(self._files) if self._files else ABOUT
        raise InvalidRequest("archive", f"its member {name[:200]!a} stands where {expected} is expected; {_SEND}")

    async def _named(self, about: bytes) -> dict[str, _File]:
        """Returns the files that an archive has, by the names of its members."""
        try:
            who = _ABOUTS.validate_json(about)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in problem["loc"])
            raise InvalidRequest("archive", f"its member {ABOUT!r}: {place}: {problem['msg']}; {_SEND}") from error
        declared = [pb.NewReference(kind=KINDS[file.kind], size_bytes=file.size_bytes) for file in who.references]
        check_declared(f"archive: {ABOUT}.references", declared, files_min=1)
        await self._examiner.check_language(f"archive: {ABOUT}.profile.language", who.profile.language)
        return {f"{FILES}{file.digest}": file for file in who.references}


def _as_what(member: Member, files: dict[str, _File]) -> pb.ReferenceKind | None:
    """Returns as what a member is looked at, None when it is not; takes it out of the files that are to come."""
    if member.name in files:
        return KINDS[files.pop(member.name).kind]
    if not member.name.startswith(EMOTIONS):
        return None
    generator, _, _ = member.name.removeprefix(EMOTIONS).partition("/")
    return kind_of(GENERATORS.get(generator, pb.GENERATOR_UNSPECIFIED), member.media_type)


_SEND = "send an archive that an export wrote, unchanged"
