"""Rows and the objects that they name, written in the order that leaves neither without the other."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from services.common.errors import DeadlineExceeded, NotReady
from services.memory.blobs import Media
from services.memory.database import Database
from services.memory.session import Session

Result = TypeVar("Result")


class Storage:
    """Database and object storage; `clock` tells the Unix time."""

    def __init__(self, database: Database, media: Media, clock: Callable[[], float] = time.time) -> None:
        self.database, self.media, self.clock = database, media, clock
        self.read, self.write = database.read, database.write
        self.rows, self.run = database.rows, database.run
        self._works: set[asyncio.Task[Any]] = set()

    async def keep(
        self, tenant: str, objects: Sequence[tuple[str, bytes]], work: Callable[[Session], Awaitable[Result]]
    ) -> Result:
        """Write objects, then the rows that name them; objects without rows go again, at the latest with a sweep."""
        return await self.finished(self._keep(tenant, objects, work))

    async def finished(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return what `work` returns. When the caller is cancelled, however often, its end is waited for first."""
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):  # gRPC cancels a call twice that is reading.
                    await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # Nobody else wants it any more.
            raise

    async def close(self) -> None:
        """Close the connections, once the works of cancelled callers have ended too; what is kept stays."""
        while self._works:
            await asyncio.wait(self._works)
        self.media.close()
        await self.database.close()

    async def _keep(
        self, tenant: str, objects: Sequence[tuple[str, bytes]], work: Callable[[Session], Awaitable[Result]]
    ) -> Result:
        try:
            for key, content in objects:
                await self.media.put(key, content)
            return await self.write(tenant, work)
        except (NotReady, DeadlineExceeded):
            raise  # The rows may be there.
        except Exception:
            await self.media.discard([key for key, _ in objects])
            raise
