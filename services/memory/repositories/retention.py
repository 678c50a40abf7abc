"""Retention rules of tenants, and the deletion of what is older."""

from dataclasses import asdict, fields

from sqlalchemy import ColumnElement, Table, delete, exists, or_, select, tuple_, update

from services.common.errors import InvalidRequest
from services.memory.database import Session
from services.memory.domain import Retention
from services.memory.schema import (
    audits,
    clips,
    conversations,
    derived_data,
    identities,
    requests,
    tenants,
    turns,
    users,
)
from services.memory.storage import Storage, ensure_tenant

DAYS_MAX = 36_500
"""Longest time: a hundred years."""

DAY_S = 86_400.0

EXPIRED_AT_ONCE = 1000
"""Rows that one transaction deletes: writers wait for no more."""

HOUR_S = 3600.0
"""No call takes so long: what is unfinished and older was left by a process that died."""


class Retentions:
    """Retention rules in `storage`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def get(self, tenant: str) -> Retention:
        """Return how long a tenant's things are kept: for ever, until it is set."""
        columns = [tenants.c[each.name] for each in fields(Retention)]
        found = select(*columns).where(tenants.c.tenant == tenant)
        row = await self._storage.read(tenant, lambda session: session.first(found))
        return Retention(*row) if row else Retention()

    async def set(self, tenant: str, retention: Retention) -> None:
        """Set how long a tenant's things are kept from now on.

        Raises:
            InvalidRequest: A number of days is too large.
        """
        for name, days in asdict(retention).items():
            if not 0 <= days <= DAYS_MAX:
                raise InvalidRequest(f"retention.{name}", f"{days} days; use 1 to {DAYS_MAX}, or 0 to set no end")

        async def work(session: Session) -> None:
            await ensure_tenant(session)
            await session.run(update(tenants).where(tenants.c.tenant == tenant).values(**asdict(retention)))

        await self._storage.write(tenant, work)

    async def expire(self) -> int:
        """Delete what is older than its tenant keeps it, and what processes left that died; return how many rows."""
        now_s = self._storage.clock()
        ruled = or_(*(tenants.c[each.name] > 0 for each in fields(Retention)))
        found = select(tenants.c.tenant, *(tenants.c[each.name] for each in fields(Retention))).where(ruled)
        rows = 0
        for row in await self._storage.rows("", found):
            for table, time, days in (
                (turns, turns.c.kept_at_s, row.turns_days),
                (clips, clips.c.created_at_s, row.clips_days),
                (derived_data, derived_data.c.created_at_s, row.derived_days),
                (audits, audits.c.done_at_s, row.audits_days),
            ):
                old = (table.c.tenant == row.tenant) & (time < now_s - days * DAY_S) & (time > 0)
                rows += await self._delete(table, old) if days else 0
        left_s = now_s - HOUR_S
        is_empty = ~exists().where(turns.c.conversation_id == conversations.c.id)
        await self._delete(conversations, is_empty & (conversations.c.created_at_s < left_s))
        is_silent = ~exists().where(conversations.c.user_id == users.c.id)
        await self._delete(users, is_silent & (users.c.created_at_s < left_s))
        await self._delete(identities, identities.c.name.is_(None) & (identities.c.created_at_s < left_s))
        await self._delete(requests, requests.c.done_at_s < now_s - DAY_S)
        return rows

    async def _delete(self, table: Table, old: ColumnElement[bool]) -> int:
        """Delete rows that match, some at a time; return how many."""
        keys = list(table.primary_key.columns)
        total = 0
        while True:

            async def work(session: Session) -> int:
                some = [tuple(row) for row in await session.rows(select(*keys).where(old).limit(EXPIRED_AT_ONCE))]
                return await session.run(delete(table).where(tuple_(*keys).in_(some))) if some else 0

            deleted = await self._storage.maintain(work)
            total += deleted
            if deleted < EXPIRED_AT_ONCE:
                return total
