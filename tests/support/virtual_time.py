"""An event loop whose time passes only while everything waits, and then at once."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

BEGIN_S = 1000.0

Result = TypeVar("Result")


class _Selector(selectors.SelectSelector):
    """Selector that never blocks: it moves the clock instead."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, after `timeout` seconds of the loop's time."""
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self.now_s += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop with a clock of its own, which begins at `BEGIN_S`."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return BEGIN_S + self._clock.now_s


async def passing(seconds: float) -> None:
    """Wait until so much time has passed."""
    await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in virtual time; all that it waits for has to be timers of its loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
