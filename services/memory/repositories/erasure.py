"""Erasure of identities, users and tenants, and its records."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Table, delete, exists, func, literal, select, tuple_, union_all, update

from services.common.errors import InvalidRequest, NotFound, ServiceError
from services.memory import metrics
from services.memory.blobs import LISTED_AT_ONCE
from services.memory.checks import check_handle, check_id, check_line
from services.memory.domain import TENANT_READY, Audit, Erased
from services.memory.repositories.pages import page_of
from services.memory.schema import (
    assignments,
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
    scores,
    tenants,
    turn_embeddings,
    turns,
    users,
)
from services.memory.session import Session, by, read_as
from services.memory.storage import Storage, reading, writing

GONE_LATER_S = 70.0
"""Other services cache for a minute after their last use; ten seconds are for whoever tidies up."""

COPIES = "erasures/"
"""Below this, object storage has a copy of each record: a database restored from a backup is compared with it."""

_OWNED = {
    "versions": identity_versions,
    "references": reference_files,
    "derived": derived_data,
    "emotions": emotion_references,
    "examples": examples,
}
_SAID = {"turns": turns, "embeddings": turn_embeddings, "ratings": ratings, "scores": scores, "clips": clips}
_Filters = dict[str, tuple[Table, ColumnElement[bool]]]


@dataclass(frozen=True)
class Copy:
    """The copy of a record in object storage; the ids are those of erased identities, users and examples."""

    tenant: str
    audit: Audit
    erased_ids: tuple[str, ...]


COPY = TypeAdapter(Copy)


@dataclass(frozen=True)
class _Subject:
    """Subject of an erasure: its ids, the row whose deletion cascades to all of it, and its other rows by kind."""

    what: str
    ids: tuple[str, ...]
    root: tuple[Table, ColumnElement[bool]]
    filters: _Filters


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
        self.storage, self._ready, self._keep_s, self._drop = storage, ready, keep_s, drop

    async def identity(self, tenant: str, name: str, asked_by: str) -> Audit:
        """Erase an identity with all that was kept of it; `NotFound` when it is unknown."""
        check_id("identity", name)
        return await self._erase(tenant, asked_by, lambda session: _identity(session, name))

    async def user(self, tenant: str, user: str, conversation: str, asked_by: str) -> Audit:
        """Erase a user with all that was kept of them, by any identity; `NotFound` when they are unknown."""
        if bool(user) == bool(conversation):
            problem = "name a person, or a conversation for somebody who is known in it only; one of the two"
            raise InvalidRequest("person", problem)
        kind, name = ("user", user) if user else ("conversation", conversation)
        check_handle("person" if user else kind, name)
        return await self._erase(tenant, asked_by, lambda session: _user(session, kind, name))

    async def tenant(self, tenant: str, asked_by: str) -> Audit:
        """Erase a tenant with all that was kept of it, but the records of erasures; `NotFound` when it is unknown."""
        return await self._erase(tenant, asked_by, _tenant)

    @reading
    async def page(self, session: Session, page_size: int, after: str) -> tuple[list[Audit], str]:
        """Return records, the newest first, and what the next page is after."""
        begun_at_s, key = audits.c.begun_at_s, audits.c.id
        found = select(audits).where(session.mine(audits)).order_by(begun_at_s.desc(), key.desc())
        if after:
            if not after.isalnum() or (last := await session.find(audits, id=after[:32])) is None:
                raise InvalidRequest("page_token", f"{after[:80]!a} is none; use what the last page returned")
            found = found.where(tuple_(begun_at_s, key) < (last.begun_at_s, last.id))
        rows = await session.rows(found.limit(page_size + 1))
        return page_of([read_as(Audit, row) for row in rows], page_size, lambda audit: audit.id)

    async def drain(self) -> None:
        """Delete the objects of rows that are gone, and finish the records of erasures that waited for that."""
        found = select(outbox.c.id, outbox.c.key).order_by(outbox.c.id).limit(LISTED_AT_ONCE)
        while rows := await self.storage.rows("", found):
            metrics.OUTBOX.set(len(rows))
            await self.storage.media.delete([row.key for row in rows])
            await self.storage.run("", delete(outbox).where(outbox.c.id.in_([row.id for row in rows])))
        metrics.OUTBOX.set(0)
        now_s = self.storage.clock()
        waits, gone_s = exists().where(outbox.c.audit_id == audits.c.id), now_s + self._keep_s + GONE_LATER_S
        open_ = update(audits).where(audits.c.done_at_s == 0, ~waits)
        await self.storage.run("", open_.values(done_at_s=now_s, caches_gone_by_s=gone_s))
        new = select(audits).where(audits.c.done_at_s > 0, audits.c.is_copied.is_(False)).limit(LISTED_AT_ONCE)
        for row in await self.storage.rows("", new):
            copy = Copy(row.tenant, read_as(Audit, row), tuple(row.erased_ids))
            await self.storage.media.put(f"{COPIES}{row.tenant}/{row.id}", COPY.dump_json(copy))
            await self.storage.run("", update(audits).where(audits.c.id == row.id).values(is_copied=True))

    @writing
    async def replay(self, session: Session, copies: Sequence[Copy]) -> None:
        """Erase again what a restored backup brought back, and insert the records that it lacks; of no tenant."""
        for copy in copies:
            for table, is_back in brought_back(copy):
                await session.run(delete(table).where(is_back))
            kind, _, name = copy.audit.what.partition(" ")
            if kind == "identity" and copy.tenant == TENANT_READY:
                await session.add_new(removed_identities, tenant=copy.tenant, name=name)
            await session.add_new(audits, **row_of(copy))

    async def _erase(self, tenant: str, asked_by: str, find: Callable[[Session], Awaitable[_Subject]]) -> Audit:
        check_line("asked_by", asked_by, 100)
        now_s = self.storage.clock()

        async def work(session: Session) -> tuple[str, tuple[str, ...]]:
            if done := await session.outcome():
                return done, ()
            subject = await find(session)
            counts = [await _counted(session, kind, *each) for kind, each in subject.filters.items()]
            counted = tuple(each for each in counts if each.objects)
            audit = Audit(uuid4().hex, subject.what, asked_by, now_s, counts=counted)
            await session.add_new(audits, **row_of(Copy(tenant, audit, subject.ids)))
            table, root = subject.root
            await session.run(delete(table).where(root))
            kind, _, name = subject.what.partition(" ")
            if kind == "identity" and tenant == TENANT_READY and name in self._ready:
                await session.add_new(removed_identities, tenant=tenant, name=name)
            if kind == "identity":  # Users who talked with nobody else are known no longer.
                talks = exists().where(conversations.c.user_id == users.c.id)
                await session.drop(users, users.c.id.in_(subject.ids), ~talks)
            if kind == "tenant":
                await session.drop(requests)
                await session.drop(removed_identities)
            await session.change(outbox, session.mine(outbox, audit_id=None), audit_id=audit.id)
            await session.record(audit.id, now_s)
            return audit.id, subject.ids

        audit_id, ids = await self.storage.write(tenant, work)
        self._drop(ids)
        with suppress(ServiceError):  # The record stays open then; every replica's upkeep goes on.
            await self.drain()
        await self.storage.database.forget_deleted()
        return read_as(Audit, await self.storage.read(tenant, lambda session: session.find(audits, id=audit_id)))


async def _identity(session: Session, name: str) -> _Subject:
    if (found := await session.find_to_delete(identities, name=name)) is None:
        raise NotFound(f"identity {name}: nothing is there to be erased")
    talks = conversations.c.identity_id == found.id
    others = exists().where(conversations.c.user_id == users.c.id, conversations.c.identity_id != found.id)
    theirs = users.c.id.in_(select(conversations.c.user_id).where(talks)) & ~others
    # Locked: whoever begins to talk with another identity now waits, and becomes known anew.
    ids = await session.rows(select(users.c.id).where(theirs).with_for_update())
    owned = {kind: (table, table.c.identity_id == found.id) for kind, table in _OWNED.items()}
    root = identities, identities.c.id == found.id
    filters = {"identities": root, **owned, **_said(talks, theirs)}
    return _Subject(f"identity {name}", (found.id, *(row[0] for row in ids)), root, filters)


async def _user(session: Session, kind: str, name: str) -> _Subject:
    what = f"{'person' if kind == 'user' else 'conversation'} {name}"
    if (found := await session.find_to_delete(users, kind=kind, name=name)) is None:
        raise NotFound(f"{what}: nothing is there to be erased")
    filters = _said(conversations.c.user_id == found.id, users.c.id == found.id)
    return _Subject(what, (found.id,), filters["users"], filters)


async def _tenant(session: Session) -> _Subject:
    if await session.find_to_delete(tenants) is None:
        raise NotFound(f"tenant {session.tenant}: nothing is there to be erased")
    kinds = {"identities": identities, **_OWNED, "banks": emotion_banks, "users": users, "assignments": assignments}
    said = {"conversations": conversations, **_SAID}
    filters = {kind: (table, session.mine(table)) for kind, table in {**kinds, **said}.items()}
    named = (select(table.c.id).where(session.mine(table)) for table in (identities, users, examples))
    ids = await session.rows(union_all(*named))
    root = tenants, session.mine(tenants)
    return _Subject(f"tenant {session.tenant}", tuple(row[0] for row in ids), root, filters)


def _said(talks: ColumnElement[bool], theirs: ColumnElement[bool]) -> _Filters:
    """Return what goes with these conversations and users."""
    of_talks = turns.c.conversation_id.in_(select(conversations.c.id).where(talks))
    of_turns = select(turns.c.pk).where(of_talks)
    said = {kind: (table, table.c.turn_pk.in_(of_turns)) for kind, table in _SAID.items() if table is not turns}
    assigned = assignments, assignments.c.user_id.in_(select(users.c.id).where(theirs))
    talked = {"conversations": (conversations, talks), "turns": (turns, of_talks), **said}
    return {"users": (users, theirs), "assignments": assigned, **talked}


def brought_back(copy: Copy) -> list[tuple[Table, ColumnElement[bool]]]:
    """Return the tables and conditions of rows that a restored backup brings back; what refers to them goes along."""
    found: list[tuple[Table, ColumnElement[bool]]] = [
        (table, by(table, tenant=copy.tenant) & table.c.id.in_(copy.erased_ids))
        for table in (identities, users, examples)
    ]
    if copy.audit.what == f"tenant {copy.tenant}":  # Its own emotional references have no id.
        is_older = emotion_references.c.created_at_s < copy.audit.begun_at_s
        found.append((emotion_references, by(emotion_references, tenant=copy.tenant, identity_id=None) & is_older))
    return found


async def _counted(session: Session, kind: str, table: Table, found: ColumnElement[bool]) -> Erased:
    size = func.coalesce(func.sum(table.c.size_bytes), 0) if "size_bytes" in table.c else literal(0)
    (row,) = await session.rows(select(func.count(), size).select_from(table).where(found))
    return Erased(kind, row[0], int(row[1]))


def row_of(copy: Copy) -> dict[str, Any]:
    """Return the row of a record."""
    document = COPY.dump_python(copy, mode="json")
    return {"tenant": copy.tenant, "erased_ids": document["erased_ids"], **document["audit"]}
