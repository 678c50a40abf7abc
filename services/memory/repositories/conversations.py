"""Conversations: turns kept, listed and found again; their clips and timings."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import bindparam, select

from services.common.errors import InvalidRequest, NotFound
from services.memory.checks import check, check_clip, check_handle
from services.memory.domain import (
    CLIP_USES,
    Clip,
    ClipKind,
    ConversationKey,
    Hit,
    Identity,
    Outcome,
    Sought,
    Turn,
    Use,
    digest_of,
)
from services.memory.embedding import Embedding, Vectors
from services.memory.repositories.identities import Identities
from services.memory.repositories.pages import fitting, page_of
from services.memory.schema import assignments, clips, conversations, identities, turn_embeddings, turns, users
from services.memory.search import Searcher, Wanted
from services.memory.session import InterferedError, Session, by, read_as
from services.memory.storage import Columns, Storage, reading, writing

_TOLD = ("id", "user_text", "user_emotion", "user_intensity", "reply_text", "reply_emotion", "said_at_s")
"""Fields of a turn that recall and search return."""

_BRIEF = [turns.c[name] for name in (*_TOLD, "pk", "place", "conversation_id")]
_FROM = (
    identities.outerjoin(users, by(users, tenant=identities.c.tenant, kind=bindparam("kind"), name=bindparam("user")))
    .outerjoin(
        conversations,
        by(conversations, identity_id=identities.c.id, user_id=users.c.id, name=bindparam("conversation")),
    )
    .outerjoin(
        turns,
        (turns.c.conversation_id == conversations.c.id)
        & (turns.c.place > conversations.c.last_place - bindparam("count")),
    )
    .outerjoin(assignments, by(assignments, user_id=users.c.id, experiment=bindparam("experiment")))
)
_MORE = turns.c.variants.label("turn_variants"), assignments.c.variants.label("assigned"), conversations.c.risks
HEAD = (
    select(identities.c.id.label("identity_id"), identities.c.version, users.c.id.label("user_id"), *_BRIEF, *_MORE)
    .select_from(_FROM)
    .where(by(identities, tenant=bindparam("tenant"), name=bindparam("identity")))
    .order_by(turns.c.place)
)
"""One row for each of the last turns, oldest first, at least one: built once, and the only query of a warm recall."""


class Conversations:
    """Conversations of users with identities.

    Methods raise `NotFound` when identity or turn are unknown, `FailedPrecondition` when a permission is missing.
    """

    def __init__(self, storage: Storage, identities: Identities, embedding: Embedding, searcher: Searcher) -> None:
        self.storage, self.identities = storage, identities
        self.embedding, self._searcher = embedding, searcher

    async def remember(
        self, tenant: str, key: ConversationKey, turn: Turn, identity_generation: str = "", user_generation: str = ""
    ) -> None:
        """Keep a turn, with the time of the memory's clock; a turn id that the conversation has changes nothing.

        Raises:
            NotFound: Also when identity or user are not of the generations that were recalled, where these are told.
        """
        check_handle("conversation", key.conversation)
        check("turn", turn)
        kind, name = user_of(key)
        vector = await self.embedding.of(turn.user_text)
        said = replace(turn, said_at_s=self.storage.clock())

        async def work(session: Session) -> None:
            identity = await self.identities.found(session, key.identity, {Use.KEEP_TURNS})
            if identity_generation not in ("", identity.generation):
                problem = f"identity {key.identity!r} was erased since it was recalled for this turn"
                raise NotFound(f"{problem}; nothing is kept")
            known = await session.find(users, kind=kind, name=name)
            if user_generation not in ("", known.id if known else ""):
                raise NotFound(f"person {name!r} was erased meanwhile; nothing of this call is kept")
            user_id = known.id if known else await self.insert_user(session, kind, name)
            is_new = await self.append(session, identity.generation, user_id, key.conversation, [(said, vector)])
            if turn.experiment and is_new:
                first = {"experiment": turn.experiment, "variants": turn.variants, "phase": turn.phase}
                await session.add_new(assignments, tenant=tenant, user_id=user_id, **first)

        await self.storage.write(tenant, work)

    async def append(
        self,
        session: Session,
        identity_id: str,
        user_id: str,
        conversation: str,
        said: Sequence[tuple[Turn, Vectors | None]],
    ) -> int:
        """Append turns with their embeddings, but those whose ids are there, and return how many.

        The conversation is made if need be.
        """
        now_s, whose = self.storage.clock(), {"identity_id": identity_id, "user_id": user_id}
        await session.add_new(conversations, tenant=session.tenant, **whose, name=conversation, created_at_s=now_s)
        if (found := await session.find(conversations, is_locking=True, **whose, name=conversation)) is None:
            raise InterferedError("the conversation was erased meanwhile")
        ids = turns.c.id.in_([turn.id for turn, _ in said])
        there = await session.rows(select(turns.c.id).where(turns.c.conversation_id == found.id, ids))
        known, place = {row.id for row in there}, found.last_place
        for turn, vector in said:
            if turn.id in known:
                continue
            place += 1
            values = {name: value for name, value in asdict(turn).items() if name not in ("clips", "conversation")}
            pk = await session.add(turns, conversation_id=found.id, place=place, kept_at_s=now_s, **values)
            about = {"user_emotion": turn.user_emotion, "said_at_s": turn.said_at_s, "conversation_id": found.id}
            row = {**whose, **about, "model_digest": self.embedding.digest, "vector": vector}
            await session.add(turn_embeddings, turn_pk=pk, **row)
        await session.change(conversations, conversations.c.id == found.id, last_place=place)
        return int(place - found.last_place)

    async def near(
        self, session: Session, identity: Identity, key: ConversationKey, sought: Sought, vector: Vectors
    ) -> list[Hit]:
        """Return past turns of a user with an identity that are like a text, the most similar first.

        An empty conversation means all of the user's. Fewer are returned when they are very long.
        """
        here = sought.here or key.conversation
        kind, name = user_of(replace(key, conversation=key.conversation or here))
        if (known := await session.find(users, kind=kind, name=name)) is None:
            return []
        mine = session.mine(conversations, identity_id=identity.generation, user_id=known.id)
        named = select(conversations).where(mine, conversations.c.name.in_([key.conversation, here]))
        by_name = {row.name: row for row in await session.rows(named)}
        if key.conversation and key.conversation not in by_name:
            return []
        wanted = Wanted(
            vector,
            sought.hits_max + len(sought.without),
            sought.similarity_min,
            (identity.generation,),
            by_name[key.conversation].id if key.conversation else None,
            sought.user_emotions,
            self.storage.clock() - sought.age_max_s if sought.age_max_s else float("-inf"),
        )
        found = await self._searcher.turns(session, known.id, wanted)
        return await _hits(session, found, sought, by_name.get(here))

    @reading
    async def page(self, session: Session, key: ConversationKey, page_size: int, after: str) -> tuple[list[Turn], str]:
        """Return turns, the newest first, whole and with their clips; and what the next page is after."""
        check_handle("conversation", key.conversation)
        if after and not (after.isdecimal() and len(after) < 10):
            raise InvalidRequest("page_token", f"{after[:80]!a} is none; send what the page before returned")
        mine = session.mine(turns, conversation_id=await self._conversation(session, key))
        older = select(turns).where(mine, turns.c.place < int(after or 2**31 - 1)).order_by(turns.c.place.desc())
        rows = await session.rows(older.limit(page_size + 1))
        page, following = page_of(rows, page_size, lambda row: str(row.place), size_of)
        return await with_clips(session, page, key.conversation), following

    async def put_clip(self, tenant: str, key: ConversationKey, turn_id: str, kind: ClipKind, content: bytes) -> Clip:
        """Keep the speech or the video of a turn, in place of the one that there may be."""
        check_clip(kind, content)

        async def turn_of(session: Session) -> int:
            return await self.turn(session, key, turn_id, {Use.KEEP_TURNS})

        async def work(session: Session, media: Sequence[Columns]) -> None:
            await insert_clip(session, await turn_of(session), kind, *media)

        owner = f"turns/{await self.storage.read(tenant, turn_of)}"
        await self.storage.keep(tenant, owner, [content], work)
        return Clip(kind, digest_of(content), len(content))

    async def clip(self, tenant: str, key: ConversationKey, turn_id: str, kind: ClipKind) -> bytes:
        """Return the speech or the video of a turn.

        Raises:
            Damaged: The object is not what was kept.
        """

        async def work(session: Session) -> Any:
            return await session.find(clips, turn_pk=await self.turn(session, key, turn_id, CLIP_USES[kind]), kind=kind)

        if (row := await self.storage.read(tenant, work)) is None:
            raise NotFound(f"there is no {kind} of that turn; ListTurns says which clips were kept")
        return await self.storage.media.get(row.key, row.digest)

    @writing
    async def put_outcome(self, session: Session, key: ConversationKey, turn_id: str, outcome: Outcome) -> None:
        """Keep how a turn went, once it is over; what came first stays."""
        if not outcome.timings_s:
            raise InvalidRequest("timings_s", "it is empty; name each stage with the seconds that it took")
        check("outcome", outcome)
        pk = await self.turn(session, key, turn_id, {Use.KEEP_TURNS})
        first = session.mine(turns, pk=pk, are_timings_final=False)
        served = {name: each for name in ("models", "variants") if (each := getattr(outcome, name))}
        about = {"timings_s": outcome.timings_s, "degraded": outcome.degraded}
        await session.change(turns, first, **about, **served, are_timings_final=True)

    async def insert_user(self, session: Session, kind: str, name: str) -> str:
        """Return the id of a user, who is made known if there is none."""
        await session.ensure_tenant()
        new = {"id": uuid4().hex, "tenant": session.tenant, "created_at_s": self.storage.clock()}
        await session.add_new(users, **new, kind=kind, name=name)
        return str((await session.find(users, kind=kind, name=name)).id)

    async def turn(self, session: Session, key: ConversationKey, turn_id: str, uses: Collection[str] = ()) -> int:
        """Return the primary key of a turn, if all of `uses` are allowed."""
        check_handle("conversation", key.conversation)
        check_handle("turn", turn_id)
        conversation = await self._conversation(session, key, uses)
        if (found := await session.find(turns, conversation_id=conversation, id=turn_id)) is None:
            raise NotFound(f"turn {turn_id!r} is unknown; use one that ListTurns tells")
        return int(found.pk)

    async def _conversation(self, session: Session, key: ConversationKey, uses: Collection[str] = ()) -> int:
        """Return the id of a conversation, -1 without one, if all of `uses` are allowed."""
        kind, name = user_of(key)
        identity = await self.identities.found(session, key.identity, uses)
        mine = session.mine(conversations, identity_id=identity.generation, name=key.conversation)
        found = select(conversations.c.id).join_from(conversations, users).where(mine, by(users, kind=kind, name=name))
        return int(await session.value(found) or -1)


async def insert_clip(session: Session, pk: int, kind: ClipKind, media: Columns) -> None:
    """Insert the row of a clip in place of the one that there may be."""
    await session.find(turns, is_locking=True, pk=pk)  # One clip at a time.
    await session.drop(clips, turn_pk=pk, kind=kind)
    await session.add(clips, turn_pk=pk, kind=kind, **media)


async def _hits(session: Session, found: Sequence[tuple[int, float]], sought: Sought, here: Any) -> list[Hit]:
    """Return the turns that were found, as many as fit into a message; `here` is the conversation that goes on."""
    columns = select(*_BRIEF, conversations.c.name.label("conversation")).join_from(turns, conversations)
    rows = await session.rows(columns.where(turns.c.pk.in_([pk for pk, _ in found])))
    by_pk = {row.pk: row for row in rows if not (_is_of(row, here) and row.id in sought.without)}
    told = fitting([by_pk[pk] for pk, _ in found if pk in by_pk][: sought.hits_max], size_of)
    similarities = dict(found)
    return [
        Hit(
            read_as(Turn, row),
            similarities[row.pk],
            here.last_place - row.place + 1 if _is_of(row, here) else 0,
        )
        for row in told
    ]


def _is_of(row: Any, conversation: Any) -> bool:
    return conversation is not None and row.conversation_id == conversation.id


def user_of(key: ConversationKey) -> tuple[str, str]:
    """Return kind and name of the user of a conversation."""
    if key.user:
        check_handle("person", key.user)
    if key.conversation:
        check_handle("conversation", key.conversation)
    if not key.user and not key.conversation:
        raise InvalidRequest("conversation", "it is empty, and no person is named; name one of them")
    return ("user", key.user) if key.user else ("conversation", key.conversation)


async def with_clips(session: Session, rows: Sequence[Any], conversation: str = "") -> list[Turn]:
    """Return the turns of rows, whole and with their clips."""
    of_these = select(clips).where(clips.c.turn_pk.in_([row.pk for row in rows]))
    kept: dict[int, list[Clip]] = defaultdict(list)
    for row in await session.rows(of_these.order_by(clips.c.kind)):  # Speech, then video.
        kept[row.turn_pk].append(read_as(Clip, row))
    return [read_as(Turn, row, clips=kept[row.pk], conversation=conversation or row.conversation) for row in rows]


def size_of(row: Any) -> int:
    """Return about how much of a message the turn of a row takes."""
    others = ("vote_record", "models", "variants", "votes", "timings_s", "degraded") if "votes" in row._fields else ()
    return len((row.user_text + row.reply_text).encode()) + sum(len(str(getattr(row, name))) for name in others) + 512
