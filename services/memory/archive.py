"""A whole identity as one tar archive, and back.

An archive holds nothing that a model made (embeddings, derived data): an altered one cannot bring in what a model would
take for its own.

    identity.json                              profile, permissions, reference files; always the first
    references/<digest>                        reference files; before all others
    versions/<number>                          the same as identity.json of each earlier version, from 1
    emotions/<generator>/<name>                the identity's own emotional references
    exemplars/<number>                         examples: a line of JSON each
    people/<user>/turns/<number>               turns, oldest first: a line of JSON each
    people/<user>/clips/<conversation>/<place>-<turn>/<kind>   clips; behind the turns of their user

A user is "p-<name>", or "c-<conversation>" for one who is known in one conversation only.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy import Table, select, tuple_
from sqlalchemy.exc import IntegrityError

from services.common.errors import Conflict, Damaged, FailedPrecondition, InvalidRequest, NotFound
from services.common.tar import END, Member, Reader, packed
from services.memory import checks
from services.memory.blobs import new_key
from services.memory.consent import check_grants
from services.memory.domain import (
    Clip,
    ClipKind,
    Example,
    File,
    Generator,
    Grant,
    Identity,
    Profile,
    Reference,
    ReferenceKind,
    Turn,
    digest_of,
)
from services.memory.repositories.conversations import Conversations, with_clips
from services.memory.repositories.examples import Examples
from services.memory.repositories.identities import Identities
from services.memory.schema import (
    clips,
    conversations,
    emotion_references,
    examples,
    identities,
    reference_files,
    turns,
    users,
)
from services.memory.session import Session, by
from services.memory.storage import Storage

VERSION = 3
"""1 had no earlier versions of an identity; until 2 the models of a turn were called its variants."""

ABOUT, VERSIONS_MAX = "identity.json", 10_000
TIME_S_MAX = 1e11
"""Nothing was said or changed later: Unix time, of the year 5138."""
LINES_BYTES, LINES_MAX = 2**20, 200
"""A member of lines ends with so many bytes or lines: lines are embedded at once."""

GONE = "its tenant was erased while it was imported, or that took more than an hour; import it again"

_HANDLE, _LINES_BYTES_MAX = "[A-Za-z0-9-]{1,63}", 2**22
_ORDER = ("references", "versions", "emotions", "exemplars", "people")
_NAMES = {
    r"references/(?P<digest>[0-9a-f]{64})": max(checks.BYTES_MAX.values()),
    r"versions/(?P<version>[0-9]{10})": 2**16,
    r"emotions/(?P<generator>voice|face)/(?P<name>[a-z-]{1,63})": checks.EMOTION_BYTES_MAX,
    r"exemplars/[0-9]{6}": _LINES_BYTES_MAX,
    rf"people/(?P<person>[pc]-{_HANDLE})/turns/[0-9]{{6}}": _LINES_BYTES_MAX,
    rf"people/(?P<person>[pc]-{_HANDLE})/clips/(?P<conversation>{_HANDLE})/[0-9]{{10}}-(?P<turn>{_HANDLE})"
    r"/(?P<clip>speech|video)": checks.CLIP_BYTES_MAX,
}
_PATTERNS = {re.compile(pattern): bytes_max for pattern, bytes_max in _NAMES.items()}


@dataclass(frozen=True)
class _File:
    digest: str
    size_bytes: int
    kind: ReferenceKind


@dataclass(frozen=True)
class _About:
    """`identity.json`: an identity at one version; `version` is the format's."""

    format: Literal["e3rg identity"]
    version: int
    id: str
    profile: Profile
    references: tuple[_File, ...]
    grants: tuple[Grant, ...]
    emotion_bank: str
    identity_version: Annotated[int, Field(ge=1, le=VERSIONS_MAX)] = 1
    changed_at_s: Annotated[float, Field(ge=0, le=TIME_S_MAX)] | None = None

    def identity(self, name: str, generation: str, changed_at_s: float) -> Identity:
        """Return the identity that this describes."""
        files = tuple(Reference(each.digest, each.size_bytes, each.kind) for each in self.references)
        version = self.identity_version, changed_at_s, generation
        return Identity(name, self.profile, files, self.grants, self.emotion_bank, *version)


@dataclass(frozen=True)
class _Said:
    """A turn with its place in its conversation: "<place>-<turn>"."""

    placed: str
    turn: Turn


