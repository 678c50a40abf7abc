"""What travels in pieces: PCM (signed 16-bit little-endian, mono), files, and the parts of a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidRequest

CHUNK_BYTES_MAX = 1 << 20
"""Largest piece of media in one message."""

Part = TypeVar("Part")


def float_of_pcm(pcm: bytes) -> NDArray[np.float32]:
    """Returns samples between -1 and 1."""
    return np.frombuffer(pcm, "<i2").astype(np.float32) / 32768.0


def pcm_of_float(samples: NDArray[np.float32]) -> bytes:
    """Returns s16le; what lies outside -1 to 1 is clipped."""
    return np.clip(np.round(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()


def chunks(content: bytes, size: int = CHUNK_BYTES_MAX) -> Iterator[bytes]:
    """Cuts `content` into messages' pieces."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def collect(
    field: str, size_bytes: int, parts: AsyncIterator[Part], piece: Callable[[Part], bytes | None]
) -> bytes:
    """Reads the next parts of a stream until a file of the declared size is whole.

    Args:
        field: Name of the field, for errors.
        size_bytes: The declared size.
        parts: The stream; what follows the file is left in it.
        piece: Returns a part's piece of the file; None for a part of another kind.

    Raises:
        InvalidRequest: The file came in part only, or is larger than declared.
    """
    file = Collector(field, size_bytes)
    while file.size < size_bytes:
        part = await anext(parts, None)
        content = None if part is None else piece(part)
        if content is None:
            problem = f"{file.size} of {size_bytes} bytes came; send the whole file before what follows it"
            raise InvalidRequest(field, problem)
        file.add(content)
    return file.content


@asynccontextmanager
async def read_ahead(parts: AsyncIterator[Part], count_max: int) -> AsyncIterator[AsyncIterator[list[Part]]]:
    """Reads a stream while what came before is worked on; yields, as lists, all that waits, `count_max` at most."""
    waiting: asyncio.Queue[Part | _End] = asyncio.Queue(count_max)

    async def read() -> None:
        end = _End()
        try:
            async for part in parts:
                await waiting.put(part)
        except Exception as error:  # handed on in its place, whatever it is
            end = _End(error)
        await waiting.put(end)

    async def take() -> AsyncGenerator[list[Part]]:
        end: _End | None = None
        while end is None:
            taken, item = [], await waiting.get()
            while not isinstance(item, _End):
                taken.append(item)
                if waiting.empty():
                    break
                item = waiting.get_nowait()
            else:
                end = item
            if taken:
                yield taken
        if end.error:
            raise end.error

    reading = asyncio.create_task(read())
    try:
        async with aclosing(take()) as lists:
            yield lists
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


@dataclass(frozen=True)
class _End:
    """The mark behind the last part, with what the stream raised."""

    error: Exception | None = None


class Collector:
    """Joins the pieces of one file, and refuses it at the limit rather than after.

    Args:
        field: Name of the field, for errors.
        bytes_max: Largest file.
    """

    def __init__(self, field: str, bytes_max: int) -> None:
        self.field = field
        self._bytes_max = bytes_max
        self._content = bytearray()

    def add(self, piece: bytes) -> None:
        """Takes the next piece.

        Raises:
            InvalidRequest: The piece, or the file, is too large.
        """
        if len(piece) > CHUNK_BYTES_MAX:
            raise InvalidRequest(self.field, f"a message holds {len(piece)} bytes; send at most {CHUNK_BYTES_MAX}")
        if len(self._content) + len(piece) > self._bytes_max:
            raise InvalidRequest(self.field, f"more than {self._bytes_max} bytes; send a smaller file")
        self._content += piece

    def check_whole(self, declared: int) -> None:
        """Refuses a file of another size than was declared: a caller that dies may look like one that is done.

        Raises:
            InvalidRequest: More or fewer bytes came.
        """
        if self.size != declared:
            raise InvalidRequest(self.field, f"{self.size} of {declared} bytes came; declare and send the whole file")

    @property
    def size(self) -> int:
        """Bytes that were joined so far."""
        return len(self._content)

    @property
    def content(self) -> bytes:
        """What was joined so far."""
        return bytes(self._content)
