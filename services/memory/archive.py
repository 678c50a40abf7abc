"""Export and import of whole identities as archives."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Select, Table, select, tuple_
from sqlalchemy.exc import IntegrityError

from services.common.errors import Conflict, Damaged, FailedPrecondition, NotFound
from services.common.tar import END, Member, Reader, packed
from services.memory.archive_format import (
    ABOUT,
    EXAMPLES,
    LINES_MAX,
    RAISED_RISKS,
    SAID_TURNS,
    VERSIONS_MAX,
    SaidTurn,
    bytes_max,
    described,
    earlier,
    in_lines,
)
from services.memory.archive_import import GONE, Import
from services.memory.domain import Example, Identity, Turn
from services.memory.repositories.conversations import Conversations, with_clips
from services.memory.repositories.examples import Examples
from services.memory.repositories.risks import is_unfaded
from services.memory.schema import clips, conversations, emotion_references, examples, reference_files, turns, users
from services.memory.session import Session, by, read_as
from services.memory.storage import reading


class Archive:
    """Exports and imports identities; `drain` deletes the objects of rows that are gone."""

    def __init__(self, conversations: Conversations, examples: Examples, drain: Callable[[], Awaitable[None]]) -> None:
        self.storage, self.identities = conversations.storage, conversations.identities
        self._parts = conversations, examples, drain

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
        except BaseException as error:
            await self.storage.finished(importing.withdraw())
            if isinstance(error, IntegrityError):
                raise Conflict(GONE) from error
            raise
        finally:
            reader.close()

    def importing(self, tenant: str, name: str) -> Import:
        """Return an import that is given its members one by one."""
        return Import(*self._parts, tenant, name)

    async def _members(self, tenant: str, identity: Identity) -> AsyncIterator[Member]:
        yield described(ABOUT, identity)
        generation, media = identity.generation, self.storage.media
        keys = {row.digest: row.key for row in await self._rows(tenant, reference_files, generation)}
        for reference in identity.references:
            if reference.digest not in keys:
                raise Conflict(f"identity {identity.id!r} was changed while it was exported; export it again")
            yield Member(f"references/{reference.digest}", await media.get(keys[reference.digest], reference.digest))
        for version in range(1, identity.version):
            yield described(earlier(version), await self.identities.get(tenant, identity.id, version))
        for row in await self._rows(tenant, emotion_references, generation):
            content = await media.get(row.key, row.digest)
            yield Member(f"emotions/{row.generator}/{row.name}", content, row.media_type)
        own = await self._rows(tenant, examples, generation)
        solved = (EXAMPLES.dump_json(read_as(Example, row), exclude={"id"}) for row in own)
        for member in in_lines("exemplars/", solved):
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
            .join_from(turns, conversations)
            .where(conversations.c.identity_id == generation, conversations.c.user_id == user.id)
            .order_by(turns.c.conversation_id, turns.c.place)
            .limit(LINES_MAX)
        )
        number, last = 0, (0, 0)
        kept: list[tuple[SaidTurn, int]] = []
        while page := await self._page(tenant, found.where(key > last)):
            said = [SaidTurn(f"{row.place:010d}-{row.id}", turn) for row, turn in page]
            lines = (SAID_TURNS.dump_json(each, exclude={"turn": {"clips"}}) for each in said)
            for member in in_lines(f"{folder}/turns/", lines, number):
                yield member
                number += 1
            last = page[-1][0].conversation_id, page[-1][0].place
            kept += [(each, row.pk) for each, (row, turn) in zip(said, page, strict=True) if turn.clips]
        for each, pk in kept:
            for row in await self.storage.rows(tenant, select(clips).where(clips.c.turn_pk == pk)):
                content = await self.storage.media.get(row.key, row.digest)
                yield Member(f"{folder}/clips/{each.turn.conversation}/{each.placed}/{row.kind}", content)
        async for member in self._risks(tenant, generation, user, f"{folder}/risks/"):
            yield member

    async def _risks(self, tenant: str, generation: str, user: Any, folder: str) -> AsyncIterator[Member]:
        now_s = self.storage.clock()
        raising = by(conversations, identity_id=generation, user_id=user.id), conversations.c.risks_until_s > now_s
        found = select(conversations.c.name, conversations.c.risks).where(*raising).order_by(conversations.c.id)
        lines = (
            RAISED_RISKS.dump_json(RAISED_RISKS.validate_python({"conversation": row.name, "risk": risk}))
            for row in await self.storage.rows(tenant, found)
            for risk in row.risks
            if is_unfaded(risk["raised_at_s"], now_s)
        )
        for member in in_lines(folder, lines):
            yield member

    @reading
    async def _page(self, session: Session, found: Select[Any]) -> list[tuple[Any, Turn]]:
        """Return the rows of turns that are found, with these turns."""
        rows = await session.rows(found)
        return list(zip(rows, await with_clips(session, rows), strict=True))

    @reading
    async def _rows(self, session: Session, table: Table, generation: str) -> Sequence[Any]:
        found = select(table).where(session.mine(table, identity_id=generation))
        return await session.rows(found.order_by(*table.primary_key.columns))