_ABOUTS, _SAID, _EXAMPLES = TypeAdapter(_About), TypeAdapter(_Said), TypeAdapter(Example)
_FORMATS = TypeAdapter(dict[str, object])


class Archive:
    """Exports and imports identities; `drain` deletes the objects of rows that are gone."""

    def __init__(
        self,
        storage: Storage,
        identities: Identities,
        talks: Conversations,
        examples: Examples,
        drain: Callable[[], Awaitable[None]],
    ) -> None:
        self.storage, self.identities, self.talks, self.examples = storage, identities, talks, examples
        self.drain = drain

    async def export(self, tenant: str, name: str) -> AsyncGenerator[bytes]:
        """Yield an identity as an archive, in pieces of at most 1 MiB; what is said meanwhile may be in it or not.

        Raises:
            NotFound: It is unknown, or was erased meanwhile: the archive is not whole then.
            Conflict: One of its files was removed meanwhile.
            FailedPrecondition: It has too many versions for an archive.
            Damaged: An object is not what was written; the message names it.
        """
        identity = await self.identities.get(tenant, name)
        if identity.version > VERSIONS_MAX:
            problem = f"identity {name!r} is at version {identity.version}, an archive holds {VERSIONS_MAX}"
            raise FailedPrecondition(f"{problem}; copy the database and the object storage")
        try:
            async for member in self._members(tenant, identity):
                for piece in packed(member):
                    yield piece
        except Damaged:
            if await self._now(tenant, identity) != identity:
                raise Conflict(f"identity {name!r} was changed while it was exported; export it again") from None
            raise
        await self._now(tenant, identity)
        yield END

    async def _now(self, tenant: str, identity: Identity) -> Identity:
        """Return an identity as it is now; `NotFound` when it was erased meanwhile."""
        with suppress(NotFound):
            if (now := await self.identities.get(tenant, identity.id)).generation == identity.generation:
                return now
        raise NotFound(f"identity {identity.id!r} was erased while it was exported; what was written is not whole")

    async def import_(self, tenant: str, name: str, pieces: AsyncIterator[bytes]) -> Identity:
        """Add an identity out of an archive; it is there with everything, or nothing of it is kept.

        An empty name means the one that it had.

        Raises:
            AlreadyExists: The name is taken.
            InvalidRequest: The archive is not one that `export` wrote, or ends too early.
        """
        importing, reader = self.importing(tenant, name), Reader(bytes_max)
        try:
            async for piece in pieces:
                for member in reader.read(piece):
                    await self.storage.finished(importing.put(member))
                if reader.at_end:
                    break
            reader.check_end()
            return await self.storage.finished(importing.end())
        except IntegrityError as error:
            await importing.withdraw()
            raise Conflict(GONE) from error
        except BaseException:
            await self.storage.finished(importing.withdraw())
            raise
        finally:
            reader.close()

    def importing(self, tenant: str, name: str) -> "Import":
        """Return an import that is given its members one by one."""
        return Import(self, tenant, name)

    async def _members(self, tenant: str, identity: Identity) -> AsyncIterator[Member]:
        yield Member(ABOUT, _ABOUTS.dump_json(_described(identity)))
        generation, media = identity.generation, self.storage.media
        keys = {row.digest: row.key for row in await self._rows(tenant, reference_files, generation)}
        for reference in identity.references:
            if reference.digest not in keys:
                raise Conflict(f"identity {identity.id!r} was changed while it was exported; export it again")
            yield Member(f"references/{reference.digest}", await media.get(keys[reference.digest], reference.digest))
        for version in range(1, identity.version):
            was = await self.identities.get(tenant, identity.id, version)
            yield Member(earlier(version), _ABOUTS.dump_json(_described(was)))
        for row in await self._rows(tenant, emotion_references, generation):
            content = await media.get(row.key, row.digest)
            yield Member(f"emotions/{row.generator}/{row.name}", content, row.media_type)
        own = await self._rows(tenant, examples, generation)
        solved = (Example(row.user_text, row.user_emotion, row.reply_text) for row in own)
        for member in _in_lines("exemplars/", (_EXAMPLES.dump_json(each, exclude={"id"}) for each in solved)):
            yield member
        talked = select(conversations.c.user_id).where(conversations.c.identity_id == generation)
        for user in await self.storage.rows(tenant, select(users).where(users.c.id.in_(talked)).order_by(users.c.id)):
            async for member in self._user(tenant, generation, user):
                yield member

    async def _user(self, tenant: str, generation: str, user: Any) -> AsyncIterator[Member]:
        folder = f"people/{'p' if user.kind == 'user' else 'c'}-{user.name}"
        key = tuple_(turns.c.conversation_id, turns.c.place)
        found = (
            select(turns, conversations.c.name.label("conversation"))
            .join_from(turns, conversations, conversations.c.id == turns.c.conversation_id)
            .where(conversations.c.identity_id == generation, conversations.c.user_id == user.id)
            .order_by(turns.c.conversation_id, turns.c.place)
            .limit(LINES_MAX)
        )
        number, last, kept, is_more = 0, (0, 0), [], True
        while is_more:

            async def work(session: Session, last: tuple[int, int] = last) -> tuple[Sequence[Any], list[Turn]]:
                rows = await session.rows(found.where(key > last))
                return rows, await with_clips(session, rows)

            rows, page = await self.storage.read(tenant, work)
            said = [_Said(f"{row.place:010d}-{row.id}", turn) for row, turn in zip(rows, page, strict=True)]
            lines = (_SAID.dump_json(each, exclude={"turn": {"clips"}}) for each in said)
            for member in _in_lines(f"{folder}/turns/", lines, number):
                yield member
                number += 1
            last = (rows[-1].conversation_id, rows[-1].place) if rows else last
            is_more = bool(rows)
            kept += [(each, row.pk) for each, row in zip(said, rows, strict=True) if each.turn.clips]
        for each, pk in kept:
            for row in await self.storage.rows(tenant, select(clips).where(clips.c.turn_pk == pk)):
                content = await self.storage.media.get(row.key, row.digest)
                yield Member(f"{folder}/clips/{each.turn.conversation}/{each.placed}/{row.kind}", content)

    async def _rows(self, tenant: str, table: Table, generation: str) -> Sequence[Any]:
        found = select(table).where(by(table, tenant=tenant, identity_id=generation))
        return await self.storage.rows(tenant, found.order_by(*table.primary_key.columns))


