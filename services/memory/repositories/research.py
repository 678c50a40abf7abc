"""Questions across conversations: users, conversations, turns, counts, ratings, scores, and exports for research."""

import csv
import hashlib
import hmac
import io
import json
import math
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, case, exists, func, literal, or_, select, tuple_

from services.common.errors import AlreadyExists, FailedPrecondition, InvalidRequest
from services.memory.checks import check, check_handle, check_scores, check_within
from services.memory.consent import allowed
from services.memory.domain import (
    ConversationKey,
    Rating,
    TurnFilter,
    TurnGroup,
    TurnOrder,
    TurnRecord,
    Use,
)
from services.memory.repositories.conversations import Conversations, size_of, with_clips
from services.memory.repositories.pages import page_of
from services.memory.schema import conversations, identities, ratings, scores, turns, users
from services.memory.session import Session, by, read_as
from services.memory.settings import KEY_BYTES_MIN
from services.memory.storage import Storage, reading, writing

BUCKET_S_MIN, COUNTS_MAX = 60.0, 10_000
"""Narrowest bucket of a count, and most counts in one answer."""

EXPORTED_AT_ONCE = 500
"""Turns of an export that one transaction reads."""

SCALES = ("expressiveness", "consistency", "naturalness")
HEADER = (
    *("identity", "user", "conversation", "turn", "said_at_s", "user_text", "user_emotion", "user_intensity"),
    *("reply_text", "reply_emotion", "models", "variants", "votes", "delivery", "timings_s"),
    *("ratings", *(f"{scale}_mean" for scale in SCALES)),
)

_JOINED = turns.join(conversations).join(identities).join(users, users.c.id == conversations.c.user_id)
_USER = case((users.c.kind == "user", users.c.name), else_="")
"""Name of a user as it is told: none of one who is known in one conversation only."""
_CONTEXT = (
    conversations.c.name.label("conversation"),
    identities.c.name.label("identity"),
    identities.c.id.label("identity_id"),
    identities.c.version,
    _USER.label("user"),
)


