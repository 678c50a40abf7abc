"""Conversations: turns kept, listed and found again; their clips and timings."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import and_, bindparam, select

from services.common.errors import InvalidRequest, NotFound
from services.memory.blobs import new_key
from services.memory.checks import check, check_clip, check_handle, check_timings
from services.memory.domain import (
    CLIP_USES,
    Clip,
    ClipKind,
    Hit,
    Recalled,
    Sought,
    Turn,
    TurnDelivery,
    TurnVote,
    Use,
    digest_of,
)
from services.memory.embedding import Embedding, Vectors
from services.memory.repositories.identities import Identities
from services.memory.schema import clips, conversations, identities, turn_embeddings, turns, users
from services.memory.search import Searcher, Wanted
from services.memory.session import InterferedError, Session
from services.memory.storage import Storage

BYTES_MAX = 2**20
"""At most so many bytes of turns are returned at once, so that they fit into one message; one turn always does."""

BRIEF = ("id", "user_text", "user_emotion", "user_intensity", "reply_text", "reply_emotion", "said_at_s")
"""What recall and search tell of a turn."""

_BRIEF = [turns.c[name] for name in (*BRIEF, "pk", "place", "conversation_id")]
_FROM = (
    identities.outerjoin(
        users,
        and_(
            users.c.tenant == identities.c.tenant,
            users.c.kind == bindparam("kind"),
            users.c.name == bindparam("user"),
        ),
    )
    .outerjoin(
        conversations,
        and_(
            conversations.c.identity_id == identities.c.id,
            conversations.c.user_id == users.c.id,
            conversations.c.name == bindparam("conversation"),
        ),
    )
    .outerjoin(
        turns,
        and_(
            turns.c.conversation_id == conversations.c.id,
            turns.c.place > conversations.c.last_place - bindparam("count"),
        ),
    )
)
HEAD = (
    select(identities.c.id.label("identity_id"), identities.c.version, users.c.id.label("user_id"), *_BRIEF)
    .select_from(_FROM)
    .where(identities.c.tenant == bindparam("tenant"), identities.c.name == bindparam("identity"))
    .order_by(turns.c.place)
)
"""One row for each of the last turns, oldest first, at least one: built once, and the only query of a warm recall."""


class Conversations:
    """Conversations of users with identities. An empty user is one who is known in one conversation only.

    Methods raise `NotFound` when identity or turn are unknown, `FailedPrecondition` when a permission is missing.
    """

    def __init__(self, storage: Storage, identities: Identities, embedding: Embedding, searcher: Searcher) -> None:
        self._storage, self._identities = storage, identities
        self.embedding, self._searcher = embedding, searcher

    async def remember(
        self, tenant: str, name: str, user: str, conversation: str, turn: Turn, recalled: Recalled
    ) -> None:
        """Keep a turn, with the time of the memory's clock; a turn id that the conversation has changes nothing.

        Raises:
            NotFound: Also when identity or user was erased since they were `recalled`; nothing is kept then.
        """
        check_handle("conversation", conversation)
        check("turn", turn)
        who = user_key(user, conversation)
        vector = await self.embedding.of(turn.user_text)
        said = replace(turn, said_at_s=self._storage.clock())

        async def work(session: Session) -> None:
            identity = await self._identities.found(session, name, {Use.KEEP_TURNS})
            if recalled.identity not in ("", identity.generation):
                problem = f"identity {name!r} was erased since it was recalled for this turn"
                raise NotFound(f"{problem}; nothing is kept")
            known = await session.find(users, kind=who[0], name=who[1])
            if recalled.user not in ("", known.id if known else ""):
                raise NotFound(f"person {who[1]!r} was erased meanwhile; nothing of this call is kept")
            user_id = known.id if known else await self.insert_user(session, *who)
            await self.append(session, identity.generation, user_id, conversation, [(said, vector)])

        await self._storage.write(tenant, work)

    async def append(
        self,
        session: Session,
        identity_id: str,
        user_id: str,
        conversation: str,
        said: Sequence[tuple[Turn, Vectors | None]],
    ) -> None:
        """Append turns with their embeddings, but those whose ids are there; the conversation is made if need be."""
        now_s, whose = self._storage.clock(), {"identity_id": identity_id, "user_id": user_id}
        await session.add_new(conversations, tenant=session.tenant, **whose, name=conversation, created_at_s=now_s)
        if (talk := await session.find(conversations, is_locking=True, **whose, name=conversation)) is None:
            raise InterferedError("the conversation was erased meanwhile")
        ids = turns.c.id.in_([turn.id for turn, _ in said])
        there = {
            row.id for row in await session.rows(select(turns.c.id).where(turns.c.conversation_id == talk.id, ids))
        }
        place = talk.last_place
        for turn, vector in said:
            if turn.id in there:
                continue
            place += 1
            values = {name: value for name, value in asdict(turn).items() if name not in ("clips", "conversation")}
            pk = await session.add(turns, conversation_id=talk.id, place=place, kept_at_s=now_s, **values)
            about = {"user_emotion": turn.user_emotion, "said_at_s": turn.said_at_s, "conversation_id": talk.id}
            row = {**whose, **about, "model_digest": self.embedding.digest, "vector": vector}
            await session.add(turn_embeddings, turn_pk=pk, **row)
        await session.change(conversations, conversations.c.id == talk.id, last_place=place)

    async def search(self, tenant: str, name: str, user: str, conversation: str, sought: Sought) -> list[Hit]:
        """Return past turns of a user with an identity that are like a text, the most similar first.

        An empty conversation means all of the user's. Fewer are returned when they are very long.
        """
        check("", sought)
        kind, who = user_key(user, conversation or sought.here)
        here = sought.here or conversation
        if here:
            check_handle("here", here)
        vector = await self.embedding.of(sought.text)
        since_s = self._storage.clock() - sought.age_max_s if sought.age_max_s else float("-inf")
        by_name = {}

        async def work(session: Session) -> list[Hit]:
            identity = await self._identities.found(session, name, {Use.KEEP_TURNS})
            known = await session.find(users, kind=kind, name=who)
            if vector is None or known is None:
                return []
            talks = select(conversations).where(session.mine(conversations, identity_id=identity.generation))
            mine = conversations.c.user_id == known.id, conversations.c.name.in_([conversation, here])
            by_name.update({row.name: row for row in await session.rows(talks.where(*mine))})
            if conversation and conversation not in by_name:
                return []
            wanted = Wanted(
                vector,
                sought.hits_max + len(sought.without),
                sought.similarity_min,
                (identity.generation,),
                by_name[conversation].id if conversation else None,
                sought.user_emotions,
                since_s,
            )
            found = await self._searcher.turns(session, known.id, wanted)
            return await self._hits(session, found, sought, by_name.get(here))

        return await self._storage.read(tenant, work)

    async def page(
        self, tenant: str, name: str, user: str, conversation: str, page_size: int, after: str
    ) -> tuple[list[Turn], str]:
        """Return turns, the newest first, whole and with their clips; and what the next page is after."""
        check_handle("conversation", conversation)
        if after and not (after.isdecimal() and len(after) < 10):
            raise InvalidRequest("page_token", f"{after[:80]!a} is none; send what the page before returned")
        place = int(after or 2**31 - 1)

        async def work(session: Session) -> tuple[list[Turn], str]:
            talk = await self._talk(session, name, user, conversation)
            found = select(turns).where(session.mine(turns, conversation_id=talk), turns.c.place < place)
            rows = await session.rows(found.order_by(turns.c.place.desc()).limit(page_size + 1))
            page = fitting(rows[:page_size])
            following = str(page[-1].place) if len(page) < len(rows) else ""
            return await with_clips(session, page, conversation), following

        return await self._storage.read(tenant, work)

    async def put_clip(
        self, tenant: str, name: str, user: str, conversation: str, turn_id: str, kind: ClipKind, content: bytes
    ) -> Clip:
        """Keep the speech or the video of a turn, in place of the one that there may be."""
        check_clip(kind, content)
        clip = Clip(kind, digest_of(content), len(content))

        async def turn_of(session: Session) -> int:
            return await self.turn(session, name, user, conversation, turn_id, {Use.KEEP_TURNS})

        key = new_key(tenant, f"turns/{await self._storage.read(tenant, turn_of)}", clip.digest)

        async def work(session: Session) -> None:
            await self.insert_clip(session, await turn_of(session), clip, key)

        await self._storage.keep(tenant, [(key, content)], work)
        return clip

    async def insert_clip(self, session: Session, pk: int, clip: Clip, key: str) -> None:
        """Insert the row of a clip in place of the one that there may be."""
        await session.find(turns, is_locking=True, pk=pk)  # One clip at a time.
        await session.drop(clips, turn_pk=pk, kind=clip.kind)
        await session.add(clips, turn_pk=pk, key=key, created_at_s=self._storage.clock(), **asdict(clip))

    async def clip(self, tenant: str, name: str, user: str, conversation: str, turn_id: str, kind: ClipKind) -> bytes:
        """Return the speech or the video of a turn.

        Raises:
            Damaged: The object is not what was kept.
        """

        async def work(session: Session) -> Any:
            pk = await self.turn(session, name, user, conversation, turn_id, CLIP_USES[kind])
            return await session.find(clips, turn_pk=pk, kind=kind)

        if (row := await self._storage.read(tenant, work)) is None:
            raise NotFound(f"there is no {kind} of that turn; ListTurns says which clips were kept")
        return await self._storage.media.get(row.key, row.digest)

    async def put_timings(
        self, tenant: str, name: str, user: str, conversation: str, turn_id: str, timings_s: dict[str, float]
    ) -> None:
        """Keep how long the stages of a turn took, once it is over; those that came first stay."""
        if not timings_s:
            raise InvalidRequest("timings_s", "it is empty; name each stage with the seconds that it took")
        check_timings("timings_s", timings_s)

        async def work(session: Session) -> None:
            pk = await self.turn(session, name, user, conversation, turn_id, {Use.KEEP_TURNS})
            first = session.mine(turns, pk=pk, are_timings_final=False)
            await session.change(turns, first, timings_s=timings_s, are_timings_final=True)

        await self._storage.write(tenant, work)

    async def insert_user(self, session: Session, kind: str, name: str) -> str:
        """Return the id of a user, who is made known if there is none."""
        await session.ensure_tenant()
        new = {"id": uuid4().hex, "tenant": session.tenant, "created_at_s": self._storage.clock()}
        await session.add_new(users, **new, kind=kind, name=name)
        return str((await session.find(users, kind=kind, name=name)).id)

    async def turn(
        self, session: Session, name: str, user: str, conversation: str, turn_id: str, uses: Collection[str] = ()
    ) -> int:
        """Return the primary key of a turn, if all of `uses` are allowed."""
        check_handle("conversation", conversation)
        check_handle("turn", turn_id)
        talk = await self._talk(session, name, user, conversation, uses)
        if (found := await session.find(turns, conversation_id=talk, id=turn_id)) is None:
            raise NotFound(f"turn {turn_id!r} is unknown; use one that ListTurns tells")
        return int(found.pk)

    async def _talk(self, session: Session, name: str, user: str, conversation: str, uses: Collection[str] = ()) -> int:
        """Return the id of a conversation, -1 without one, if all of `uses` are allowed."""
        kind, who = user_key(user, conversation)
        identity = await self._identities.found(session, name, uses)
        if (known := await session.find(users, kind=kind, name=who)) is None:
            return -1
        found = {"identity_id": identity.generation, "user_id": known.id, "name": conversation}
        row = await session.find(conversations, **found)
        return row.id if row else -1

    async def _hits(self, session: Session, found: Sequence[tuple[int, float]], sought: Sought, here: Any) -> list[Hit]:
        names = select(*_BRIEF, conversations.c.name.label("conversation")).join_from(
            turns, conversations, conversations.c.id == turns.c.conversation_id
        )
        rows = await session.rows(names.where(turns.c.pk.in_([pk for pk, _ in found])))
        by_pk = {row.pk: row for row in rows}
        hits: list[Hit] = []
        left_bytes = BYTES_MAX
        for pk, similarity in found:
            row = by_pk.get(pk)
            is_here = row is not None and here is not None and row.conversation_id == here.id
            if row is None or (is_here and row.id in sought.without):
                continue
            left_bytes -= _size_of(row)
            if left_bytes < 0 or len(hits) == sought.hits_max:
                break
            hits.append(
                Hit(brief(row, row.conversation), similarity, here.last_place - row.place + 1 if is_here else 0)
            )
        return hits


def user_key(user: str, conversation: str) -> tuple[str, str]:
    """Return kind and name of a user."""
    if user:
        check_handle("person", user)
    if conversation:
        check_handle("conversation", conversation)
    if not user and not conversation:
        raise InvalidRequest("conversation", "it is empty, and no person is named; name one of them")
    return ("user", user) if user else ("conversation", conversation)


def brief(row: Any, conversation: str) -> Turn:
    """Return the turn of a row without what is not recalled."""
    return Turn(**{name: getattr(row, name) for name in BRIEF}, conversation=conversation)


def whole(row: Any, conversation: str, kept: Iterable[Clip] = ()) -> Turn:
    """Return the turn of a row, whole."""
    values = {each.name: getattr(row, each.name) for each in fields(Turn) if each.name not in ("clips", "conversation")}
    values["votes"] = tuple(TurnVote(**vote) for vote in row.votes)
    values["delivery"] = TurnDelivery(**row.delivery)
    return Turn(**values, clips=tuple(kept), conversation=conversation)


def fitting(rows: Sequence[Any]) -> list[Any]:
    """Return the first rows of turns that fit into a message; at least one."""
    page: list[Any] = []
    left_bytes = BYTES_MAX
    for row in rows:
        left_bytes -= _size_of(row)
        if page and left_bytes < 0:
            break
        page.append(row)
    return page


async def with_clips(session: Session, rows: Sequence[Any], conversation: str = "") -> list[Turn]:
    """Return the turns of rows, whole and with their clips."""
    found = await session.rows(select(clips).where(clips.c.turn_pk.in_([row.pk for row in rows])))
    kept = {(row.turn_pk, row.kind): Clip(ClipKind(row.kind), row.digest, row.size_bytes) for row in found}
    of_each = [[kept[row.pk, kind] for kind in ClipKind if (row.pk, kind) in kept] for row in rows]
    return [whole(row, conversation or row.conversation, mine) for row, mine in zip(rows, of_each, strict=True)]


def _size_of(row: Any) -> int:
    """Return about how much of a message the turn of a row takes."""
    others = ("vote_record", "models", "variants", "votes", "timings_s") if "votes" in row._fields else ()
    return len((row.user_text + row.reply_text).encode()) + sum(len(str(getattr(row, name))) for name in others) + 512
