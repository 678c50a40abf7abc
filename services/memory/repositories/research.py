"""Questions across conversations: users, conversations, turns, counts, ratings, and exports for research."""

import csv
import hashlib
import hmac
import io
import json
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, String, cast, func, insert, select

import emotions
from services.common.errors import AlreadyExists, FailedPrecondition, InvalidRequest
from services.memory.checks import check_choice, check_handle, check_id, check_text
from services.memory.consent import allowed
from services.memory.database import Session
from services.memory.domain import Conversation, Rating, TurnCount, TurnFilter, TurnRecord, Use, User
from services.memory.repositories.conversations import Conversations, fitting, with_clips
from services.memory.repositories.identities import Identities, unknown
from services.memory.schema import conversations, identities, ratings, turns, users
from services.memory.storage import Storage

TEXT_CHARS_MAX = 200
"""Longest text of a filter."""

BUCKET_S_MIN = 60.0
"""Narrowest bucket of a count."""

COUNTS_MAX = 10_000
"""Most counts in one answer."""

EXPORTED_AT_ONCE = 500
"""Turns of an export that one transaction reads."""

SCALES = ("expressiveness", "consistency", "naturalness")
HEADER = (
    *("identity", "user", "conversation", "turn", "said_at_s", "user_text", "user_emotion", "user_intensity"),
    *("reply_text", "reply_emotion", "models", "variants", "votes", "delivery", "timings_s"),
    *("ratings", *(f"{scale}_mean" for scale in SCALES)),
)


