"""Conversations: turns kept, listed and found again; their clips and timings."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import Select, and_, bindparam, delete, insert, select, update

from services.common.errors import InvalidRequest, NotFound, TooLarge
from services.memory.blobs import digest_of, new_key
from services.memory.checks import check_handle
from services.memory.database import Session
from services.memory.domain import (
    CLIP_USES,
    Clip,
    ClipKind,
    Hit,
    Identity,
    Recalled,
    Sought,
    Turn,
    TurnDelivery,
    TurnVote,
    Use,
)
from services.memory.embedding import Embedding, Vectors
from services.memory.repositories.identities import Identities
from services.memory.schema import clips, conversations, identities, turn_embeddings, turns, users
from services.memory.search import Searcher, Wanted
from services.memory.storage import Storage, ensure_tenant, insert_new
from services.memory.turn_checks import check_sought, check_timings, check_turn

BYTES_MAX = 2**20
"""At most so many bytes of turns are returned at once, so that they fit into one message; one turn always does."""

CLIP_BYTES_MAX = 64 * 2**20
"""Largest clip."""

_FORMATS = {ClipKind.SPEECH: "a WAV file", ClipKind.VIDEO: "an MP4 file"}
_BRIEF = ("id", "user_text", "user_emotion", "user_intensity", "reply_text", "reply_emotion", "models", "variants")
_BRIEF_COLUMNS = [turns.c[name] for name in (*_BRIEF, "said_at_s", "pk", "place", "conversation_id")]

# Built once: a recall, which every turn waits for, makes these two queries.
HEAD = (
    select(
        identities.c.id,
        identities.c.version,
        users.c.id.label("user_id"),
        conversations.c.id.label("conversation_id"),
    )
    .select_from(
        identities.outerjoin(
            users,
            and_(
                users.c.tenant == identities.c.tenant,
                users.c.kind == bindparam("kind"),
                users.c.name == bindparam("user"),
            ),
        ).outerjoin(
            conversations,
            and_(
                conversations.c.identity_id == identities.c.id,
                conversations.c.user_id == users.c.id,
                conversations.c.name == bindparam("conversation"),
            ),
        )
    )
    .where(identities.c.tenant == bindparam("tenant"), identities.c.name == bindparam("identity"))
)
LAST = (
    select(*_BRIEF_COLUMNS)
    .where(turns.c.tenant == bindparam("tenant"), turns.c.conversation_id == bindparam("conversation_id"))
    .order_by(turns.c.place.desc())
    .limit(bindparam("count"))
)


class Conversations:
    """Conversations of users with identities. An empty user is one who is known in one conversation only.

    Methods raise `InvalidRequest` for a name or field that is not allowed, `NotFound` when the identity is unknown,
    `FailedPrecondition` when a permission is missing.
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
        check_turn(turn)
        vector = await self.embedding.of(turn.user_text)
        said = replace(turn, said_at_s=self._storage.clock())

        async def work(session: Session) -> None:
            identity = await self._identities.found(session, name, {Use.KEEP_TURNS})
            if recalled.identity not in ("", identity.generation):
                problem = f"identity {name!r} was erased since it was recalled for this turn"
                raise NotFound(f"{problem}; nothing is kept")
            user_id = await self._known_user(session, user, conversation, recalled.user)
            conversation_id = await self.open(session, identity.generation, user_id, conversation, said.said_at_s)
            await self.append(session, identity.generation, user_id, conversation_id, [(said, vector)])

        await self._storage.write(tenant, work)

    async def open(self, session: Session, identity_id: str, user_id: str, conversation: str, now_s: float) -> int:
        """Return the id of a conversation, which is made if there is none."""
        columns = conversations.c
        values = {"identity_id": identity_id, "user_id": user_id, "name": conversation}
        found = select(columns.id).where(*(columns[key] == value for key, value in values.items()))
        if (known := await session.scalar(found)) is None:
            await insert_new(session, conversations, {**values, "tenant": session.tenant, "created_at_s": now_s})
            known = await session.scalar(found)
        return int(known)

    async def append(
        self,
        session: Session,
        identity_id: str,
        user_id: str,
        conversation_id: int,
        said: Sequence[tuple[Turn, Vectors | None]],
    ) -> dict[str, int]:
        """Append turns with their embeddings, but those whose ids are there; return primary keys by turn id."""
        columns = conversations.c
        place = await session.scalar(select(columns.last_place).where(columns.id == conversation_id).with_for_update())
        mine = turns.c.conversation_id == conversation_id
        ids = [turn.id for turn, _ in said]
        there = await session.rows(select(turns.c.id, turns.c.pk).where(mine, turns.c.id.in_(ids)))
        keys = {row.id: row.pk for row in there}
        for turn, vector in said:
            if turn.id in keys:
                continue
            place += 1
            values = {name: value for name, value in asdict(turn).items() if name not in ("clips", "conversation")}
            values |= {"place": place, "kept_at_s": self._storage.clock()}
            statement = insert(turns).values(tenant=session.tenant, conversation_id=conversation_id, **values)
            keys[turn.id] = await session.inserted(statement)
            row = {
                "turn_pk": keys[turn.id],
                "tenant": session.tenant,
                "user_id": user_id,
                "identity_id": identity_id,
                "conversation_id": conversation_id,
                "user_emotion": turn.user_emotion,
                "said_at_s": turn.said_at_s,
                "model_digest": self.embedding.digest,
                "vector": vector,
            }
            await session.run(insert(turn_embeddings).values(row))
        await session.run(update(conversations).where(columns.id == conversation_id).values(last_place=place))
        return keys

    async def search(self, tenant: str, name: str, user: str, conversation: str, sought: Sought) -> list[Hit]:
        """Return past turns of a user with an identity that are like a text, without vote records and timings.

        Args:
            tenant: Whose identity.
            name: Its name.
            user: Whom it talks with.
            conversation: Only turns of this one; empty for all of the user's.
            sought: What is searched for.
        """
        check_sought(sought)
        kind, who = user_key(user, conversation or sought.here)
        if conversation and sought.here:
            check_handle("here", sought.here)
        vector = await self.embedding.of(sought.text)
        here = sought.here or conversation
        since_s = self._storage.clock() - sought.age_max_s if sought.age_max_s else float("-inf")

        async def work(session: Session) -> list[Hit]:
            identity = await self._identities.found(session, name, {Use.KEEP_TURNS})
            columns = users.c
            known = columns.tenant == tenant, columns.kind == kind, columns.name == who
            user_id = await session.scalar(select(columns.id).where(*known))
            if vector is None or user_id is None:
                return []
            ids = await self._named(session, identity, user_id, {conversation, here} - {""})
            if conversation and conversation not in ids:
                return []
            wanted = Wanted(
                vector,
                sought.hits_max + len(sought.without),
                sought.similarity_min,
                (identity.generation,),
                ids[conversation][0] if conversation else None,
                sought.user_emotions,
                since_s,
            )
            found = await self._searcher.turns(session, user_id, wanted)
            return await self._hits(session, found, sought, ids.get(here))

        return await self._storage.read(tenant, work)

    async def page(
        self, tenant: str, name: str, user: str, conversation: str, page_size: int, after: str
    ) -> tuple[list[Turn], str]:
        """Return turns, the newest first, whole and with their clips; and what the next page is after."""
        check_handle("conversation", conversation)
        kind, who = user_key(user, conversation)
        if after and not (after.isdecimal() and len(after) < 10):
            raise InvalidRequest("page_token", f"{after[:80]!a} is none; send what the page before returned")

        async def work(session: Session) -> tuple[list[Turn], str]:
            await self._identities.found(session, name)
            values = {"tenant": tenant, "identity": name, "kind": kind, "user": who, "conversation": conversation}
            head = await session.first(HEAD, values)
            conversation_id = head.conversation_id if head else None
            statement = select(turns).where(turns.c.tenant == tenant, turns.c.conversation_id == conversation_id)
            if after:
                statement = statement.where(turns.c.place < int(after))
            rows = await session.rows(statement.order_by(turns.c.place.desc()).limit(page_size + 1))
            page = fitting(rows[:page_size])
            is_last = len(page) == len(rows)
            return await with_clips(session, page, conversation), "" if is_last else str(page[-1].place)

        return await self._storage.read(tenant, work)

    async def put_clip(
        self, tenant: str, name: str, user: str, conversation: str, turn_id: str, kind: ClipKind, content: bytes
    ) -> Clip:
        """Keep the speech or the video of a turn, in place of the one that there may be.

        Raises:
            NotFound: Also when the turn is unknown; nothing is kept then.
        """
        check_clip(kind, content)
        clip = Clip(kind, digest_of(content), len(content))

        async def turn_of(session: Session) -> int:
            return await self._turn(session, name, user, conversation, turn_id, {Use.KEEP_TURNS})

        pk = await self._storage.read(tenant, turn_of)
        key, now_s = new_key(tenant, f"turns/{pk}", clip.digest), self._storage.clock()

        async def work(session: Session) -> None:
            if pk != await turn_of(session):
                raise _unknown_turn(turn_id)
            await self.insert_clip(session, pk, clip, key, now_s)

        await self._storage.keep(tenant, [(key, content)], work)
        return clip

    async def insert_clip(self, session: Session, pk: int, clip: Clip, key: str, now_s: float) -> None:
        """Insert the row of a clip in place of the one that there may be."""
        columns = clips.c
        await session.run(delete(clips).where(columns.turn_pk == pk, columns.kind == clip.kind, columns.key != key))
        values = {"tenant": session.tenant, "turn_pk": pk, "key": key, "created_at_s": now_s, **asdict(clip)}
        if await session.first(select(columns.key).where(columns.key == key)) is None:
            await session.run(insert(clips).values(**values))

    async def clip(self, tenant: str, name: str, user: str, conversation: str, turn_id: str, kind: ClipKind) -> bytes:
        """Return the speech or the video of a turn.

        Raises:
            NotFound: Also when the turn is unknown or has no such clip.
            Damaged: The object is not what was kept.
        """

        async def work(session: Session) -> Any:
            pk = await self._turn(session, name, user, conversation, turn_id, CLIP_USES[kind])
            columns = clips.c
            mine = columns.tenant == tenant, columns.turn_pk == pk, columns.kind == kind
            return await session.first(select(columns.key, columns.digest).where(*mine))

        row = await self._storage.read(tenant, work)
        if row is None:
            raise NotFound(f"there is no {kind} of that turn; ListTurns says which clips were kept")
        return await self._storage.media.get(row.key, row.digest)

    async def put_timings(
        self, tenant: str, name: str, user: str, conversation: str, turn_id: str, timings_s: dict[str, float]
    ) -> None:
        """Keep how long the stages of a turn took, once it is over; those that came first stay.

        Raises:
            NotFound: Also when the turn is unknown.
        """
        if not timings_s:
            raise InvalidRequest("timings_s", "it is empty; name each stage with the seconds that it took")
        check_timings("timings_s", timings_s)

        async def work(session: Session) -> None:
            pk = await self._turn(session, name, user, conversation, turn_id, {Use.KEEP_TURNS})
            first = turns.c.pk == pk, turns.c.are_timings_final.is_(False)
            await session.run(update(turns).where(*first).values(timings_s=timings_s, are_timings_final=True))

        await self._storage.write(tenant, work)

    async def insert_user(self, session: Session, kind: str, name: str) -> str:
        """Return the id of a user, who is made known if there is none."""
        columns = users.c
        found = select(columns.id).where(columns.tenant == session.tenant, columns.kind == kind, columns.name == name)
        if (known := await session.scalar(found)) is None:
            await ensure_tenant(session)
            values = {"id": uuid4().hex, "tenant": session.tenant, "kind": kind, "name": name}
            await insert_new(session, users, {**values, "created_at_s": self._storage.clock()})
            known = await session.scalar(found)
        return str(known)

    async def turn(self, session: Session, name: str, user: str, conversation: str, turn_id: str) -> int:
        """Return the primary key of a turn; see `_turn`."""
        return await self._turn(session, name, user, conversation, turn_id)

    async def _known_user(self, session: Session, user: str, conversation: str, expected: str) -> str:
        """Return the id of a user.

        Raises:
            NotFound: The user of the id `expected` was erased.
        """
        kind, who = user_key(user, conversation)
        if expected:
            columns = users.c
            mine = columns.tenant == session.tenant, columns.kind == kind, columns.name == who
            if await session.scalar(select(columns.id).where(*mine)) != expected:
                raise NotFound(f"person {who!r} was erased meanwhile; nothing of this call is kept")
            return expected
        return await self.insert_user(session, kind, who)

    async def _turn(
        self, session: Session, name: str, user: str, conversation: str, turn_id: str, uses: Collection[str] = ()
    ) -> int:
        """Return the primary key of a turn, if all of `uses` are allowed.

        Raises:
            NotFound: The identity or the turn is unknown.
        """
        check_handle("conversation", conversation)
        check_handle("turn", turn_id)
        kind, who = user_key(user, conversation)
        await self._identities.found(session, name, uses)
        values = {"tenant": session.tenant, "identity": name, "kind": kind, "user": who, "conversation": conversation}
        head = await session.first(HEAD, values)
        conversation_id = head.conversation_id if head else None
        pk = await session.scalar(
            select(turns.c.pk).where(turns.c.conversation_id == conversation_id, turns.c.id == turn_id)
        )
        if pk is None:
            raise _unknown_turn(turn_id)
        return int(pk)

    async def _named(
        self, session: Session, identity: Identity, user_id: str, names: Iterable[str]
    ) -> dict[str, tuple[int, int]]:
        """Return id and last place of conversations by name."""
        columns = conversations.c
        mine = columns.identity_id == identity.generation, columns.user_id == user_id, columns.name.in_(list(names))
        rows = await session.rows(select(columns.name, columns.id, columns.last_place).where(*mine))
        return {row.name: (row.id, row.last_place) for row in rows}

    async def _hits(
        self, session: Session, found: Sequence[tuple[int, float]], sought: Sought, here: tuple[int, int] | None
    ) -> list[Hit]:
        """Return the turns that were found, the most similar first; fewer when they are very long."""
        statement: Select[Any] = select(*_BRIEF_COLUMNS, conversations.c.name.label("conversation")).join_from(
            turns, conversations, conversations.c.id == turns.c.conversation_id
        )
        keys = [pk for pk, _ in found]
        rows = {row.pk: row for row in await session.rows(statement.where(turns.c.pk.in_(keys)))}
        hits: list[Hit] = []
        left_bytes = BYTES_MAX
        for pk, similarity in found:
            row = rows.get(pk)
            is_here = here is not None and row is not None and row.conversation_id == here[0]
            if row is None or (is_here and row.id in sought.without):
                continue
            left_bytes -= _size_of(row)
            if left_bytes < 0 or len(hits) == sought.hits_max:
                break
            ago = here[1] - row.place + 1 if is_here and here else 0
            hits.append(Hit(brief(row, row.conversation), similarity, ago))
        return hits


