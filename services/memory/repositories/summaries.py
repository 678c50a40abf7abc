"""Summaries of users by variant, over all tenants: counts and sums, computed by the database."""

import hashlib
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    FromClause,
    Table,
    Text,
    case,
    cast,
    distinct,
    func,
    literal,
    select,
    true,
)

from services.memory.checks import check
from services.memory.domain import SummaryFilter, Total, UserSummary
from services.memory.repositories.research import is_said, variant_of
from services.memory.schema import assignments, conversations, identities, ratings, scores, turns, users
from services.memory.session import Session
from services.memory.storage import Storage, reading

USERS_AT_ONCE = 200
"""Users that one transaction reads, and one message tells."""

_Totals = dict[tuple[str, str], dict[str, Total]]


class Summaries:
    """Summaries of users by variant."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    async def users(self, wanted: SummaryFilter) -> AsyncGenerator[list[UserSummary]]:
        """Yield the turns of users of all tenants by variant, with all variants of a user at once."""
        check("", wanted)
        after, secret, is_more = "", secrets.token_bytes(32), True
        while is_more:
            ids = await self._ids("", wanted, after)
            if summaries := await self._page("", wanted, ids, secret) if ids else []:
                yield summaries
            after, is_more = ids[-1] if ids else "", len(ids) == USERS_AT_ONCE

    @reading
    async def _ids(self, session: Session, wanted: SummaryFilter, after: str) -> list[str]:
        """Return the ids of the next users who may have such turns."""
        key: ColumnElement[str] = assignments.c.user_id if wanted.experiment else users.c.id
        found = select(key).where(key > after).order_by(key).limit(USERS_AT_ONCE)
        if wanted.experiment:
            found = found.where(assignments.c.experiment == wanted.experiment)
        return [row[0] for row in await session.rows(found)]

    @reading
    async def _page(
        self, session: Session, wanted: SummaryFilter, ids: Sequence[str], secret: bytes
    ) -> list[UserSummary]:
        said = _said(wanted, ids)
        pair = said.c.user_id, said.c.variant
        phase = func.coalesce(func.max(assignments.c.phase), 0).label("phase")
        is_first = (assignments.c.user_id == said.c.user_id) & (assignments.c.experiment == wanted.experiment)
        numbers = (
            func.count().over(partition_by=said.c.user_id).label("variants_seen"),
            func.count().label("turns"),
            func.count(distinct(said.c.conversation_id)).label("conversations"),
            func.sum(said.c.is_degraded).label("degraded_turns"),
        )
        found = select(*pair, phase, *numbers).select_from(said.outerjoin(assignments, is_first))
        first_s = func.min(said.c.said_at_s)
        rows = await session.rows(found.group_by(*pair).order_by(said.c.user_id, first_s, said.c.variant))
        mean = (ratings.c.expressiveness + ratings.c.consistency + ratings.c.naturalness) / literal(3.0, Double())
        rated = await _totals(session, said, ratings, literal(""), mean)
        scored = await _totals(session, said, scores, scores.c.name, scores.c.value)
        timed = await _timings(session, said)
        return [
            UserSummary(
                hashlib.blake2b(row.user_id.encode(), key=secret, digest_size=8).hexdigest(),
                *(row.variant, row.phase, row.variants_seen, row.turns, row.conversations, row.degraded_turns),
                rated[row.user_id, row.variant].get("", Total()),
                timed[row.user_id, row.variant],
                scored[row.user_id, row.variant],
            )
            for row in rows
        ]


def _said(wanted: SummaryFilter, ids: Sequence[str]) -> CTE:
    """Return the turns that are summarised: key, user, variant, conversation, times, whether degraded."""
    variant = variant_of(wanted.stage)
    is_degraded = case((cast(turns.c.degraded, Text) != "[]", 1), else_=0).label("is_degraded")
    told = turns.c.conversation_id, turns.c.said_at_s, turns.c.timings_s
    found = (
        select(turns.c.pk, conversations.c.user_id, variant.label("variant"), *told, is_degraded)
        .select_from(turns.join(conversations).join(identities))
        .where(conversations.c.user_id.in_(ids), variant.is_not(None), is_said(wanted.from_s, wanted.until_s))
        .where(identities.c.name.is_not(None))  # What an import has brought so far is not there yet.
    )
    if wanted.experiment:
        found = found.where(turns.c.experiment == wanted.experiment)
    return found.cte("said")


async def _totals(
    session: Session, said: CTE, table: Table, name: ColumnElement[str], value: ColumnElement[Any]
) -> _Totals:
    """Return sums and counts of values that a table has for turns, by user and variant, then name."""
    return await _grouped(session, said, said.join(table, table.c.turn_pk == said.c.pk), name, value)


async def _timings(session: Session, said: CTE) -> _Totals:
    """Return sums and counts of the turns' timings, by user and variant, then name."""
    entries = func.jsonb_each_text if session.is_postgresql else func.json_each
    timing = entries(said.c.timings_s).table_valued("key", "value").alias("timing")
    return await _grouped(session, said, said.join(timing, true()), timing.c.key, cast(timing.c.value, Double))


async def _grouped(
    session: Session, said: CTE, source: FromClause, name: ColumnElement[str], value: ColumnElement[Any]
) -> _Totals:
    groups = said.c.user_id, said.c.variant, name.label("name")
    found = select(*groups, func.sum(value).label("sum"), func.count().label("count")).select_from(source)
    totals: _Totals = defaultdict(dict)
    for row in await session.rows(found.group_by(*groups)):
        totals[row.user_id, row.variant][row.name] = Total(float(row[3]), row[4])
    return totals
