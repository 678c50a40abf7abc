"""The start of a replica, and its maintenance while it runs."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, text, union_all, update

from services.common.errors import DeadlineExceeded, FailedPrecondition, NotReady, Overloaded, ServiceError
from services.memory import metrics
from services.memory.blobs import make_folder, refuse_old_folder
from services.memory.domain import TENANT_READY
from services.memory.memory import Memory
from services.memory.migrate import check_revision, migrate
from services.memory.pairing import MARK, check_pair
from services.memory.repositories.erasure import COPIES
from services.memory.schema import MEDIA, examples, outbox, tasks, turn_embeddings, turns, users
from services.memory.session import Session, by
from services.memory.settings import MemorySettings

RETRY_S_MIN, RETRY_S_MAX = 0.5, 10.0
"""Wait before the next try of a start: it doubles from one to the other."""

TIDY_S, SWEEP_S, HOURLY_S = 5.0, 60.0, 3600.0
"""Time between two looks at the caches, two sweeps of a replica, and two tasks that one replica does."""

ORPHAN_S = 2 * 3600.0
"""An object without a row is no upload under way when it is older; clocks may differ by an hour."""

EMBEDDED_AT_ONCE, INDEXED_AT_ONCE = 64, 1000
"""Rows that one transaction embeds anew, or puts into the approximate index."""

INDEX_FROM = 5000
"""Embeddings of one user from which the approximate index pays: exact search of fewer takes a few milliseconds."""

_ROLE = text(
    "SELECT rolname, rolsuper OR rolbypassrls AS is_free, EXISTS (SELECT FROM pg_tables WHERE tableowner = current_user"
    " AND tablename = 'turns') AS is_owner FROM pg_roles WHERE rolname = current_user"
)

log = logging.getLogger(__name__)


class Upkeep:
    """Opens and maintains a memory; see the constants for `orphan_s` and `index_from`."""

    def __init__(
        self, settings: MemorySettings, memory: Memory, orphan_s: float = ORPHAN_S, index_from: int = INDEX_FROM
    ) -> None:
        self._settings, self._memory, self._storage = settings, memory, memory.storage
        self._orphan_s, self._index_from = orphan_s, index_from
        self._problem = "the memory is being opened; retry"

    def check_open(self) -> None:
        """Refuse calls that come too early; `NotReady` says why."""
        if self._problem:
            raise NotReady(self._problem)

    async def open(self) -> None:
        """Return when database and object storage answer, the schema fits, and the ready identities are there.

        Raises:
            FailedPrecondition: Something that waiting does not cure: a store of an earlier version, a role that
                row-level security does not bind.
        """
        retry_s = RETRY_S_MIN
        while self._problem:
            try:
                await self.open_once()
            except (NotReady, DeadlineExceeded, Overloaded) as error:
                if str(error) != self._problem:
                    log.warning("not ready", extra={"why": str(error)})
                self._problem = str(error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)
        log.info("ready")

    async def open_once(self) -> None:
        """Try to open the memory once."""
        settings, database = self._settings, self._storage.database
        if not (settings.s3_endpoint and settings.database_url.get_secret_value()):
            refuse_old_folder(settings.folder)
            make_folder(settings.folder)
        if database.is_embedded:
            await database.tried(lambda: migrate(settings))
        await database.read("", _check_database)
        await self._storage.media.check()
        await check_pair(self._storage)
        await self._memory.identities.add_ready(TENANT_READY, self._memory.ready)
        self._problem = ""

    async def run(self) -> None:
        """Maintain the memory until cancelled. A sweep that fails is logged, and made again."""
        next_s = 0.0
        while True:
            self._memory.tidy()
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + SWEEP_S * random.uniform(0.8, 1.2)  # Replicas shall not sweep at once.
                try:
                    await self.sweep()
                except Exception as error:
                    metrics.SWEEPS.labels("failed").inc()
                    log.warning("no sweep", extra={"why": str(error)}, exc_info=not isinstance(error, ServiceError))
                else:
                    metrics.SWEEPS.labels("ok").inc()
            await asyncio.sleep(TIDY_S)

    async def sweep(self) -> None:
        """Delete objects whose rows are gone; hourly also what is too old, orphans, and embeddings of other models."""
        expired = await self._memory.risks.expire()
        expired += await self._memory.retentions.expire() if await self._is_due("expire") else 0
        metrics.EXPIRED_ROWS.inc(expired)
        await self._memory.erasure.drain()
        if expired or not self._storage.database.is_rewritten:
            await self._storage.database.forget_deleted()
        if await self._is_due("orphans"):
            await self.delete_orphans()
        if await self._is_due("embeddings"):
            await self.embed_anew()
            await self.index()

    async def delete_orphans(self) -> int:
        """Delete objects that no row names and that no upload can still be writing; return how many."""
        deleted, old_s = 0, self._storage.clock() - self._orphan_s
        async for entries in self._storage.media.list(""):
            old = [each.key for each in entries if each.modified_s < old_s]
            keys = [key for key in old if key != MARK and not key.startswith(COPIES)]
            named = union_all(*(select(table.c.key).where(table.c.key.in_(keys)) for table in (*MEDIA, outbox)))
            known = {row[0] for row in await self._storage.rows("", named)}
            await self._storage.media.delete(orphans := [key for key in keys if key not in known])
            deleted += len(orphans)
        if deleted:
            log.info("orphans deleted", extra={"objects": deleted})
        return deleted

    async def embed_anew(self) -> int:
        """Embed texts whose vectors another model made, the newest first; return how many."""
        joined = turn_embeddings.join(turns, turns.c.pk == turn_embeddings.c.turn_pk)
        of_turns = select(turn_embeddings, turns.c.user_text).select_from(joined)
        of_turns = of_turns.order_by(turn_embeddings.c.said_at_s.desc())
        done = await self._embed(turn_embeddings, of_turns, is_indexed=False)
        return done + await self._embed(examples, select(examples))

    async def _embed(self, table: Any, found: Any, **changes: Any) -> int:
        embedding, (key,), done = self._memory.embedding, table.primary_key.columns, 0
        found = found.where(table.c.model_digest != embedding.digest).limit(EMBEDDED_AT_ONCE)
        while rows := await self._storage.rows("", found):
            vectors = await embedding.of_all([row.user_text for row in rows])
            names = [column.name for column in table.c]
            new = [
                {**{name: getattr(row, name) for name in names}, "vector": vector, "model_digest": embedding.digest}
                for row, vector in zip(rows, vectors, strict=True)
            ]

            async def work(session: Session, new: Sequence[dict[str, Any]] = new) -> None:
                # Deleted and inserted, so that the counters by which matrices are cached see it.
                for row in new:
                    if await session.run(delete(table).where(key == row[key.name])):
                        await session.run(insert(table).values(row | changes))

            await self._storage.write("", work)
            done += len(rows)
        return done

    async def index(self) -> None:
        """On PostgreSQL, put the embeddings of users with many turns into the approximate index."""
        columns = turn_embeddings.c
        if self._storage.database.is_embedded:
            return
        open_ = columns.is_indexed.is_(False) & columns.vector.is_not(None)
        many = select(columns.user_id).where(open_).group_by(columns.user_id).having(func.count() >= self._index_from)
        for (user_id,) in await self._storage.rows("", many):
            some = select(columns.turn_pk).where(columns.user_id == user_id, open_).limit(INDEXED_AT_ONCE)
            add = update(turn_embeddings).where(columns.turn_pk.in_(some)).values(is_indexed=True)
            while await self._storage.run("", add):
                pass
            await self._storage.run("", update(users).where(by(users, id=user_id)).values(is_indexed=True))

    async def _is_due(self, task: str) -> bool:
        """Take an hourly task; of several replicas one gets it."""
        now_s = self._storage.clock()

        async def work(session: Session) -> bool:
            await session.add_new(tasks, name=task, taken_at_s=0.0)
            due = by(tasks, name=task) & (tasks.c.taken_at_s <= now_s - HOURLY_S)
            return bool(await session.change(tasks, due, taken_at_s=now_s))

        return await self._storage.write("", work)


async def _check_database(session: Session) -> None:
    """Refuse an older schema, and on PostgreSQL a role that row-level security does not bind."""
    await session.connection.run_sync(check_revision)
    if session.is_postgresql:
        (role,) = await session.rows(_ROLE)
        if role.is_free or role.is_owner:
            why = "is a superuser or bypasses row-level security" if role.is_free else "owns the tables"
            problem = f"role {role.rolname!r} {why}, so tenants would be kept apart by queries only"
            remedy = "use a role that owns nothing, and E3RG_MEMORY_MIGRATION_URL for the owner"
            raise FailedPrecondition(f"E3RG_MEMORY_DATABASE_URL: {problem}; {remedy}")