def user_key(user: str, conversation: str) -> tuple[str, str]:
    """Return kind and name of a user.

    Raises:
        InvalidRequest: A name is not allowed, or both are empty.
    """
    if user:
        check_handle("person", user)
    if conversation:
        check_handle("conversation", conversation)
    if not user and not conversation:
        raise InvalidRequest("conversation", "it is empty, and no person is named; name one of them")
    return ("user", user) if user else ("conversation", conversation)


def brief(row: Any, conversation: str) -> Turn:
    """Return the turn of a row without what is not recalled."""
    return Turn(**{name: getattr(row, name) for name in _BRIEF}, said_at_s=row.said_at_s, conversation=conversation)


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
    kept = {(row.turn_pk, ClipKind(row.kind)): Clip(ClipKind(row.kind), row.digest, row.size_bytes) for row in found}
    return [
        whole(
            row,
            conversation or row.conversation,
            (kept[row.pk, kind] for kind in ClipKind if (row.pk, kind) in kept),
        )
        for row in rows
    ]


def check_clip(kind: ClipKind, content: bytes) -> None:
    """Check that a clip is there, is not too large and begins as its format does.

    Raises:
        InvalidRequest: It is not so.
    """
    if not content:
        raise InvalidRequest("content", f"it is missing (0 bytes); send {_FORMATS[kind]}")
    if len(content) > CLIP_BYTES_MAX:
        raise TooLarge("content", f"it has {len(content)} bytes; send at most {CLIP_BYTES_MAX} (64 MiB)")
    is_wav = content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    if not (is_wav if kind is ClipKind.SPEECH else content[4:8] == b"ftyp"):
        raise InvalidRequest("content", f"its {len(content)} bytes begin with {content[:12]!r}; send {_FORMATS[kind]}")


def _size_of(row: Any) -> int:
    """Return about how much of a message the turn of a row takes."""
    names = sum(len(name) + len(value) + 8 for name, value in (*row.models.items(), *row.variants.items()))
    record = len(getattr(row, "vote_record", b""))
    return len(row.user_text.encode()) + len(row.reply_text.encode()) + names + record + 512


def _unknown_turn(turn_id: str) -> NotFound:
    return NotFound(f"turn {turn_id!r} is unknown; use one that ListTurns tells")
