"""Items that one stage hands to the next while both work."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from services.common.clock import now_s
from services.common.errors import DeadlineExceeded
from services.common.streams import ticking

Item = TypeVar("Item")


class _End:
    """The mark behind the last item."""


class Flow(Generic[Item]):
    """Items from one stage to one other; `first_s` and `last_s` are when (monotonic) the first and last came, or 0."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[Item | _End] = asyncio.Queue()
        self.first_s = 0.0
        self.last_s = 0.0

    def put(self, item: Item) -> None:
        """Hands an item on. The line is as long as a reply at most, so it never blocks."""
        self.last_s = now_s()
        self.first_s = self.first_s or self.last_s
        self._items.put_nowait(item)

    def end(self) -> None:
        """Says that there are no more."""
        self._items.put_nowait(_End())

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yields the items until the end."""
        while not isinstance(item := await self._items.get(), _End):
            yield item


class Kept(Flow[Item]):
    """Items of one stage for several others, or for one that begins anew: each gets all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Item] = []
        self._news = asyncio.Event()
        self._has_ended = False

    def put(self, item: Item) -> None:
        """Hand an item on."""
        self.last_s = now_s()
        self.first_s = self.first_s or self.last_s
        self._kept.append(item)
        self._tell()

    def end(self) -> None:
        """Say that there are no more."""
        self._has_ended = True
        self._tell()

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yield the items from the first to the end."""
        given = 0
        while True:
            while given < len(self._kept):
                given += 1
                yield self._kept[given - 1]
            if self._has_ended:
                return
            await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


async def watched(
    service: str, parts: AsyncGenerator[Item], idle_s: float, fed_s: Callable[[], float]
) -> AsyncGenerator[Item]:
    """Yields the parts of a stream; one that falls silent over its work is given up, so that the turn can end.

    Args:
        service: Its name, for the error.
        parts: What it answers.
        idle_s: How long it may be silent.
        fed_s: Tells when (monotonic) it was last given work; 0 for never.

    Raises:
        DeadlineExceeded: Nothing came for `idle_s` after it was last fed.
    """
    async with aclosing(ticking(parts, idle_s)) as ticks:
        async for part in ticks:
            if part is not None:
                yield part
            elif (last_s := fed_s()) and now_s() - last_s >= idle_s:
                raise DeadlineExceeded(f"{service}: nothing came for {idle_s:g} s")
