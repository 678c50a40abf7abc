"""The start of a replica, and its maintenance while it runs."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select, text, union_all, update

from services.common.errors import DeadlineExceeded, FailedPrecondition, NotReady, Overloaded, ServiceError
from services.memory import metrics
from services.memory.blobs import make_folder, refuse_old_folder
from services.memory.database import Session
from services.memory.memory import Memory
from services.memory.migrate import check_revision, migrate
from services.memory.repositories.erasure import COPIES
from services.memory.schema import MEDIA, examples, outbox, tasks, turn_embeddings, turns, users
from services.memory.settings import MemorySettings
from services.memory.storage import insert_new

log = logging.getLogger(__name__)

RETRY_S_MIN, RETRY_S_MAX = 0.5, 10.0
"""Wait before the next try of a start: it doubles from one to the other."""

TIDY_S, SWEEP_S = 5.0, 60.0
"""Time between two looks at the caches, and between two sweeps of a replica."""

HOURLY_S = 3600.0
"""Retention, orphans and embeddings of another model are looked for so often, by one replica."""

ORPHAN_S = 2 * 3600.0
"""An object without a row is no upload under way when it is older; clocks may differ by an hour."""

EMBEDDED_AT_ONCE = 64
"""Rows that one transaction embeds anew."""

INDEX_FROM = 5000
"""Embeddings of one user from which the approximate index pays: exact search of fewer takes a few milliseconds."""


class Upkeep:
    """Opens and maintains a memory.

    Args:
        settings: Where it is kept.
        memory: Which.
        orphan_s: Age from which an object without a row counts as left behind.
        index_from: Embeddings of one user from which they go into the approximate index.
    """

    def __init__(
        self, settings: MemorySettings, memory: Memory, orphan_s: float = ORPHAN_S, index_from: int = INDEX_FROM
    ) -> None:
        self._settings, self._memory = settings, memory
        self._orphan_s, self._index_from = orphan_s, index_from
        self._problem = "the memory is being opened; retry"

    def check_open(self) -> None:
        """Refuse calls that come too early.

        Raises:
            NotReady: The memory cannot be used yet; the message says why.
        """
        if self._problem:
            raise NotReady(self._problem)

    async def open(self) -> None:
        """Return when database and object storage answer, the schema fits, and the ready identities are there.

        Raises:
            FailedPrecondition: Something that waiting does not cure: a store of an earlier version, a role that
                row-level security does not bind.
        """
        retry_s = RETRY_S_MIN
        while True:
            try:
                await self.open_once()
            except (NotReady, DeadlineExceeded, Overloaded) as error:
                if str(error) != self._problem:
                    log.warning("not ready", extra={"why": str(error)})
                self._problem = str(error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)
            else:
                log.info("ready")
                return

    async def open_once(self) -> None:
        """Try to open the memory once."""
        database, media = self._memory.storage.database, self._memory.storage.media
        settings, is_embedded = self._settings, database.engine.dialect.name == "sqlite"
        if not (settings.s3_endpoint and settings.database_url.get_secret_value()):
            refuse_old_folder(settings.folder)
            make_folder(settings.folder)
        if is_embedded:
            await database.named(lambda: migrate(settings))
        await database.maintain(_check_database)
        await media.check()
        await self._memory.add_ready()
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
        memory = self._memory
        await memory.erasure.drain()
        if await self._is_due("expire"):
            metrics.EXPIRED_ROWS.inc(await memory.retentions.expire())
            await memory.erasure.drain()
            await memory.storage.database.forget_deleted()
        if await self._is_due("orphans"):
            await self.delete_orphans()
        if await self._is_due("embeddings"):
            await self.embed_anew()
            await self.index()

    async def delete_orphans(self) -> int:
        """Delete objects that no row names and that no upload can still be writing; return how many."""
        storage, deleted = self._memory.storage, 0
        async for entries in storage.media.list(""):
            old_s = storage.clock() - self._orphan_s
            keys = [each.key for each in entries if not each.key.startswith(COPIES) and each.modified_s < old_s]
            named = union_all(*(select(table.c.key).where(table.c.key.in_(keys)) for table in (*MEDIA, outbox)))
            known = {row[0] for row in await storage.rows("", named)}
            orphans = [key for key in keys if key not in known]
            await storage.media.delete(orphans)
            deleted += len(orphans)
        if deleted:
            log.info("orphans deleted", extra={"objects": deleted})
        return deleted

    async def embed_anew(self) -> int:
        """Embed texts whose vectors another model made, the newest first; return how many."""
        storage, digest, done = self._memory.storage, self._memory.embedding.digest, 0
        of_turns = (
            select(turn_embeddings, turns.c.user_text)
            .join_from(turn_embeddings, turns, turns.c.pk == turn_embeddings.c.turn_pk)
            .where(turn_embeddings.c.model_digest != digest)
            .order_by(turn_embeddings.c.said_at_s.desc())
        )
        of_examples = select(examples).where(examples.c.model_digest != digest)
        for table, key, found in (
            (turn_embeddings, turn_embeddings.c.turn_pk, of_turns),
            (examples, examples.c.id, of_examples),
        ):
            while rows := await storage.rows("", found.limit(EMBEDDED_AT_ONCE)):
                vectors = await self._memory.embedding.of_all([row.user_text for row in rows])
                new = [
                    {column.name: getattr(row, column.name) for column in table.c}
                    | {
                        "vector": vector,
                        "model_digest": digest,
                        **({"is_indexed": False} if table is turn_embeddings else {}),
                    }
                    for row, vector in zip(rows, vectors, strict=True)
                ]

                async def work(session: Session, new: Sequence[dict[str, Any]] = new) -> None:
                    # Deleted and inserted, so that the counters by which matrices are cached see it.
                    keys = [row[key.name] for row in new]  # noqa: B023
                    there = {row[0] for row in await session.rows(select(key).where(key.in_(keys)))}  # noqa: B023
                    await session.run(delete(table).where(key.in_(keys)))  # noqa: B023
                    if kept := [row for row in new if row[key.name] in there]:  # noqa: B023
                        await session.run(insert(table), kept)  # noqa: B023

                await storage.maintain(work)
                done += len(rows)
        return done

    async def index(self) -> None:
        """On PostgreSQL, put the embeddings of users with many turns into the approximate index."""
        storage, columns = self._memory.storage, turn_embeddings.c
        if storage.database.engine.dialect.name != "postgresql":
            return
        many = text(
            "SELECT user_id FROM turn_embeddings WHERE NOT is_indexed GROUP BY user_id HAVING count(*) >= :least"
        ).bindparams(least=self._index_from)
        for (user_id,) in await storage.rows("", many):
            some = (
                select(columns.turn_pk)
                .where(columns.user_id == user_id, columns.is_indexed.is_(False), columns.vector.is_not(None))
                .limit(1000)
            )
            add = update(turn_embeddings).where(columns.turn_pk.in_(some)).values(is_indexed=True)
            mark = update(users).where(users.c.id == user_id).values(is_indexed=True)
            while await storage.run("", add):
                pass
            await storage.run("", mark)

    async def _is_due(self, task: str) -> bool:
        """Take an hourly task; of several replicas one gets it."""
        now_s = self._memory.storage.clock()

        async def work(session: Session) -> bool:
            await insert_new(session, tasks, {"name": task, "taken_at_s": 0.0})
            due = update(tasks).where(tasks.c.name == task, tasks.c.taken_at_s <= now_s - HOURLY_S)
            return bool(await session.run(due.values(taken_at_s=now_s)))

        return await self._memory.storage.maintain(work)


async def _check_database(session: Session) -> None:
    """Check schema and role.

    Raises:
        NotReady: The schema is older than this version.
        FailedPrecondition: Row-level security does not bind the role.
    """
    await session.connection.run_sync(check_revision)
    if not session.is_postgresql:
        return
    role = await session.first(
        text(
            "SELECT rolname, rolsuper OR rolbypassrls AS is_free, EXISTS (SELECT FROM pg_tables"
            " WHERE tableowner = current_user AND tablename = 'turns') AS is_owner"
            " FROM pg_roles WHERE rolname = current_user"
        )
    )
    if role and (role.is_free or role.is_owner):
        why = "is a superuser or bypasses row-level security" if role.is_free else "owns the tables"
        problem = (
            f"E3RG_MEMORY_DATABASE_URL: role {role.rolname!r} {why}, so tenants would be kept apart by queries only"
        )
        raise FailedPrecondition(
            f"{problem}; use a role that owns nothing, and E3RG_MEMORY_MIGRATION_URL for the owner"
        )