class Import:
    """An import under way: its identity has no name, so that nobody finds it, until all of it is there."""

    def __init__(self, archive: Archive, tenant: str, name: str) -> None:
        self._archive, self._tenant, self._name = archive, tenant, name
        self._storage, self._identities = archive.storage, archive.identities
        self._identity: Identity | None = None
        self._format, self._stage, self._next_version = VERSION, 0, 1
        self._missing: dict[str, Reference] = {}
        self._users: set[str] = set()

    async def put(self, member: Member) -> None:
        """Keep a member; its name is one that may be there, its seal is right."""
        if self._identity is None:
            await self._begin(member)
            return
        if (found := match(member.name)) is None:
            raise _wrong(f"its member {member.name!r} is there again")
        stage = _ORDER.index(member.name.partition("/")[0])
        # Voice and face examine an archive at the gateway, but read no further than its emotional references.
        self._require_whole(stage)
        if stage < self._stage and stage < 3:
            raise _wrong(f"its member {member.name!r} stands after others")
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
            case _:
                await self._turns(member, found["person"])

    async def end(self) -> Identity:
        """Let the identity be found, if all of it is there."""
        if (identity := self._identity) is None:
            raise _wrong(f"it does not begin with {ABOUT}; send one that an export wrote")
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
        await self._archive.drain()

    async def _begin(self, member: Member) -> None:
        if member.name != ABOUT:
            raise _wrong(f"it does not begin with {ABOUT}; send one that an export wrote")
        who = _about(member.content)
        checks.check_id("identity", self._name or who.id)
        _check_described(ABOUT, who)
        if not who.grants:
            raise InvalidRequest(f"{ABOUT}.grants", "it is empty; nothing was allowed")
        changed_at_s = self._storage.clock() if who.changed_at_s is None else who.changed_at_s
        identity = who.identity(self._name or who.id, uuid4().hex, changed_at_s)

        async def work(session: Session) -> None:
            if await session.outcome() is None:
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
        self._identity, self._format = identity, who.version
        self._missing = {reference.digest: reference for reference in identity.references}

    def _require_whole(self, stage: int) -> None:
        """Refuse a member of a stage before those of the stages before it are there."""
        missing = [f"references/{digest}" for digest in self._missing] if stage > 0 else []
        if stage > 1 and self._identity and self._next_version < self._identity.version:
            missing.append(earlier(self._next_version))
        if missing:
            raise _wrong(f"its member {missing[0]!r} is missing, or stands after others")

    async def _reference(self, member: Member) -> None:
        if (declared := self._missing.get(member.name.removeprefix("references/"))) is None:
            raise _wrong(f"its member {member.name!r} is no file that {ABOUT} names")
        (reference,) = checks.came(f"archive: {member.name}", [File(declared.kind, member.content)], since=1)
        if reference != declared:
            raise _wrong(f"its member {member.name!r} is not what {ABOUT} says of it")
        await self._media(reference_files, member.content)
        del self._missing[reference.digest]

    async def _earlier(self, member: Member, version: int) -> None:
        assert self._identity
        name, head = member.name, self._identity
        if self._next_version == head.version:
            raise _wrong(f"its member {name!r} is not before version {head.version}, of which {ABOUT} is")
        if version != self._next_version:
            raise _wrong(f"its member {name!r} stands where {earlier(self._next_version)!r} is expected")
        who = _about(member.content, name)
        _check_described(name, who)
        if who.identity_version != version:
            raise InvalidRequest(f"{name}.identity_version", f"{who.identity_version}; its name says {version}")
        if who.changed_at_s is None:
            raise InvalidRequest(f"{name}.changed_at_s", "it is missing")
        was, now = (
            who.identity(head.id, head.generation, who.changed_at_s),
            {each.digest: each for each in head.references},
        )
        for place, reference in enumerate(was.references):
            if now.get(reference.digest, reference) != reference:
                raise InvalidRequest(f"{name}.references[{place}]", f"it is not what {ABOUT} says of that file")
        await self._storage.write(self._tenant, lambda session: self._identities.insert_version(session, was))
        self._next_version += 1

    async def _emotion(self, member: Member, generator: Generator, name: str) -> None:
        checks.check_emotion(f"archive: {member.name}", generator, name)
        checks.check_media_type(f"archive: {member.name}", member.media_type)
        if not member.content:
            raise _wrong(f"its member {member.name!r} is empty")
        about = {"generator": generator, "name": name, "media_type": member.media_type}
        await self._media(emotion_references, member.content, **about)

    async def _media(self, table: Table, content: bytes, **about: Any) -> None:
        """Keep an object of the identity and its row."""
        assert self._identity
        whose, digest = {"identity_id": self._identity.generation}, digest_of(content)
        key, now_s = new_key(self._tenant, f"identities/{self._identity.generation}", digest), self._storage.clock()
        media = {"key": key, "digest": digest, "size_bytes": len(content), "created_at_s": now_s}
        await self._storage.keep(
            self._tenant, [(key, content)], lambda session: session.add(table, **media, **whose, **about)
        )

    async def _examples(self, member: Member) -> None:
        assert self._identity
        new, owner = _lines(member, _EXAMPLES), self._identity.generation
        vectors = await self._archive.examples.vectors(new)
        await self._storage.write(
            self._tenant, lambda session: self._archive.examples.insert(session, owner, new, vectors)
        )

    async def _turns(self, member: Member, person: str) -> None:
        assert self._identity
        identity_id, talks = self._identity.generation, self._archive.talks
        said = [self._read(member, person, each) for each in _lines(member, _SAID)]
        pairs = list(zip(said, await talks.embedding.of_all([turn.user_text for turn in said]), strict=True))

        async def work(session: Session) -> None:
            user_id = await talks.insert_user(session, *_user_of(person))
            self._users.add(user_id)
            for conversation, group in groupby(pairs, lambda pair: pair[0].conversation):
                await talks.append(session, identity_id, user_id, conversation, list(group))

        await self._storage.write(self._tenant, work)

    def _read(self, member: Member, person: str, said: _Said) -> Turn:
        """Return the turn of a line, checked."""
        turn = said.turn
        if self._format < VERSION:
            turn = replace(turn, models=turn.variants, variants={})
        checks.check_handle("conversation", turn.conversation)
        checks.check("turn", turn)
        if not 0 <= turn.said_at_s <= TIME_S_MAX:  # So also what is no number.
            raise _wrong(f"its member {member.name!r}: said_at_s is {turn.said_at_s}, which is no Unix time")
        if person.startswith("c-") and turn.conversation != person[2:]:
            raise _wrong(f"its member {member.name!r} has turns of another conversation")
        if not re.fullmatch(rf"[0-9]{{10}}-{turn.id}", said.placed):
            raise InvalidRequest("turn", f"{said.placed[:80]!a} is no place of turn {turn.id!r}")
        return turn

    async def _clip(self, member: Member, person: str, conversation: str, turn_id: str, kind: ClipKind) -> None:
        assert self._identity
        generation, (user_kind, user) = self._identity.generation, _user_of(person)
        found = (
            select(turns.c.pk)
            .join_from(turns, conversations, conversations.c.id == turns.c.conversation_id)
            .join(users, users.c.id == conversations.c.user_id)
            .where(by(conversations, identity_id=generation, name=conversation), by(users, kind=user_kind, name=user))
            .where(turns.c.id == turn_id)
        )
        if not (rows := await self._storage.rows(self._tenant, found)):
            raise _wrong(f"its member {member.name!r} is of a turn that does not stand before it")
        checks.check_clip(kind, member.content)
        clip = Clip(kind, digest_of(member.content), len(member.content))
        pk, keep = rows[0].pk, self._archive.talks.insert_clip
        key = new_key(self._tenant, f"turns/{pk}", clip.digest)
        await self._storage.keep(self._tenant, [(key, member.content)], lambda session: keep(session, pk, clip, key))


