"""Wait for what another thread or process does."""

import asyncio
from collections.abc import Callable

TIMEOUT_S = 60


async def until(happened: Callable[[], bool]) -> None:
    """Return when something has happened.

    Raises:
        TimeoutError: It has not, for a minute.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while not happened():
            await asyncio.sleep(0.01)
