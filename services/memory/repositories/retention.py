"""Retention rules of tenants, and the deletion of what is older."""

from dataclasses import asdict, fields

from sqlalchemy import ColumnElement, Table, delete, exists, or_, select, tuple_

from services.memory.checks import check
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
from services.memory.session import Session, read_as
from services.memory.storage import Storage, reading, writing

DAY_S, HOUR_S = 86_400.0, 3600.0
"""No call takes an hour: what is unfinished and older was left by a process that died."""

EXPIRED_AT_ONCE = 1000
"""Rows that one transaction deletes: writers wait for no more."""


class Retentions:
    """Retention rules."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @reading
    async def get(self, session: Session) -> Retention:
        """Return how long a tenant's things are kept: for ever, until it is set."""
        row = await session.find(tenants)
        return read_as(Retention, row) if row else Retention()

    @writing
    async def set(self, session: Session, retention: Retention) -> None:
        """Set how long a tenant's things are kept from now on."""
        check("retention", retention)
        await session.ensure_tenant()
        await session.change(tenants, session.mine(tenants), **asdict(retention))

    async def expire(self) -> int:
        """Delete what is older than its tenant keeps it, and what processes left that died; return how many rows."""
        now_s, rows = self.storage.clock(), 0
        ruled = select(tenants).where(or_(*(tenants.c[each.name] > 0 for each in fields(Retention))))
        for row in await self.storage.rows("", ruled):
            for table, time_s, days in (
                (turns, turns.c.kept_at_s, row.turns_days),
                (clips, clips.c.created_at_s, row.clips_days),
                (derived_data, derived_data.c.created_at_s, row.derived_days),
                (audits, audits.c.done_at_s, row.audits_days),
            ):
                old = (table.c.tenant == row.tenant) & (time_s < now_s - days * DAY_S) & (time_s > 0)
                rows += await self._delete(table, old) if days else 0
        left_s = now_s - HOUR_S
        await self._delete(identities, identities.c.name.is_(None) & (identities.c.created_at_s < left_s))
        is_empty = ~exists().where(turns.c.conversation_id == conversations.c.id)
        is_calm = conversations.c.risks_until_s < now_s
        await self._delete(conversations, is_empty & is_calm & (conversations.c.created_at_s < left_s))
        is_silent = ~exists().where(conversations.c.user_id == users.c.id)
        await self._delete(users, is_silent & (users.c.created_at_s < left_s))
        await self._delete(requests, requests.c.done_at_s < now_s - DAY_S)
        return rows

    async def _delete(self, table: Table, old: ColumnElement[bool]) -> int:
        """Delete rows that match, some at a time; return how many."""
        keys, total = list(table.primary_key.columns), 0

        async def work(session: Session) -> int:
            some = await session.rows(select(*keys).where(old).limit(EXPIRED_AT_ONCE).with_for_update())
            # Asked again once the rows are locked: somebody may just have said something in a conversation.
            mine = tuple_(*keys).in_([tuple(row) for row in some])
            return await session.run(delete(table).where(mine, old)) if some else 0

        while deleted := await self.storage.write("", work):
            total += deleted
        return total