def bytes_max(name: str) -> int:
    """Return how large a member may be; refuse a name that no member has."""
    if name == ABOUT:
        return 2**20
    if (found := match(name)) is None:
        raise _wrong(f"its member {name[:200]!a} is none that an export writes; remove it")
    return _PATTERNS[found.re]


def match(name: str) -> re.Match[str] | None:
    """Return what the name of a member says; None for `identity.json` and what may not be there."""
    return next((found for pattern in _PATTERNS if (found := pattern.fullmatch(name))), None)


def earlier(version: int) -> str:
    """Return the name of the member of an earlier version."""
    return f"versions/{version:010d}"


def _user_of(person: str) -> tuple[str, str]:
    return "user" if person.startswith("p-") else "conversation", person[2:]


def _described(identity: Identity) -> _About:
    files = tuple(_File(each.digest, each.size_bytes, each.kind) for each in identity.references)
    about = identity.id, identity.profile, files, identity.grants, identity.emotion_bank
    return _About("e3rg identity", VERSION, *about, identity.version, identity.changed_at_s)


def _check_described(name: str, who: _About) -> None:
    """Refuse what no version of an identity can be; `name` is the member that says it."""
    checks.check(f"{name}.profile", who.profile)
    check_grants(f"{name}.grants", who.grants)
    field = f"{name}.references"
    checks.check_declared(field, [(each.kind, each.size_bytes) for each in who.references], whole=True)
    for place, each in enumerate(who.references):
        checks.check_digest(f"{field}[{place}].digest", each.digest)
    if len({each.digest for each in who.references}) < len(who.references):
        raise InvalidRequest(field, "a file is there twice")
    checks.check_id(f"{name}.emotion_bank", who.emotion_bank)


