"""Streams whose silence matters."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

Item = TypeVar("Item")


async def ticking(items: AsyncGenerator[Item], every_s: float) -> AsyncGenerator[Item | None]:
    """Yields the items, none of which is None, and None whenever nothing came for `every_s`. Closes `items`."""
    async with aclosing(items):
        while True:
            waiting = asyncio.ensure_future(_next(items))
            try:
                while not (await asyncio.wait({waiting}, timeout=every_s))[0]:
                    yield None
            finally:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            item = waiting.result()
            if item is None:
                return
            yield item


async def _next(items: AsyncGenerator[Item]) -> Item | None:
    return await anext(items, None)
