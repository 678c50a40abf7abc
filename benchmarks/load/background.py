"""Load beside other work of a program that is not asynchronous, such as a test of a cluster."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from benchmarks.load.generator import Load
from benchmarks.load.profile import Profile
from benchmarks.load.result import Result
from benchmarks.load.turn import Turn

PATIENCE_S = 300.0
"""Longest wait for turns."""


class Background:
    """A load that runs in a thread.

    Attributes:
        ended: Turns that have ended, in that order.
    """

    def __init__(self, profile: Profile) -> None:
        self.ended: list[Turn] = []
        self._turned = threading.Condition()
        self._load = Load(profile, self._take)
        self._loop = asyncio.new_event_loop()

    def result(self) -> Result:
        """Return what was measured so far."""
        return self._load.result()

    def wait_for(self, more: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until so many turns more have ended.

        Raises:
            TimeoutError: They have not.
        """
        wanted = len(self.ended) + more
        with self._turned:
            if not self._turned.wait_for(lambda: len(self.ended) >= wanted, timeout_s):
                raise TimeoutError(f"{more} turns more have not ended after {timeout_s:g} s")

    def run(self) -> None:
        """Run the load to its end, in this thread."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._load.run())

    def stop(self) -> None:
        """Send no more turns, from any thread."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._load.stop)

    def _take(self, turn: Turn) -> None:
        with self._turned:
            self.ended.append(turn)
            self._turned.notify_all()


@contextmanager
def in_background(profile: Profile) -> Iterator[Background]:
    """Run a load until the block ends; the last turns are waited for, and then the result is whole.

    Raises:
        OSError: A file of the profile's TLS cannot be read.
        ValueError: One is missing beside the others, or holds nothing usable.
    """
    load = Background(profile)
    with ThreadPoolExecutor(1, "load") as thread:
        running = thread.submit(load.run)
        try:
            yield load
        finally:
            load.stop()
        running.result()