def _about(content: bytes, name: str = ABOUT) -> _About:
    """Read `identity.json`, or the member `name` of an earlier version."""
    try:
        version = _FORMATS.validate_json(content).get("version")
        if isinstance(version, int) and version > VERSION:
            raise _wrong(f"{name} is of version {version}, this memory reads {VERSION}; use the version that wrote it")
        return _ABOUTS.validate_json(content)
    except ValidationError as error:
        raise _unreadable(name, error) from error


def _lines(member: Member, kind: TypeAdapter[Any]) -> list[Any]:
    """Read a member of lines."""
    parts = member.content.split(b"\n")
    if parts.pop() or not 1 <= len(parts) <= LINES_MAX:
        raise _wrong(f"its member {member.name!r} has not 1 to {LINES_MAX} whole lines")
    try:
        return [kind.validate_json(part) for part in parts]
    except ValidationError as error:
        raise _unreadable(member.name, error) from error


def _in_lines(folder: str, lines: Iterator[bytes], number: int = 0) -> Iterator[Member]:
    """Yield members with so many lines that none is large."""
    held: list[bytes] = []
    for line in lines:
        held.append(line + b"\n")
        if len(held) == LINES_MAX or sum(map(len, held)) > LINES_BYTES:
            yield Member(f"{folder}{number:06d}", b"".join(held))
            held, number = [], number + 1
    if held:
        yield Member(f"{folder}{number:06d}", b"".join(held))


def _unreadable(name: str, error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_input=False)[0]
    return _wrong(f"its member {name!r} cannot be read: {'.'.join(map(str, first['loc']))}: {first['msg']}")


def _wrong(problem: str) -> InvalidRequest:
    return InvalidRequest("archive", problem)
