"""Erasure of identities, users and tenants, and its records."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Table, delete, exists, func, insert, select, update

from services.common.errors import InvalidRequest, NotFound, NotReady, Overloaded
from services.memory import metrics
from services.memory.blobs import LISTED_AT_ONCE
from services.memory.checks import check_handle, check_id, check_line
from services.memory.database import Session
from services.memory.domain import TENANT_READY, Audit, Erased
from services.memory.schema import (
    audits,
    clips,
    conversations,
    derived_data,
    emotion_banks,
    emotion_references,
    examples,
    identities,
    identity_versions,
    outbox,
    ratings,
    reference_files,
    removed_identities,
    requests,
    tenants,
    turn_embeddings,
    turns,
    users,
)
from services.memory.storage import Storage, count, outcome, record

ASKED_BY_CHARS_MAX = 100

GONE_LATER_S = 70.0
"""Other services cache for a minute after their last use; ten seconds are for whoever tidies up."""

COPIES = "erasures/"
"""Below this, object storage has a copy of each record: a database restored from a backup is compared with it."""

COUNTS = TypeAdapter(tuple[Erased, ...])
AUDITS = TypeAdapter(Audit)


@dataclass(frozen=True)
class Subject:
    """What is erased: `ids` are those of its identities or users, `filters` the rows that go, by kind and table."""

    what: str
    ids: tuple[str, ...]
    filters: tuple[tuple[str, Table, ColumnElement[bool]], ...]
    root: tuple[Table, ColumnElement[bool]]


class Erasure:
    """Erases. A row that goes leaves the key of its object in the outbox, by a trigger; `drain` deletes the object.

    Args:
        storage: Where everything is.
        ready: Names of the identities that come with the project.
        keep_s: Seconds that replicas cache.
        drop: Drops what this replica caches of identities and users with these ids.
    """

    def __init__(
        self, storage: Storage, ready: Collection[str], keep_s: float, drop: Callable[[Collection[str]], None]
    ) -> None:
        self._storage, self._ready, self._keep_s, self._drop = storage, ready, keep_s, drop

    async def identity(self, tenant: str, name: str, asked_by: str) -> Audit:
        """Erase an identity with all that was kept of it.

        Raises:
            NotFound: It is unknown.
        """
        check_id("identity", name)
        return await self._erase(tenant, asked_by, lambda session: _identity(session, name))

    async def user(self, tenant: str, user: str, conversation: str, asked_by: str) -> Audit:
        """Erase a user with all that was kept of them, by any identity.

        Raises:
            NotFound: They are unknown.
        """
        if bool(user) == bool(conversation):
            problem = "name a person, or a conversation for somebody who is known in it only; one of the two"
            raise InvalidRequest("person", problem)
        check_handle(*(("person", user) if user else ("conversation", conversation)))
        kind, name = ("user", user) if user else ("conversation", conversation)
        return await self._erase(tenant, asked_by, lambda session: _user(session, kind, name))

    async def tenant(self, tenant: str, asked_by: str) -> Audit:
        """Erase a tenant with all that was kept of it, but the records of erasures.

        Raises:
            NotFound: It is unknown.
        """
        return await self._erase(tenant, asked_by, _tenant)

    async def page(self, tenant: str, page_size: int, after: str) -> tuple[list[Audit], str]:
        """Return records, the newest first, and what the next page is after."""
        columns = audits.c

        async def work(session: Session) -> Sequence[Any]:
            found = select(audits).where(columns.tenant == tenant)
            if after:
                begun_s = await session.scalar(select(columns.begun_at_s).where(columns.id == after[:32]))
                if begun_s is None:
                    raise InvalidRequest("page_token", f"{after[:80]!a} is none; use what the last page returned")
                older = (columns.begun_at_s < begun_s) | ((columns.begun_at_s == begun_s) & (columns.id < after))
                found = found.where(older)
            order = columns.begun_at_s.desc(), columns.id.desc()
            return await session.rows(found.order_by(*order).limit(page_size + 1))

        rows = await self._storage.read(tenant, work)
        return [_audit(row) for row in rows[:page_size]], rows[page_size - 1].id if len(rows) > page_size else ""

    async def drain(self) -> None:
        """Delete the objects of rows that are gone, and finish the records of erasures that waited for that."""
        while True:
            found = select(outbox.c.id, outbox.c.key).order_by(outbox.c.id).limit(LISTED_AT_ONCE)
            rows = await self._storage.rows("", found)
            metrics.OUTBOX.set(len(rows))
            if not rows:
                break
            await self._storage.media.delete([row.key for row in rows])
            done = delete(outbox).where(outbox.c.id.in_([row.id for row in rows]))
            await self._storage.run("", done)
        await self._storage.maintain(self._finish)
        await self._copy()

    async def replay(self, erased: Sequence[tuple[str, Sequence[str]]]) -> int:
        """Erase again what a restored backup brought back, given as tenants with ids; return the number of rows."""

        async def work(session: Session) -> int:
            rows = 0
            for tenant, ids in erased:
                for table in (identities, users, examples):
                    rows += await session.run(delete(table).where(table.c.tenant == tenant, table.c.id.in_(ids)))
            return rows

        return await self._storage.maintain(work)

    async def _erase(self, tenant: str, asked_by: str, find: Callable[[Session], Awaitable[Subject]]) -> Audit:
        check_id("tenant", tenant)
        check_line("asked_by", asked_by, ASKED_BY_CHARS_MAX)
        now_s = self._storage.clock()

        async def work(session: Session) -> tuple[str, tuple[str, ...]]:
            if (done := await outcome(session)) is not None:
                return done, ()
            subject = await find(session)
            counts = [await _counted(session, *each) for each in subject.filters]
            audit = Audit(
                uuid4().hex, subject.what, asked_by, now_s, counts=tuple(each for each in counts if each.objects)
            )
            await session.run(insert(audits).values(row_of(tenant, audit, subject.ids)))
            await session.run(delete(subject.root[0]).where(subject.root[1]))
            gone = [
                name for kind, _, name in (subject.what.partition(" "),) if kind == "identity" and name in self._ready
            ]
            if tenant == TENANT_READY and gone:
                await session.run(insert(removed_identities).values(tenant=tenant, name=gone[0]))
            if subject.root[0] is identities:  # Users who talked with nobody else are known no longer.
                talks = exists().where(conversations.c.user_id == users.c.id)
                await session.run(delete(users).where(users.c.tenant == tenant, users.c.id.in_(subject.ids), ~talks))
            if subject.root[0] is tenants:
                for table in (requests, removed_identities):
                    await session.run(delete(table).where(table.c.tenant == tenant))
            mine = outbox.c.tenant == tenant, outbox.c.audit_id.is_(None)
            await session.run(update(outbox).where(*mine).values(audit_id=audit.id))
            await record(session, audit.id, now_s)
            return audit.id, subject.ids

        audit_id, ids = await self._storage.write(tenant, work)
        self._drop(ids)
        with suppress(NotReady, Overloaded):  # The record stays open then; every replica's upkeep goes on.
            await self.drain()
        await self._storage.database.forget_deleted()
        found = select(audits).where(audits.c.tenant == tenant, audits.c.id == audit_id)
        return _audit(await self._storage.read(tenant, lambda session: session.first(found)))

    async def _finish(self, session: Session) -> None:
        now_s = self._storage.clock()
        waits = exists().where(outbox.c.audit_id == audits.c.id)
        gone_s = now_s + self._keep_s + GONE_LATER_S
        await session.run(
            update(audits).where(audits.c.done_at_s == 0, ~waits).values(done_at_s=now_s, caches_gone_by_s=gone_s)
        )

    async def _copy(self) -> None:
        """Copy finished records to object storage."""
        found = select(audits).where(audits.c.done_at_s > 0, audits.c.is_copied.is_(False)).limit(LISTED_AT_ONCE)
        for row in await self._storage.rows("", found):
            content = COPY.dump_json(Copy(row.tenant, _audit(row), tuple(row.erased_ids)))
            await self._storage.media.put(f"{COPIES}{row.tenant}/{row.id}", content)
            done = update(audits).where(audits.c.id == row.id).values(is_copied=True)
            await self._storage.run("", done)


@dataclass(frozen=True)
class Copy:
    """The copy of a record in object storage."""

    tenant: str
    audit: Audit
    erased_ids: tuple[str, ...]


COPY = TypeAdapter(Copy)


async def _identity(session: Session, name: str) -> Subject:
    columns = identities.c
    mine = columns.tenant == session.tenant, columns.name == name
    found = await session.scalar(select(columns.id).where(*mine).with_for_update())
    if found is None:
        raise NotFound(f"identity {name}: nothing is there to be erased")
    talks = conversations.c.identity_id == found
    mine_only = ~exists().where(conversations.c.user_id == users.c.id, conversations.c.identity_id != found)
    theirs = users.c.id.in_(select(conversations.c.user_id).where(talks)) & mine_only
    ids = [row[0] for row in await session.rows(select(users.c.id).where(theirs))]
    owned = (
        ("identities", identities),
        ("versions", identity_versions),
        ("references", reference_files),
        ("derived", derived_data),
        ("emotions", emotion_references),
        ("examples", examples),
    )
    filters = [
        (kind, table, (table.c.id if table is identities else table.c.identity_id) == found) for kind, table in owned
    ]
    return Subject(
        f"identity {name}", (found, *ids), (*filters, *_said(talks, theirs)), (identities, columns.id == found)
    )


async def _user(session: Session, kind: str, name: str) -> Subject:
    columns = users.c
    mine = columns.tenant == session.tenant, columns.kind == kind, columns.name == name
    found = await session.scalar(select(columns.id).where(*mine).with_for_update())
    what = f"{'person' if kind == 'user' else 'conversation'} {name}"
    if found is None:
        raise NotFound(f"{what}: nothing is there to be erased")
    filters = _said(conversations.c.user_id == found, columns.id == found)
    return Subject(what, (found,), filters, (users, columns.id == found))


async def _tenant(session: Session) -> Subject:
    mine = select(tenants.c.tenant).where(tenants.c.tenant == session.tenant).with_for_update()
    if await session.scalar(mine) is None:
        raise NotFound(f"tenant {session.tenant}: nothing is there to be erased")
    ids = [
        row[0]
        for table in (identities, users, examples)
        for row in await session.rows(select(table.c.id).where(table.c.tenant == session.tenant))
    ]
    kinds = {
        "identities": identities,
        "versions": identity_versions,
        "references": reference_files,
        "derived": derived_data,
        "emotions": emotion_references,
        "banks": emotion_banks,
        "examples": examples,
        "users": users,
        "conversations": conversations,
        "turns": turns,
        "embeddings": turn_embeddings,
        "ratings": ratings,
        "clips": clips,
    }
    filters = tuple((kind, table, table.c.tenant == session.tenant) for kind, table in kinds.items())
    return Subject(f"tenant {session.tenant}", tuple(ids), filters, (tenants, tenants.c.tenant == session.tenant))


def _said(
    talks: ColumnElement[bool], theirs: ColumnElement[bool]
) -> tuple[tuple[str, Table, ColumnElement[bool]], ...]:
    """Return what goes with these conversations and users."""
    of_talks = select(conversations.c.id).where(talks)
    of_turns = select(turns.c.pk).where(turns.c.conversation_id.in_(of_talks))
    return (
        ("users", users, theirs),
        ("conversations", conversations, talks),
        ("turns", turns, turns.c.conversation_id.in_(of_talks)),
        ("embeddings", turn_embeddings, turn_embeddings.c.turn_pk.in_(of_turns)),
        ("ratings", ratings, ratings.c.turn_pk.in_(of_turns)),
        ("clips", clips, clips.c.turn_pk.in_(of_turns)),
    )


async def _counted(session: Session, kind: str, table: Table, found: ColumnElement[bool]) -> Erased:
    rows = await count(session, table, found)
    size_bytes = 0
    if rows and "size_bytes" in table.c:
        size_bytes = int(await session.scalar(select(func.sum(table.c.size_bytes)).where(found)))
    return Erased(kind, rows, size_bytes)


def row_of(tenant: str, audit: Audit, ids: Sequence[str]) -> dict[str, Any]:
    """Return the row of a record."""
    values = {name: getattr(audit, name) for name in ("id", "what", "asked_by", "begun_at_s", "done_at_s")}
    counts = COUNTS.dump_python(audit.counts, mode="json")
    return {
        **values,
        "tenant": tenant,
        "counts": counts,
        "caches_gone_by_s": audit.caches_gone_by_s,
        "erased_ids": [*ids],
    }


def _audit(row: Any) -> Audit:
    names = ("id", "what", "asked_by", "begun_at_s", "done_at_s")
    values = {name: getattr(row, name) for name in names}
    return Audit(**values, counts=COUNTS.validate_python(row.counts), caches_gone_by_s=row.caches_gone_by_s)
