"""A stream is read while what came before is worked on."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.common.media import read_ahead


class Stream:
    """A stream that a test feeds, and that says when all of it was read."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[int | Exception | None] = asyncio.Queue()
        self.read = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[int]:
        try:
            while (part := await self.parts.get()) is not None:
                if isinstance(part, Exception):
                    raise part
                self.read += 1
                yield part
        finally:
            self.closed = True

    def feed(self, *parts: int | Exception | None) -> None:
        for part in parts:
            self.parts.put_nowait(part)


async def settled() -> None:
    """Lets every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_waits_comes_together_and_what_does_not_comes_alone() -> None:
    stream = Stream()
    async with read_ahead(aiter(stream), count_max=8) as lists:
        stream.feed(1)
        assert await anext(lists) == [1]
        stream.feed(2, 3, 4)
        await settled()
        assert await anext(lists) == [2, 3, 4]
        stream.feed(5, None)
        await settled()
        assert [each async for each in lists] == [[5]]


async def test_no_more_is_read_ahead_than_is_taken_at_once() -> None:
    stream = Stream()
    stream.feed(*range(10), None)
    async with read_ahead(aiter(stream), count_max=3) as lists:
        await settled()
        assert stream.read <= 4
        taken = [each async for each in lists]
    assert [part for each in taken for part in each] == list(range(10))
    assert max(map(len, taken)) <= 4


async def test_what_the_stream_raises_comes_after_what_came_before_it() -> None:
    stream = Stream()
    stream.feed(1, 2, ValueError("torn"))
    async with read_ahead(aiter(stream), count_max=8) as lists:
        await settled()
        assert await anext(lists) == [1, 2]
        with pytest.raises(ValueError, match="torn"):
            await anext(lists)


async def test_leaving_early_stops_the_reading() -> None:
    stream = Stream()
    stream.feed(1)
    async with read_ahead(aiter(stream), count_max=8) as lists:
        assert await anext(lists) == [1]
    stream.feed(2)
    await settled()
    assert (stream.read, stream.closed) == (1, True)