class Research:
    """Questions across the conversations of a tenant.

    Args:
        storage: Where they are.
        identities: Knows permissions.
        talks: Knows turns.
        pseudonym_key: Key by which exports name users; empty: no exports.
    """

    def __init__(
        self, storage: Storage, identities: Identities, talks: Conversations, pseudonym_key: Callable[[], bytes]
    ) -> None:
        self._storage, self._identities, self._talks = storage, identities, talks
        self._pseudonym_key = pseudonym_key

    async def users(self, tenant: str, identity: str, page_size: int, after: str) -> tuple[list[User], str]:
        """Return a page of users by name, and what the next page is after."""
        last = _token(after, str, str)
        statement = (
            select(
                users.c.kind,
                users.c.name,
                func.count(func.distinct(conversations.c.id)),
                func.count(turns.c.pk),
                func.coalesce(func.min(turns.c.said_at_s), 0.0),
                func.coalesce(func.max(turns.c.said_at_s), 0.0),
            )
            .select_from(users)
            .outerjoin(conversations, conversations.c.user_id == users.c.id)
            .outerjoin(turns, turns.c.conversation_id == conversations.c.id)
            .where(users.c.tenant == tenant)
            .group_by(users.c.id, users.c.kind, users.c.name)
            .order_by(users.c.name, users.c.kind)
            .limit(page_size + 1)
        )
        if last:
            later = (users.c.name > last[0]) | ((users.c.name == last[0]) & (users.c.kind > last[1]))
            statement = statement.where(later)
        rows = await self._asked(tenant, identity, statement)
        page = [User(row[1] if row[0] == "user" else "", *row[2:]) for row in rows[:page_size]]
        return page, f"{rows[page_size - 1][1]} {rows[page_size - 1][0]}" if len(rows) > page_size else ""

    async def conversations(
        self, tenant: str, identity: str, user: str, page_size: int, after: str
    ) -> tuple[list[Conversation], str]:
        """Return a page of conversations, the one with the newest turn first, and what the next page is after."""
        last = _token(after, float.fromhex, int)
        newest = func.max(turns.c.said_at_s)
        who = users.c.name, users.c.kind
        statement = (
            select(
                conversations.c.name,
                identities.c.name,
                *who,
                func.count(turns.c.pk),
                func.min(turns.c.said_at_s),
                newest,
                conversations.c.id,
            )
            .join_from(conversations, identities, identities.c.id == conversations.c.identity_id)
            .join(users, users.c.id == conversations.c.user_id)
            .join(turns, turns.c.conversation_id == conversations.c.id)
            .where(conversations.c.tenant == tenant, identities.c.name.is_not(None))
            .group_by(conversations.c.id, conversations.c.name, identities.c.name, *who)
            .order_by(newest.desc(), conversations.c.id.desc())
            .limit(page_size + 1)
        )
        if user:
            check_handle("user", user)
            statement = statement.where(users.c.kind == "user", users.c.name == user)
        if last:
            time_s, key = last
            statement = statement.having((newest < time_s) | ((newest == time_s) & (conversations.c.id < key)))
        rows = await self._asked(tenant, identity, statement)
        page = [Conversation(row[0], row[1], row[2] if row[3] == "user" else "", *row[4:7]) for row in rows[:page_size]]
        is_more = len(rows) > page_size
        return page, f"{rows[page_size - 1][6].hex()} {rows[page_size - 1][7]}" if is_more else ""

    async def turns(
        self, tenant: str, wanted: TurnFilter, is_newest_first: bool, page_size: int, after: str
    ) -> tuple[list[TurnRecord], str]:
        """Return a page of turns that match, and what the next page is after."""

        async def work(session: Session) -> tuple[list[TurnRecord], str]:
            rows = await self._page(session, wanted, is_newest_first, page_size + 1, after)
            page = fitting(rows[:page_size])
            return await self._records(session, page), _after(page[-1]) if len(page) < len(rows) else ""

        return await self._storage.read(tenant, work)

    async def counts(self, tenant: str, wanted: TurnFilter, group: str, bucket_s: float) -> list[TurnCount]:
        """Return the number of turns that match per bucket of time and column, or per variant.

        Raises:
            InvalidRequest: The bucket is too narrow, there are too many counts, or a stage is missing.
        """
        if group == "variant" and not wanted.stage:
            raise InvalidRequest("filter.stage", "missing; name the stage whose variants are counted")
        if bucket_s and not (math.isfinite(bucket_s) and bucket_s >= BUCKET_S_MIN):
            raise InvalidRequest("bucket_s", f"{bucket_s:g}; use 0 or at least {BUCKET_S_MIN:g}")
        name = func.coalesce(_variant(wanted.stage), "") if group == "variant" else turns.c[group]
        bucket = func.floor(turns.c.said_at_s / bucket_s) * bucket_s if bucket_s else cast(0.0, turns.c.said_at_s.type)
        columns = bucket.label("bucket"), name.label("name")
        statement = select(*columns, func.count()).select_from(_JOINED).where(*self._matching(tenant, wanted))
        statement = statement.group_by(*columns).order_by(*columns).limit(COUNTS_MAX + 1)
        rows = await self._asked(tenant, wanted.identity, statement)
        if len(rows) > COUNTS_MAX:
            raise InvalidRequest("bucket_s", f"{bucket_s:g} gives more than {COUNTS_MAX} counts; ask for wider buckets")
        return [TurnCount(float(row[0]), row[1], row[2]) for row in rows]

    async def rate(self, tenant: str, identity: str, user: str, conversation: str, turn: str, rating: Rating) -> Rating:
        """Rate a turn, once per rater; the same rating again changes nothing.

        Raises:
            NotFound: The turn is unknown.
            AlreadyExists: This rater has rated it otherwise.
        """
        check_handle("rating.rater", rating.rater)
        for scale in SCALES:
            if not 1 <= (value := getattr(rating, scale)) <= 5:
                raise InvalidRequest(f"rating.{scale}", f"{value}; give 1 (poor) to 5 (excellent)")

        async def work(session: Session) -> Rating:
            pk = await self._talks.turn(session, identity, user, conversation, turn)
            mine = ratings.c.turn_pk == pk, ratings.c.rater == rating.rater
            if row := await session.first(select(ratings).where(*mine)):
                kept = _rating(row)
                if replace(kept, rated_at_s=rating.rated_at_s) != rating:
                    given = ", ".join(f"{scale} {getattr(kept, scale)}" for scale in SCALES)
                    raise AlreadyExists(f"rater {rating.rater!r} has rated turn {turn!r} already: {given}")
                return kept
            rated = replace(rating, rated_at_s=self._storage.clock())
            values = {each.name: getattr(rated, each.name) for each in fields(Rating)}
            await session.run(insert(ratings).values(turn_pk=pk, tenant=tenant, **values))
            return rated

        return await self._storage.write(tenant, work)

    async def export(self, tenant: str, wanted: TurnFilter) -> AsyncGenerator[bytes]:
        """Yield turns that match as CSV, oldest first, of identities with the permission research_export.

        Raises:
            FailedPrecondition: There is no key for pseudonyms, or the named identity lacks the permission.
        """
        key = self._pseudonym_key()
        if not key:
            problem = "this service has no key for the pseudonyms of users"
            raise FailedPrecondition(f"{problem}; name a file with one in E3RG_MEMORY_PSEUDONYM_KEY_FILE")
        if wanted.identity:  # A missing permission of the one that was asked for is an error, not an empty file.
            need = {Use.RESEARCH_EXPORT}
            await self._storage.read(tenant, lambda session: self._identities.found(session, wanted.identity, need))
        yield _csv([HEADER])
        after = ""
        while True:

            async def work(session: Session, after: str = after) -> tuple[list[TurnRecord], Sequence[Any]]:
                rows = await self._page(session, wanted, False, EXPORTED_AT_ONCE, after)
                heads = {(row.identity, row.identity_id, row.version) for row in rows}
                now_s = self._storage.clock()
                found = await self._identities.versions(session, sorted(heads))
                open_ = {each.id for each in found if Use.RESEARCH_EXPORT in allowed(each, now_s)}
                return await self._records(session, [row for row in rows if row.identity in open_]), rows

            records, rows = await self._storage.read(tenant, work)
            if records:
                yield _csv([_exported(key, tenant, each) for each in records])
            if len(rows) < EXPORTED_AT_ONCE:
                return
            after = _after(rows[-1])

    async def _asked(self, tenant: str, identity: str, statement: Select[Any]) -> Sequence[Any]:
        """Return the rows of a statement, of one identity only where it is named."""

        async def work(session: Session) -> Sequence[Any]:
            asked = statement
            if identity:
                found = await self._identities.found(session, identity)
                asked = asked.where(conversations.c.identity_id == found.generation)
            return await session.rows(asked)

        return await self._storage.read(tenant, work)

    async def _page(
        self, session: Session, wanted: TurnFilter, is_newest_first: bool, count: int, after: str
    ) -> Sequence[Any]:
        if wanted.identity and not await session.scalar(
            select(identities.c.id).where(identities.c.tenant == session.tenant, identities.c.name == wanted.identity)
        ):
            raise unknown(wanted.identity)
        context = (
            conversations.c.name.label("conversation"),
            identities.c.name.label("identity"),
            identities.c.id.label("identity_id"),
            identities.c.version.label("version"),
            users.c.name.label("user_name"),
            users.c.kind.label("user_kind"),
        )
        statement = select(turns, *context).select_from(_JOINED).where(*self._matching(session.tenant, wanted))
        time, key = turns.c.said_at_s, turns.c.pk
        if last := _token(after, float.fromhex, int):
            at, pk = last
            earlier, later = (time < at) | ((time == at) & (key < pk)), (time > at) | ((time == at) & (key > pk))
            statement = statement.where(earlier if is_newest_first else later)
        order = (time.desc(), key.desc()) if is_newest_first else (time, key)
        return await session.rows(statement.order_by(*order).limit(count))

    async def _records(self, session: Session, rows: Sequence[Any]) -> list[TurnRecord]:
        found = await session.rows(
            select(ratings).where(ratings.c.turn_pk.in_([row.pk for row in rows])).order_by(ratings.c.rater)
        )
        rated: dict[int, list[Rating]] = {}
        for row in found:
            rated.setdefault(row.turn_pk, []).append(_rating(row))
        return [
            TurnRecord(
                turn, row.identity, row.user_name if row.user_kind == "user" else "", tuple(rated.get(row.pk, ()))
            )
            for turn, row in zip(await with_clips(session, rows), rows, strict=True)
        ]

    def _matching(self, tenant: str, wanted: TurnFilter) -> list[ColumnElement[bool]]:  # one field each
        """Return the conditions of a filter.

        Raises:
            InvalidRequest: A field of it is wrong.
        """
        found: list[ColumnElement[bool]] = [turns.c.tenant == tenant, identities.c.name.is_not(None)]
        if wanted.identity:
            check_id("filter.identity", wanted.identity)
            found.append(identities.c.name == wanted.identity)
        if wanted.user:
            check_handle("filter.user", wanted.user)
            found += [users.c.kind == "user", users.c.name == wanted.user]
        if wanted.conversation:
            check_handle("filter.conversation", wanted.conversation)
            found.append(conversations.c.name == wanted.conversation)
        for name in ("from_s", "until_s"):
            if not math.isfinite(getattr(wanted, name)):
                raise InvalidRequest(f"filter.{name}", f"{getattr(wanted, name)}; give a Unix time in seconds")
        until_s = wanted.until_s or math.inf
        found.append(turns.c.said_at_s.between(wanted.from_s, math.nextafter(until_s, 0.0)))
        for name in ("user_emotions", "reply_emotions"):
            for label in getattr(wanted, name):
                check_choice(f"filter.{name}", label, emotions.load().labels)
            if labels := getattr(wanted, name):
                found.append(turns.c[name.removesuffix("s")].in_(labels))
        if wanted.stage:
            check_text("filter.stage", wanted.stage, TEXT_CHARS_MAX)
        if wanted.variant and not wanted.stage:
            raise InvalidRequest("filter.stage", "missing; name the stage of filter.variant")
        if wanted.variant:
            found.append(_variant(wanted.stage) == wanted.variant)
        if wanted.text:
            check_text("filter.text", wanted.text, TEXT_CHARS_MAX)
            found.append(
                turns.c.user_text.icontains(wanted.text, autoescape=True)
                | turns.c.reply_text.icontains(wanted.text, autoescape=True)
            )
        return found


