"""Import of an identity out of the members of an archive."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any
from uuid import uuid4

from sqlalchemy import Table, select

from services.common.errors import Conflict, InvalidRequest
from services.common.tar import Member
from services.memory import checks
from services.memory.archive_format import (
    ABOUT,
    EXAMPLES,
    ORDER,
    RAISED_RISKS,
    SAID_TURNS,
    TIME_S_MAX,
    VERSION,
    SaidTurn,
    check_described,
    earlier,
    match,
    read_about,
    read_lines,
    user_of,
    wrong,
)
from services.memory.domain import ClipKind, File, Generator, Identity, Reference, Turn
from services.memory.repositories.conversations import Conversations, insert_clip
from services.memory.repositories.examples import Examples
from services.memory.repositories.risks import insert_risks, is_unfaded
from services.memory.schema import conversations, emotion_references, identities, reference_files, turns, users
from services.memory.session import Session, by
from services.memory.storage import Columns

GONE = "its tenant was erased while it was imported, or that took more than an hour; import it again"


class Import:
    """An import under way: its identity has no name, so that nobody finds it, until all of it is there."""

    def __init__(
        self,
        conversations: Conversations,
        examples: Examples,
        drain: Callable[[], Awaitable[None]],
        tenant: str,
        name: str,
    ) -> None:
        self._storage, self._identities = conversations.storage, conversations.identities
        self._conversations, self._solved, self._drain = conversations, examples, drain
        self._tenant, self._name = tenant, name
        self._identity: Identity | None = None
        self._id = ""
        self._format, self._stage, self._next_version = VERSION, 0, 1
        self._missing: dict[str, Reference] = {}
        self._users: set[str] = set()

    async def put(self, member: Member) -> None:
        """Keep a member; its name is one that may be there, its seal is right."""
        if self._identity is None:
            await self._begin(member)
            return
        if (found := match(member.name)) is None:
            raise wrong(f"its member {member.name!r} is there again")
        stage = ORDER.index(member.name.partition("/")[0])
        # Voice and face examine an archive at the gateway, but read no further than its emotional references.
        self._require_whole(stage)
        if stage < self._stage and stage < 3:
            raise wrong(f"its member {member.name!r} stands after others")
        self._stage = max(stage, self._stage)
        match stage:
            case 0:
                await self._reference(member)
            case 1:
                await self._earlier(member, int(found["version"]))
            case 2:
                await self._emotion(member, Generator(found["generator"]), found["name"])
            case 3:
                await self._examples(member)
            case _ if "clip" in found.groupdict():
                await self._clip(member, found["person"], found["conversation"], found["turn"], ClipKind(found["clip"]))
            case _ if found["lines"] == "risks":
                await self._risks(member, found["person"])
            case _:
                await self._turns(member, found["person"])

    async def end(self) -> Identity:
        """Let the identity be found, if all of it is there."""
        if (identity := self._identity) is None:
            raise wrong(f"it does not begin with {ABOUT}; send one that an export wrote")
        self._require_whole(5)

        async def work(session: Session) -> Identity:
            if first := await session.outcome():
                return (await self._identities.versions(session, [(identity.id, *first)]))[0]
            await self._identities.require_free(session, identity.id)
            if not await session.change(identities, by(identities, id=identity.generation), name=identity.id):
                raise Conflict(GONE)
            await session.record([identity.generation, identity.version], self._storage.clock())
            return identity

        there = await self._storage.write(self._tenant, work)
        if there.generation != identity.generation:  # The first try of this call imported it.
            await self.withdraw()
        return there

    async def withdraw(self) -> None:
        """Take everything back."""
        if (identity := self._identity) is None:
            return
        silent = users.c.id.in_(self._users), users.c.id.not_in(select(conversations.c.user_id))

        async def work(session: Session) -> None:
            await session.drop(identities, id=identity.generation, name=None)
            await session.drop(users, *silent)

        await self._storage.write(self._tenant, work)
        await self._drain()

    async def _begin(self, member: Member) -> None:
        if member.name != ABOUT:
            raise wrong(f"it does not begin with {ABOUT}; send one that an export wrote")
        who = read_about(member.content)
        checks.check_id("identity", self._name or who.id)
        check_described(ABOUT, who)
        if not who.grants:
            raise InvalidRequest(f"{ABOUT}.grants", "it is empty; nothing was allowed")
        changed_at_s = self._storage.clock() if who.changed_at_s is None else who.changed_at_s
        identity = who.identity(self._name or who.id, uuid4().hex, changed_at_s)

        async def work(session: Session) -> None:
            if await session.outcome(is_whole=False) is None:
                await self._identities.require_free(session, identity.id)
            try:
                await self._identities.require_bank(session, f"{ABOUT}.emotion_bank", who.emotion_bank)
            except InvalidRequest:
                remedy = "store that emotion bank first (`e3rg emotion bank FILE`)"
                raise InvalidRequest(
                    f"{ABOUT}.emotion_bank", f"{who.emotion_bank!r} is unknown here; {remedy}"
                ) from None
            await session.ensure_tenant()
            await session.drop(identities, id=identity.generation)  # A first try may have been committed.
            await self._identities.insert(session, identity, is_visible=False)

        await self._storage.write(self._tenant, work)
        self._identity, self._id, self._format = identity, identity.generation, who.version
        self._missing = {reference.digest: reference for reference in identity.references}

    def _require_whole(self, stage: int) -> None:
        """Refuse a member of a stage before those of the stages before it are there."""
        missing = [f"references/{digest}" for digest in self._missing] if stage > 0 else []
        if stage > 1 and self._identity and self._next_version < self._identity.version:
            missing.append(earlier(self._next_version))
        if missing:
            raise wrong(f"its member {missing[0]!r} is missing, or stands after others")

    async def _reference(self, member: Member) -> None:
        if (declared := self._missing.get(member.name.removeprefix("references/"))) is None:
            raise wrong(f"its member {member.name!r} is no file that {ABOUT} names")
        (reference,) = checks.new_references(f"archive: {member.name}", [File(declared.kind, member.content)], since=1)
        if reference != declared:
            raise wrong(f"its member {member.name!r} is not what {ABOUT} says of it")
        await self._media(reference_files, member.content)
        del self._missing[reference.digest]

    async def _earlier(self, member: Member, version: int) -> None:
        assert self._identity
        name, head = member.name, self._identity
        if self._next_version == head.version:
            raise wrong(f"its member {name!r} is not before version {head.version}, of which {ABOUT} is")
        if version != self._next_version:
            raise wrong(f"its member {name!r} stands where {earlier(self._next_version)!r} is expected")
        who = read_about(member.content, name)
        check_described(name, who)
        if who.identity_version != version:
            raise InvalidRequest(f"{name}.identity_version", f"{who.identity_version}; its name says {version}")
        if who.changed_at_s is None:
            raise InvalidRequest(f"{name}.changed_at_s", "it is missing")
        was = who.identity(head.id, head.generation, who.changed_at_s)
        now = {each.digest: each for each in head.references}
        for place, reference in enumerate(was.references):
            if now.get(reference.digest, reference) != reference:
                raise InvalidRequest(f"{name}.references[{place}]", f"it is not what {ABOUT} says of that file")
        await self._storage.write(self._tenant, lambda session: self._identities.insert_version(session, was))
        self._next_version += 1

    async def _emotion(self, member: Member, generator: Generator, name: str) -> None:
        checks.check_emotion(f"archive: {member.name}", generator, name)
        checks.check_media_type(f"archive: {member.name}", member.media_type)
        if not member.content:
            raise wrong(f"its member {member.name!r} is empty")
        about = {"generator": generator, "name": name, "media_type": member.media_type}
        await self._media(emotion_references, member.content, **about)

    async def _media(self, table: Table, content: bytes, **about: Any) -> None:
        """Keep an object of the identity and its row."""

        async def work(session: Session, media: Sequence[Columns]) -> None:
            await session.add(table, identity_id=self._id, **media[0], **about)

        await self._storage.keep(self._tenant, f"identities/{self._id}", [content], work)

    async def _examples(self, member: Member) -> None:
        new = read_lines(member, EXAMPLES)
        vectors = await self._solved.vectors(new)
        await self._storage.write(self._tenant, lambda session: self._solved.insert(session, self._id, new, vectors))

    async def _turns(self, member: Member, person: str) -> None:
        kept = self._conversations
        said = [self._read(member, person, each) for each in read_lines(member, SAID_TURNS)]
        vectors = await kept.embedding.of_all([turn.user_text for turn in said])
        pairs = list(zip(said, vectors, strict=True))

        async def work(session: Session) -> None:
            user_id = await kept.insert_user(session, *user_of(person))
            self._users.add(user_id)
            for conversation, group in groupby(pairs, lambda pair: pair[0].conversation):
                await kept.append(session, self._id, user_id, conversation, list(group))

        await self._storage.write(self._tenant, work)

    def _read(self, member: Member, person: str, said: SaidTurn) -> Turn:
        """Return the turn of a line, checked."""
        turn = said.turn
        if self._format < 3:
            turn = replace(turn, models=turn.variants, variants={})
        checks.check_handle("conversation", turn.conversation)
        checks.check("turn", turn)
        if not 0 <= turn.said_at_s <= TIME_S_MAX:  # So also what is no number.
            raise wrong(f"its member {member.name!r}: said_at_s is {turn.said_at_s}, which is no Unix time")
        if person.startswith("c-") and turn.conversation != person[2:]:
            raise wrong(f"its member {member.name!r} has turns of another conversation")
        if not re.fullmatch(rf"[0-9]{{10}}-{turn.id}", said.placed):
            raise InvalidRequest("turn", f"{said.placed[:80]!a} is no place of turn {turn.id!r}")
        return turn

    async def _risks(self, member: Member, person: str) -> None:
        raised, now_s = read_lines(member, RAISED_RISKS), self._storage.clock()
        for each in raised:
            checks.check_handle(f"archive: {member.name}: conversation", each.conversation)
            checks.check_handle(f"archive: {member.name}: id", each.risk.id)
            if not 0 <= (raised_at_s := each.risk.raised_at_s) <= TIME_S_MAX:
                raise wrong(f"its member {member.name!r}: raised_at_s is {raised_at_s}, which is no Unix time")
            if person.startswith("c-") and each.conversation != person[2:]:
                raise wrong(f"its member {member.name!r} has risks of another conversation")
        if not (unfaded := [each for each in raised if is_unfaded(each.risk.raised_at_s, now_s)]):
            return

        async def work(session: Session) -> None:
            user_id = await self._conversations.insert_user(session, *user_of(person))
            self._users.add(user_id)
            for conversation, group in groupby(unfaded, lambda each: each.conversation):
                talk = {"identity_id": self._id, "user_id": user_id, "name": conversation}
                await insert_risks(session, [each.risk for each in group], now_s, **talk)

        await self._storage.write(self._tenant, work)

    async def _clip(self, member: Member, person: str, conversation: str, turn_id: str, kind: ClipKind) -> None:
        user_kind, user = user_of(person)
        found = (
            select(turns.c.pk)
            .join_from(turns, conversations)
            .join(users, users.c.id == conversations.c.user_id)
            .where(by(conversations, identity_id=self._id, name=conversation), by(users, kind=user_kind, name=user))
            .where(turns.c.id == turn_id)
        )
        if not (rows := await self._storage.rows(self._tenant, found)):
            raise wrong(f"its member {member.name!r} is of a turn that does not stand before it")
        checks.check_clip(kind, member.content)

        async def work(session: Session, media: Sequence[Columns]) -> None:
            await insert_clip(session, rows[0].pk, kind, *media)

        await self._storage.keep(self._tenant, f"turns/{rows[0].pk}", [member.content], work)
