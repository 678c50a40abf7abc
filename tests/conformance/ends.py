"""How the calls of a voice and of a face end: what their suites need to see it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, cast

import grpc

from tests.serving import Served, plain_channel

PATIENCE_S = 120
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Watched(Generic[Item]):
    """A back-end's answer, of which a test sees how much was taken, and when it was let go in the middle.

    Args:
        counted: Tells which items count.
    """

    def __init__(self, counted: Callable[[Item], bool]) -> None:
        self._counted = counted
        self._begun, self._closed = threading.Event(), threading.Event()
        self.count = 0

    def watch(self, items: Iterator[Item]) -> Iterator[Item]:
        """Passes the items on."""
        try:
            for item in items:
                self._begun.set()
                self.count += self._counted(item)
                yield item
        except GeneratorExit:
            self._closed.set()
            raise

    async def begun(self) -> None:
        """Waits until something was taken."""
        assert await asyncio.to_thread(self._begun.wait, PATIENCE_S), "nothing was taken"

    async def let_go(self) -> None:
        """Waits until nobody wants the rest."""
        assert await asyncio.to_thread(self._closed.wait, PATIENCE_S), "all was taken"


@asynccontextmanager
async def leaving(
    serving: AbstractAsyncContextManager[Served],
) -> AsyncIterator[tuple[grpc.aio.Channel, asyncio.Event]]:
    """Serves until the event is set, as a service does that is told to stop, on a channel that stays open."""
    stop, address = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with serving as served:
            address.set_result(served.address)
            await stop.wait()

    task = asyncio.create_task(serve())
    async with plain_channel(await address) as channel:
        yield channel, stop
    await task


async def read_until(call: grpc.aio.StreamStreamCall[Any, Answer], *kinds: str) -> Answer:
    """Reads until one of these parts of an answer comes, and returns it."""
    while (answer := cast("Any", await call.read())).WhichOneof("part") not in kinds:
        pass
    return cast("Answer", answer)
