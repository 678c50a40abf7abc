"""What one stage hands to the next while both work."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

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
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        self._items.put_nowait(item)

    def end(self) -> None:
        """Says that there are no more."""
        self._items.put_nowait(_End())

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yields the items until the end."""
        while not isinstance(item := await self._items.get(), _End):
            yield item
