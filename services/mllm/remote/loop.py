"""Lets code that blocks wait for asynchronous calls, and give them up."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")

POLL_S = 0.05
"""How often it is asked whether somebody still waits."""


class Stopped(Exception):
    """Nobody waits for the answer any more."""


class BackgroundLoop:
    """An event loop on a thread of its own.

    A blocking read of a socket cannot be given up from outside; an asynchronous one can, and its connection is then
    closed, which is what tells the server to stop its model.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Awaitable[Result], stopped: Callable[[], bool] = lambda: False) -> Result:
        """Waits for `call` and returns its result.

        Raises:
            Stopped: `stopped` said yes; the call was cancelled and has ended.
        """
        ended = threading.Event()
        tasks: list[asyncio.Task[Result]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(_result_of(call)))
            tasks[0].add_done_callback(lambda _: ended.set())

        def cancel() -> None:
            tasks[0].cancel()

        self._loop.call_soon_threadsafe(start)
        while not ended.wait(POLL_S):
            if stopped():
                self._loop.call_soon_threadsafe(cancel)
                ended.wait()
                raise Stopped
        return tasks[0].result()

    def close(self) -> None:
        """Ends the thread; nothing may be running any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _result_of(call: Awaitable[Result]) -> Result:
    return await call
