"""What all fakes need. They implement a port, keep its promises, and can be told to fail or to do something in between.

Each calls `before` with the name of the operation first. What stands there may raise, or be a `Gate` that holds the
fake until the test opens it: a fake is late for as long as the test wants, and nobody sleeps.
"""

import asyncio
import threading
from collections.abc import Callable

PATIENCE_S = 20.0
"""A test that waits longer than this for something has failed."""


def go_on(*_: str) -> None:
    """What a fake does before each operation unless it is told otherwise: nothing."""


def fail(error: Exception) -> Callable[..., None]:
    """Returns a `before` that raises `error`."""

    def raising(*_: str) -> None:
        raise error

    return raising


class Gate:
    """A `before` that holds a fake.

    Args:
        operation: The only one that is held; empty holds all.
        after: How many it lets through first.
    """

    def __init__(self, operation: str = "", after: int = 0) -> None:
        self.came = 0
        self._operation = operation
        self._after = after
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, operation: str, *_: str) -> None:
        if self._operation not in ("", operation):
            return
        self.came += 1
        if self.came > self._after:
            self._reached.set()
            assert self._open.wait(PATIENCE_S), "the gate was never opened"

    async def reached(self) -> None:
        """Waits until a fake stands before the gate."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S), "nobody came to the gate"

    def open(self) -> None:
        """Lets everyone through from now on."""
        self._open.set()


class Closing:
    """Tells when an iterator that a fake gave out was closed or came to its end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def happened(self) -> None:
        """Waits for it."""
        assert await asyncio.to_thread(self._event.wait, PATIENCE_S), "the iterator was never closed"
