"""Tar archives as streams of bytes, written and read piece by piece.

POSIX.1-2001 ("pax"): any tar program lists and unpacks them. Each member carries a seal in its pax header: the SHA-256
of its name, its media type and its content. The reader is no general one: it takes plain files with a seal, of names
and sizes that it is told are right, and refuses everything else before it reads on. A stream that ends before the end
of the archive is refused.

Whoever reads an archive on its way to somebody else reads it with this too: both then see the same members.
"""

import hashlib
import tarfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NoReturn

from services.common.errors import InvalidRequest, TooLarge

PIECE_BYTES = 2**20
"""Longest piece that is written."""

_BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * _BLOCK)
"""The end of an archive."""
_HEADER_BYTES_MAX = 4096
_PATH, _SEAL, _MEDIA_TYPE = "path", "E3RG.seal", "E3RG.media_type"


@dataclass(frozen=True)
class Member:
    """A file of an archive; `media_type` may be empty."""

    name: str
    content: bytes
    media_type: str = ""


def packed(member: Member) -> Iterator[bytes]:
    """Yield a member of an archive, in pieces of at most 1 MiB; `END` follows the last one."""
    info = tarfile.TarInfo(member.name)
    info.size = len(member.content)
    info.mode = 0o600
    info.pax_headers = {_SEAL: _seal(member)}
    if member.media_type:
        info.pax_headers[_MEDIA_TYPE] = member.media_type
    yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    for start in range(0, len(member.content), PIECE_BYTES):
        yield member.content[start : start + PIECE_BYTES]
    if padding := -len(member.content) % _BLOCK:
        yield bytes(padding)


class Reader:
    """Reads an archive that is given to it piece by piece; holds a member until it is whole.

    Args:
        bytes_max: Returns how large a member of that name may be; raises `InvalidRequest` when none may be there.

    Attributes:
        at_end: Whether the end of the archive has come.
    """

    def __init__(self, bytes_max: Callable[[str], int]) -> None:
        self.at_end = False
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._names: set[str] = set()
        self._members = self._read()

    def read(self, piece: bytes) -> Iterator[Member]:
        """Take the next bytes, and yield the members that are whole with them.

        Raises:
            InvalidRequest: The archive is not one that `packed` writes, or a member is there twice.
            TooLarge: A member is.
        """
        self._held += piece
        for member in self._members:
            if member is None:
                return
            yield member
        self.at_end = True

    def check_end(self) -> None:
        """Refuse an archive that has not ended.

        Raises:
            InvalidRequest: It ends too early.
        """
        if not self.at_end:
            raise InvalidRequest("archive", "it ends too early; send it whole, as an export wrote it")

    def close(self) -> None:
        """Holds nothing any more, without waiting for the garbage collector: there may be a file in it."""
        self._members.close()
        self._held.clear()

    def _read(self) -> Generator[Member | None, None, None]:
        """Yields the members, and None whenever more bytes are needed."""
        while info := (yield from self._header()):
            headers: dict[str, str] = {}
            if info.type == tarfile.XHDTYPE:
                headers = _pax((yield from self._content(info, _HEADER_BYTES_MAX, "a pax header")))
                info = (yield from self._header()) or _refuse("it ends after a pax header")
            name = headers.get(_PATH, info.name)
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise _wrong(name, "it is no plain file: links, folders and devices are refused")
            if name in self._names:
                raise _wrong(name, "it is there twice")
            self._names.add(name)
            yield (yield from self._member(name, info, headers))  # No name holds it: the next one may be late.

    def _member(self, name: str, info: tarfile.TarInfo, headers: dict[str, str]) -> Generator[None, None, Member]:
        content = yield from self._content(info, self._bytes_max(name), name)
        member = Member(name, content, headers.get(_MEDIA_TYPE, ""))
        if _seal(member) != headers.get(_SEAL):
            raise _wrong(name, f"its seal is not the one of its pax header ({_SEAL})")
        return member

    def _header(self) -> Generator[None, None, tarfile.TarInfo | None]:
        """Returns what a header says; None at the end of the archive, which is two empty blocks."""
        block = yield from self._take(_BLOCK)
        if not any(block):
            if any((yield from self._take(_BLOCK))):
                _refuse("something follows its end")
            return None
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            return _refuse(f"a header of it cannot be read ({error})")

    def _content(self, info: tarfile.TarInfo, bytes_max: int, name: str) -> Generator[None, None, bytes]:
        if not 0 <= info.size <= bytes_max:
            problem = f"its member {name[:200]!a} has {info.size} bytes; at most {bytes_max} are allowed"
            raise TooLarge("archive", problem)
        content = yield from self._take(info.size)
        yield from self._take(-info.size % _BLOCK)
        return content

    def _take(self, size: int) -> Generator[None, None, bytes]:
        while len(self._held) < size:
            yield None
        with memoryview(self._held) as held:
            taken = bytes(held[:size])
        del self._held[:size]
        return taken


def _seal(member: Member) -> str:
    digest = hashlib.sha256(f"{member.name}\n{member.media_type}\n".encode())
    digest.update(member.content)  # Not joined: that would be a copy of a whole file.
    return digest.hexdigest()


def _pax(content: bytes) -> dict[str, str]:
    """Returns the records of a pax header: each a length, a space, name=value, and a line feed."""
    headers: dict[str, str] = {}
    while content:
        length, _, _ = content.partition(b" ")
        size = int(length) if length.isdigit() and len(length) < 5 else 0
        record, content = content[len(length) + 1 : size], content[size:]
        name, equals, value = record.partition(b"=")
        if not (equals and value.endswith(b"\n") and value.isascii() and name.isascii()):
            return _refuse("a pax header of it cannot be read")
        headers[name.decode()] = value[:-1].decode()
    if unknown := set(headers).difference((_PATH, _SEAL, _MEDIA_TYPE)):
        return _refuse(f"a pax header of it has {sorted(unknown)[0][:80]!a}")
    return headers


def _refuse(problem: str) -> NoReturn:
    raise InvalidRequest("archive", f"{problem}; send one that an export wrote, unchanged")


def _wrong(name: str, problem: str) -> InvalidRequest:
    return InvalidRequest("archive", f"its member {name[:200]!a}: {problem}")
