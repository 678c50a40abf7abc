"""Files in chunks: of the size that was declared, and no more of them at once than there is room for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

from services.common import idempotency
from services.common.errors import DeadlineExceeded, InvalidRequest, Overloaded
from services.common.media import CHUNK_BYTES_MAX, chunks
from services.memory.domain import digest_of

ROOM_BYTES = 2**29
"""Most bytes that come at the same time, and most that go: four of the largest identities."""

SILENCE_S_MAX = 30.0
"""A caller who sends nothing for so long is gone, and what it holds of the room with it."""


@dataclass(frozen=True)
class Declared:
    """A file that is to come: `field` names it, and `digest` is its SHA-256 (hex) where the caller knows it."""

    field: str
    size_bytes: int
    digest: str = ""


class Transfers:
    """The files that are on their way in one direction: together at most `bytes_max`."""

    def __init__(self, bytes_max: int = ROOM_BYTES) -> None:
        self._bytes_max, self._taken_bytes = bytes_max, 0

    @contextmanager
    def room(self, size_bytes: int) -> Iterator[None]:
        """Take room in the block.

        Raises:
            Overloaded: There is none.
        """
        if self._taken_bytes + size_bytes > self._bytes_max:
            problem = f"{self._taken_bytes} bytes of files are on their way, and {size_bytes} more are too many"
            raise Overloaded(f"{problem}; retry in 1 s", 1.0)
        self._taken_bytes += size_bytes
        try:
            yield
        finally:
            self._taken_bytes -= size_bytes

    async def chunked(self, content: bytes) -> AsyncGenerator[bytes]:
        """Yield a content in chunks; it takes its room until the last one is taken, or the caller is gone."""
        with self.room(len(content)):
            for chunk in chunks(content):
                yield chunk


# The parts of streams are messages of several types with a `oneof part` of header and content.


async def header_of(parts: AsyncIterator[Any]) -> Any:
    """Return the header that a stream begins with."""
    part = await _next(parts)
    if part is None or part.WhichOneof("part") != "header":
        raise InvalidRequest("header", "missing; send it first")
    return part.header


async def files_of(parts: AsyncIterator[Any], declared: Sequence[Declared]) -> list[bytes]:
    """Return the files that make up the rest of a stream, one behind the other; refuse fewer, more or other bytes."""
    files, rest = [], b""
    async with aclosing(contents_of(parts)) as contents:
        for expected in declared:
            file = bytearray()
            while missing := expected.size_bytes - len(file):
                if (chunk := rest if rest else await anext(contents, None)) is None:
                    problem = f"{len(file)} of {expected.size_bytes} bytes came; declare and send the whole file"
                    raise InvalidRequest(expected.field, problem)
                file += chunk[:missing]
                rest = chunk[missing:]
            files.append(bytes(file))
            if expected.digest and (digest := digest_of(files[-1])) != expected.digest:
                problem = f"its SHA-256 is {digest}, and {expected.digest} was declared; send it anew"
                raise InvalidRequest(expected.field, problem)
        if rest or await anext(contents, None) is not None:
            problem = f"more than the {sum(map(len, files))} bytes came that were declared; declare all of them"
            raise InvalidRequest("content", problem)
    return files


async def contents_of(parts: AsyncIterator[Any]) -> AsyncGenerator[bytes]:
    """Yield the content that makes up the rest of a stream."""
    while (part := await _next(parts)) is not None:
        if (found := part.WhichOneof("part")) != "content":
            raise InvalidRequest("part", f"{found or 'nothing'} is out of order; send one header first, then content")
        if (size_bytes := len(part.content)) > CHUNK_BYTES_MAX:
            raise InvalidRequest("content", f"a message holds {size_bytes} bytes; send at most {CHUNK_BYTES_MAX}")
        yield part.content


async def _next(parts: AsyncIterator[Any]) -> Any:
    try:
        async with asyncio.timeout(SILENCE_S_MAX):
            if part := await anext(parts, None):
                idempotency.add(part.content or part.header.SerializeToString(deterministic=True))
            return part
    except TimeoutError:
        raise DeadlineExceeded(f"no part came for {SILENCE_S_MAX:.0f} s; send them one after the other") from None