class Research:
    """Questions across the conversations of a tenant.

    Args:
        storage: Where they are.
        conversations: Knows turns, and by its identities permissions.
        pseudonym_key: Returns the key by which exports name users; empty: no exports.
    """

    def __init__(self, storage: Storage, conversations: Conversations, pseudonym_key: Callable[[], bytes]) -> None:
        self.storage, self._conversations, self._identities = storage, conversations, conversations.identities
        self._pseudonym_key = pseudonym_key

    @reading
    async def users(self, session: Session, identity: str, page_size: int, after: str) -> tuple[list[Any], str]:
        """Return a page of users by name, as rows with the fields of their message, and what the next page is after."""
        # What an import has brought so far is not there yet, nor is a user who is known by it only.
        of_import = conversations.c.identity_id.in_(select(identities.c.id).where(identities.c.name.is_(None)))
        is_told = conversations.c.id.is_not(None) | ~exists().where(conversations.alias().c.user_id == users.c.id)
        key = users.c.name, users.c.kind
        found = (
            select(
                _USER.label("name"),
                func.count(func.distinct(conversations.c.id)).label("conversations"),
                func.count(turns.c.pk).label("turns"),
                func.coalesce(func.min(turns.c.said_at_s), 0.0).label("first_turn_at_s"),
                func.coalesce(func.max(turns.c.said_at_s), 0.0).label("last_turn_at_s"),
                *(column.label(f"key_{column.name}") for column in key),
            )
            .select_from(users)
            .outerjoin(conversations, (conversations.c.user_id == users.c.id) & ~of_import)
            .outerjoin(turns)
            .where(session.mine(users), is_told, *await self._of_identity(session, identity))
            .group_by(users.c.id, *key)
        )
        if last := _token(after, str, str):
            found = found.where(tuple_(*key) > last)
        rows = await session.rows(found.order_by(*key).limit(page_size + 1))
        return page_of(rows, page_size, lambda row: f"{row.key_name} {row.key_kind}")

    @reading
    async def conversations(
        self, session: Session, identity: str, user: str, page_size: int, after: str
    ) -> tuple[list[Any], str]:
        """Return a page of conversations as `users`, the one with the newest turn first, and what the next is after."""
        names = conversations.c.name.label("name"), identities.c.name.label("identity"), _USER.label("user")
        newest, key = func.max(turns.c.said_at_s), conversations.c.id
        times = func.min(turns.c.said_at_s).label("first_turn_at_s"), newest.label("last_turn_at_s")
        found = (
            select(*names, func.count(turns.c.pk).label("turns"), *times, key)
            .select_from(_JOINED)
            .where(session.mine(conversations), identities.c.name.is_not(None))
            .where(*await self._of_identity(session, identity))
            .group_by(key, conversations.c.name, identities.c.name, users.c.name, users.c.kind)
        )
        if user:
            check_handle("user", user)
            found = found.where(by(users, kind="user", name=user))
        if last := _token(after, float.fromhex, _key):
            found = found.having(tuple_(newest, key) < last)
        rows = await session.rows(found.order_by(newest.desc(), key.desc()).limit(page_size + 1))
        return page_of(rows, page_size, lambda row: f"{row.last_turn_at_s.hex()} {row.id}")

    @reading
    async def turns(
        self, session: Session, wanted: TurnFilter, order: TurnOrder, page_size: int, after: str
    ) -> tuple[list[TurnRecord], str]:
        """Return a page of turns that match, and what the next page is after."""
        rows = await self._matching(session, wanted, order != TurnOrder.OLDEST_FIRST, page_size + 1, after)
        page, following = page_of(rows, page_size, _after, size_of)
        return await _records(session, page), following

    @reading
    async def counts(self, session: Session, wanted: TurnFilter, group: TurnGroup, bucket_s: float) -> list[Any]:
        """Return the number of turns that match, per bucket of time and group, as rows with the message's fields."""
        if group is TurnGroup.VARIANT and not wanted.stage:
            raise InvalidRequest("filter.stage", "missing; name the stage whose variants are counted")
        if bucket_s:
            check_within("bucket_s", bucket_s, BUCKET_S_MIN)
        is_variant = group is TurnGroup.VARIANT
        name = func.coalesce(variant_of(wanted.stage), "") if is_variant else turns.c[str(group)]
        from_s = func.floor(turns.c.said_at_s / bucket_s) * bucket_s if bucket_s else literal(0.0)
        groups = from_s.label("from_s"), name.label("name")
        found = select(*groups, func.count().label("turns")).select_from(_JOINED).where(*_conditions(session, wanted))
        found = found.where(*await self._of_identity(session, wanted.identity)).group_by(*groups).order_by(*groups)
        rows = await session.rows(found.limit(COUNTS_MAX + 1))
        if len(rows) > COUNTS_MAX:
            raise InvalidRequest("bucket_s", f"{bucket_s:g} gives more than {COUNTS_MAX} counts; ask for wider buckets")
        return list(rows)

    @writing
    async def rate(self, session: Session, key: ConversationKey, turn: str, rating: Rating) -> Rating:
        """Rate a turn, once per rater; the same rating again changes nothing.

        Raises:
            NotFound: The turn is unknown.
            AlreadyExists: This rater has rated it otherwise.
        """
        check("rating", rating)
        pk = await self._conversations.turn(session, key, turn)
        if row := await session.find(ratings, turn_pk=pk, rater=rating.rater):
            kept = read_as(Rating, row)
            if replace(kept, rated_at_s=rating.rated_at_s) != rating:
                given = ", ".join(f"{scale} {getattr(kept, scale)}" for scale in SCALES)
                raise AlreadyExists(f"rater {rating.rater!r} has rated turn {turn!r} already: {given}")
            return kept
        rated = replace(rating, rated_at_s=self.storage.clock())
        await session.add(ratings, turn_pk=pk, **asdict(rated))
        return rated

    @writing
    async def put_scores(self, session: Session, key: ConversationKey, turn: str, values: dict[str, float]) -> None:
        """Keep automatic scores of a turn, in place of those of the same names."""
        check_scores("scores", values)
        pk = await self._conversations.turn(session, key, turn, {Use.KEEP_TURNS})
        await session.find(turns, is_locking=True, pk=pk)  # One writer at a time.
        await session.drop(scores, scores.c.name.in_(values), turn_pk=pk)
        for name, value in values.items():
            await session.add(scores, turn_pk=pk, name=name, value=value)

    async def export(self, tenant: str, wanted: TurnFilter) -> AsyncGenerator[bytes]:
        """Yield turns that match as CSV, oldest first, of identities with the permission research_export.

        Raises:
            FailedPrecondition: There is no key for pseudonyms, or the named identity lacks the permission.
        """
        if len(key := self._pseudonym_key()) < KEY_BYTES_MIN:
            problem = f"this service has no key of {KEY_BYTES_MIN} bytes or more for the pseudonyms of users"
            raise FailedPrecondition(f"{problem}; name a file with one in E3RG_MEMORY_PSEUDONYM_KEY_FILE")
        if wanted.identity:  # A missing permission of the one that was asked for is an error, not an empty file.
            need = {Use.RESEARCH_EXPORT}
            await self.storage.read(tenant, lambda session: self._identities.found(session, wanted.identity, need))
        yield _csv([HEADER])
        after, is_more = "", True
        while is_more:
            records, after, is_more = await self._exportable(tenant, wanted, after)
            if records:
                yield _csv([_exported(key, tenant, each) for each in records])

    @reading
    async def _exportable(self, session: Session, wanted: TurnFilter, after: str) -> tuple[list[TurnRecord], str, bool]:
        """Return the turns of a page that may be exported, what the next page is after, and whether there is one."""
        rows = await self._matching(session, wanted, False, EXPORTED_AT_ONCE, after)
        heads = sorted({(row.identity, row.identity_id, row.version) for row in rows})
        now_s, found = self.storage.clock(), await self._identities.versions(session, heads)
        open_ = {each.id for each in found if Use.RESEARCH_EXPORT in allowed(each, now_s)}
        records = await _records(session, [row for row in rows if row.identity in open_])
        return records, _after(rows[-1]) if rows else "", len(rows) == EXPORTED_AT_ONCE

    async def _of_identity(self, session: Session, name: str) -> list[ColumnElement[bool]]:
        """Return the condition for conversations with an identity, none where it is not named."""
        return [conversations.c.identity_id == (await self._identities.found(session, name)).generation] if name else []

    async def _matching(
        self, session: Session, wanted: TurnFilter, is_newest_first: bool, count: int, after: str
    ) -> Sequence[Any]:
        """Return `count` turns that match, with their context, in the order of time."""
        found = select(turns, *_CONTEXT).select_from(_JOINED).where(*_conditions(session, wanted))
        found = found.where(*await self._of_identity(session, wanted.identity))
        time_s, key = turns.c.said_at_s, turns.c.pk
        if last := _token(after, float.fromhex, _key):
            found = found.where(tuple_(time_s, key) < last if is_newest_first else tuple_(time_s, key) > last)
        order = (time_s.desc(), key.desc()) if is_newest_first else (time_s, key)
        return await session.rows(found.order_by(*order).limit(count))


