"""Clock of a load."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time, and waiting for it; tests have one that they set."""

    def now_s(self) -> float:
        """Return the time, from any origin."""

    async def until(self, at_s: float) -> None:
        """Wait until a time; others get their turn even when it is over."""


class RealClock:
    """The clock of this process."""

    def now_s(self) -> float:
        """Return the monotonic time."""
        return time.monotonic()

    async def until(self, at_s: float) -> None:
        """Wait until a time."""
        await asyncio.sleep(max(0.0, at_s - time.monotonic()))
