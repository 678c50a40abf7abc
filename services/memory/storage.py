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

    async def keep(
        self, tenant: str, objects: Sequence[tuple[str, bytes]], work: Callable[[Session], Awaitable[Result]]
    ) -> Result:
        """Write objects, then the rows that name them; objects without rows go again, at the latest with a sweep."""
        return await finished(self._keep(tenant, objects, work))

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


async def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what `work` returns. When the caller is cancelled, however often, wait for its end: nothing is unseen."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):  # gRPC cancels a call twice that is reading when its caller goes.
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # Nobody else wants it any more.
        raise
