"""Files in pieces: of the size that was declared, and no more of them at once than there is room for."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from services.common.errors import DeadlineExceeded, InvalidRequest, NotReady, Overloaded
from services.common.media import CHUNK_BYTES_MAX

ROOM_BYTES = 2**29
"""So many bytes may come at the same time, and as many may go: four of the largest identities."""

SILENCE_S_MAX = 30.0
"""A caller who sends nothing for so long is gone, and what it holds of the room with it."""


@dataclass(frozen=True)
class Declared:
    """A file that is to come: `field` names it, and `digest` is its SHA-256 (hex) where the caller knows it."""

    field: str
    size_bytes: int
    digest: str = ""


class Transfers:
    """The files that are on their way, in one direction.

    Args:
        bytes_max: How much room there is for them.
    """

    def __init__(self, bytes_max: int = ROOM_BYTES) -> None:
        self._bytes_max = bytes_max
        self._taken_bytes = 0

    @contextmanager
    def room(self, declared: Sequence[Declared]) -> Iterator[None]:
        """Takes room for the files in the block.

        Raises:
            Overloaded: There is none.
        """
        size_bytes = sum(file.size_bytes for file in declared)
        if self._taken_bytes + size_bytes > self._bytes_max:
            problem = f"{self._taken_bytes} bytes of files are on their way, and {size_bytes} more are too many"
            raise Overloaded(f"{problem}; retry in 1 s", 1.0)
        self._taken_bytes += size_bytes
        try:
            yield
        finally:
            self._taken_bytes -= size_bytes


# The parts of streams are messages of several types with a `oneof part` of header and content.


async def header_of(parts: AsyncIterator[Any]) -> Any:
    """Returns the header that a stream begins with.

    Raises:
        InvalidRequest: It begins with something else.
    """
    part = await _next(parts)
    if part is None or part.WhichOneof("part") != "header":
        raise InvalidRequest("header", "missing; send it first")
    return part.header


async def files_of(parts: AsyncIterator[Any], declared: Sequence[Declared]) -> list[bytes]:
    """Returns the files that make up the rest of a stream, one behind the other.

    Raises:
        InvalidRequest: Fewer or more bytes came than were declared, or others.
    """
    files: list[bytes] = []
    left = b""
    for expected in declared:
        file = BytesIO()
        while missing := expected.size_bytes - file.tell():
            piece = left or await _content(parts)
            if piece is None:
                problem = f"{file.tell()} of {expected.size_bytes} bytes came; declare and send the whole file"
                raise InvalidRequest(expected.field, problem)
            file.write(piece[:missing])
            left = piece[missing:]
        files.append(file.getvalue())
        _check_digest(expected, files[-1])
    if left or await _content(parts) is not None:
        sum_bytes = sum(file.size_bytes for file in declared)
        raise InvalidRequest("content", f"more than the {sum_bytes} bytes came that were declared; declare all of them")
    return files


async def contents_of(parts: AsyncIterator[Any]) -> AsyncGenerator[bytes]:
    """Yields the content that makes up the rest of a stream."""
    while (piece := await _content(parts)) is not None:
        yield piece


async def _content(parts: AsyncIterator[Any]) -> bytes | None:
    """Returns the next piece of content; None at the end."""
    part = await _next(parts)
    if part is None:
        return None
    found = part.WhichOneof("part")
    if found != "content":
        raise InvalidRequest("part", f"{found or 'nothing'} is out of order; send one header first, then content")
    if len(part.content) > CHUNK_BYTES_MAX:
        problem = f"a message holds {len(part.content)} bytes; send at most {CHUNK_BYTES_MAX}"
        raise InvalidRequest("content", problem)
    piece: bytes = part.content
    return piece


async def _next(parts: AsyncIterator[Any]) -> Any:
    try:
        async with asyncio.timeout(SILENCE_S_MAX):
            return await anext(parts, None)
    except TimeoutError:
        raise DeadlineExceeded(f"no part came for {SILENCE_S_MAX:.0f} s; send them one after the other") from None


def _check_digest(expected: Declared, file: bytes) -> None:
    if expected.digest and (digest := hashlib.sha256(file).hexdigest()) != expected.digest:
        raise InvalidRequest(
            expected.field, f"its SHA-256 is {digest}, and {expected.digest} was declared; send it anew"
        )
