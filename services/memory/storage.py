"""Rows and the objects that they name, written in the order that leaves neither without the other."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from services.common.errors import DeadlineExceeded, NotReady
from services.memory.blobs import Media, new_key
from services.memory.database import Database, Works
from services.memory.domain import digest_of
from services.memory.session import Session

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

Columns = dict[str, Any]
Keeping = Callable[[Session, Sequence[Columns]], Awaitable[Result]]


class Storage:
    """Database and object storage; `clock` tells the Unix time."""

    def __init__(self, database: Database, media: Media, clock: Callable[[], float] = time.time) -> None:
        self.database, self.media, self.clock = database, media, clock
        self.read, self.write = database.read, database.write
        self.rows, self.run = database.rows, database.run
        self._works = Works()
        self.finished = self._works.finished

    async def keep(self, tenant: str, owner: str, contents: Sequence[bytes], work: Keeping[Result]) -> Result:
        """Write contents as objects of an owner ("identities/<id>"), then the rows that name them.

        `work` is given the columns of such a row for each. Objects without rows go again, at the latest with a sweep.
        """
        return await self.finished(self._keep(tenant, owner, contents, work))

    async def close(self) -> None:
        """Close the connections, once the works of cancelled callers have ended too; what is kept stays."""
        await self._works.ended()
        self.media.close()
        await self.database.close()

    async def _keep(self, tenant: str, owner: str, contents: Sequence[bytes], work: Keeping[Result]) -> Result:
        media: list[Columns] = []
        for content in contents:
            digest = digest_of(content)
            key = new_key(tenant, owner, digest)
            media.append({"key": key, "digest": digest, "size_bytes": len(content), "created_at_s": self.clock()})
        try:
            for columns, content in zip(media, contents, strict=True):
                await self.media.put(columns["key"], content)
            return await self.write(tenant, lambda session: work(session, media))
        except (NotReady, DeadlineExceeded):
            raise  # The rows may be there.
        except Exception:
            await self.media.discard([columns["key"] for columns in media])
            raise


Method = Callable[Concatenate[Any, Session, Arguments], Awaitable[Result]]
Transaction = Callable[Concatenate[Any, str, Arguments], Coroutine[Any, Any, Result]]


def reading(method: Method[Arguments, Result]) -> Transaction[Arguments, Result]:
    """Run a repository's method in a reading transaction; callers name a tenant where it takes a session."""

    @wraps(method)
    async def run(self: Any, tenant: str, /, *args: Arguments.args, **options: Arguments.kwargs) -> Any:
        return await self.storage.read(tenant, lambda session: method(self, session, *args, **options))

    return run


def writing(method: Method[Arguments, Result]) -> Transaction[Arguments, Result]:
    """Run a repository's method in a writing transaction; callers name a tenant where it takes a session."""

    @wraps(method)
    async def run(self: Any, tenant: str, /, *args: Arguments.args, **options: Arguments.kwargs) -> Any:
        return await self.storage.write(tenant, lambda session: method(self, session, *args, **options))

    return run