_JOINED = (
    turns.join(conversations, conversations.c.id == turns.c.conversation_id)
    .join(identities, identities.c.id == conversations.c.identity_id)
    .join(users, users.c.id == conversations.c.user_id)
)


def _variant(stage: str) -> ColumnElement[str]:
    return cast(turns.c.variants[stage].as_string(), String)


def _rating(row: Any) -> Rating:
    return Rating(**{each.name: getattr(row, each.name) for each in fields(Rating)})


def _after(row: Any) -> str:
    return f"{row.said_at_s.hex()} {row.pk}"


def _token(after: str, *kinds: Callable[[str], Any]) -> list[Any]:
    """Return the parts of a page token, none of an empty one.

    Raises:
        InvalidRequest: It is none.
    """
    parts = after.split(" ") if after else []
    try:
        return [kind(part) for kind, part in zip(kinds, parts, strict=True)] if parts else []
    except ValueError:
        raise InvalidRequest("page_token", f"{after[:80]!a} is none; send what the page before returned") from None


def _exported(key: bytes, tenant: str, record: TurnRecord) -> list[object]:
    """Return the fields of a turn; its user is named by a keyed digest, the same in all exports with this key."""
    turn = record.turn
    who = f"{tenant}\0{record.user or turn.conversation}\0{bool(record.user)}"
    pseudonym = hmac.new(key, who.encode(), hashlib.sha256).hexdigest()[:16]
    talk = hmac.new(key, f"{who}\0{turn.conversation}".encode(), hashlib.sha256).hexdigest()[:16]
    votes = {vote.voter: vote.label for vote in turn.votes}
    delivery = {each.name: getattr(turn.delivery, each.name) for each in fields(turn.delivery)}
    count = len(record.ratings)
    means = [sum(getattr(each, scale) for each in record.ratings) / count if count else "" for scale in SCALES]
    open_ = [json.dumps(each, sort_keys=True) for each in (turn.models, turn.variants, votes, delivery, turn.timings_s)]
    said = [turn.said_at_s, turn.user_text, turn.user_emotion, turn.user_intensity, turn.reply_text, turn.reply_emotion]
    return [record.identity, pseudonym, talk, turn.id, *said, *open_, count, *means]


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
