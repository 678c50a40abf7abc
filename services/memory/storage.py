"""Rows and the objects that they name, written in the order that leaves neither without the other."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Executable, Row, Table, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from services.common.errors import DeadlineExceeded, NotReady
from services.memory.blobs import Media
from services.memory.database import Database, Session
from services.memory.schema import requests, tenants

Result = TypeVar("Result")


class Storage:
    """The database and the object storage.

    Args:
        database: Facts.
        media: Objects.
        clock: Unix time.
    """

    def __init__(self, database: Database, media: Media, clock: Callable[[], float] = time.time) -> None:
        self.database, self.media, self.clock = database, media, clock
        self.read, self.write, self.maintain = database.read, database.write, database.maintain

    async def rows(self, tenant: str, statement: Executable) -> Sequence[Row[Any]]:
        """Return the rows of one statement; without a tenant, those of all."""
        return await self.read(tenant, lambda session: session.rows(statement))

    async def run(self, tenant: str, statement: Executable) -> int:
        """Run one writing statement and return the number of rows that it changed."""
        return await self.write(tenant, lambda session: session.run(statement))

    async def keep(
        self, tenant: str, objects: Sequence[tuple[str, bytes]], work: Callable[[Session], Awaitable[Result]]
    ) -> Result:
        """Write objects, then the rows that name them; objects without rows go again, at the latest with a sweep."""
        try:
            for key, content in objects:
                await self.media.put(key, content)
            return await self.write(tenant, work)
        except (NotReady, DeadlineExceeded):
            raise  # The rows may be there.
        except Exception:
            await self.media.discard([key for key, _ in objects])
            raise


async def insert_new(session: Session, table: Table, values: dict[str, Any] | Sequence[dict[str, Any]]) -> int:
    """Insert rows that are not there yet by any unique constraint; return how many were new."""
    dialect = postgresql if session.is_postgresql else sqlite
    statement = dialect.insert(table).values(values).on_conflict_do_nothing()
    return await session.run(statement)


async def ensure_tenant(session: Session) -> None:
    """Insert the tenant of the session when it has no row yet."""
    await insert_new(session, tenants, {"tenant": session.tenant})


async def outcome(session: Session) -> Any:
    """Return the outcome of this write when it was committed before; None the first time."""
    found = requests.c.tenant == session.tenant, requests.c.key == session.key
    return await session.scalar(select(requests.c.outcome).where(*found))


async def record(session: Session, value: Any, now_s: float) -> None:
    """Record the outcome of this write; it holds ids and numbers, nothing that an erasure would have to find."""
    values = {"tenant": session.tenant, "key": session.key, "outcome": value, "done_at_s": now_s}
    await session.run(insert(requests).values(**values))


async def count(session: Session, table: Table, *filters: Any) -> int:
    """Return the number of rows that match."""
    return int(await session.scalar(select(func.count()).select_from(table).where(*filters)))