async def _records(session: Session, rows: Sequence[Any]) -> list[TurnRecord]:
    """Return turns with their context, clips, ratings and scores."""
    rated: dict[int, list[Rating]] = defaultdict(list)
    scored: dict[int, dict[str, float]] = defaultdict(dict)
    pks = [row.pk for row in rows]
    for rating in await session.rows(select(ratings).where(ratings.c.turn_pk.in_(pks)).order_by(ratings.c.rater)):
        rated[rating.turn_pk].append(read_as(Rating, rating))
    for score in await session.rows(select(scores).where(scores.c.turn_pk.in_(pks))):
        scored[score.turn_pk][score.name] = score.value
    return [
        TurnRecord(turn, row.identity, row.user, tuple(rated[row.pk]), scored[row.pk])
        for turn, row in zip(await with_clips(session, rows), rows, strict=True)
    ]


def _conditions(session: Session, wanted: TurnFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter; refuse a field of it that is wrong."""
    check("filter", wanted)
    if wanted.variant and not wanted.stage:
        raise InvalidRequest("filter.stage", "missing; name the stage of filter.variant")
    found = [session.mine(turns), identities.c.name.is_not(None), is_said(wanted.from_s, wanted.until_s)]
    if wanted.identity:
        found.append(identities.c.name == wanted.identity)
    if wanted.user:
        found.append(by(users, kind="user", name=wanted.user))
    if wanted.conversation:
        found.append(conversations.c.name == wanted.conversation)
    if wanted.user_emotions:
        found.append(turns.c.user_emotion.in_(wanted.user_emotions))
    if wanted.reply_emotions:
        found.append(turns.c.reply_emotion.in_(wanted.reply_emotions))
    if wanted.variant:
        found.append(variant_of(wanted.stage) == wanted.variant)
    if wanted.text:
        said = (column.icontains(wanted.text, autoescape=True) for column in (turns.c.user_text, turns.c.reply_text))
        found.append(or_(*said))
    return found


def is_said(from_s: float, until_s: float) -> ColumnElement[bool]:
    """Return the condition for turns kept from one time until before another, 0 for none."""
    return turns.c.said_at_s.between(from_s, math.nextafter(until_s or 1e12, 0))


def variant_of(stage: str) -> ColumnElement[str]:
    """Return the expression for a turn's variant of a stage."""
    found: ColumnElement[str] = turns.c.variants[stage].as_string()
    return found


def _after(row: Any) -> str:
    return f"{row.said_at_s.hex()} {row.pk}"


def _key(part: str) -> int:
    """Return a primary key of a page token."""
    if not 0 <= (key := int(part)) < 2**63:
        raise ValueError
    return key


def _token(after: str, *kinds: Callable[[str], Any]) -> list[Any]:
    """Return the parts of a page token, none of an empty one."""
    parts = after.split(" ") if after else []
    try:
        if "\0" in after:
            raise ValueError
        return [kind(part) for kind, part in zip(kinds, parts, strict=True)] if parts else []
    except (ValueError, OverflowError):
        raise InvalidRequest("page_token", f"{after[:80]!a} is none; send what the page before returned") from None


def _exported(key: bytes, tenant: str, record: TurnRecord) -> list[object]:
    """Return the fields of a turn; its user is named by a keyed digest, the same in all exports with this key."""
    turn, count = record.turn, len(record.ratings)
    who = f"{tenant}\0{record.user or turn.conversation}\0{bool(record.user)}"
    names = (
        hmac.new(key, each.encode(), hashlib.sha256).hexdigest()[:16] for each in (who, f"{who}\0{turn.conversation}")
    )
    means = [sum(getattr(each, scale) for each in record.ratings) / count if count else "" for scale in SCALES]
    votes = {vote.voter: vote.label for vote in turn.votes}
    open_ = turn.models, turn.variants, votes, asdict(turn.delivery), turn.timings_s
    said = turn.said_at_s, turn.user_text, turn.user_emotion, turn.user_intensity, turn.reply_text, turn.reply_emotion
    documents = (json.dumps(each, sort_keys=True) for each in open_)
    return [record.identity, *names, turn.id, *said, *documents, count, *means]


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
