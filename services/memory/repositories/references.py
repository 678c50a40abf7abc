"""Media of identities: reference files, data derived from them, emotional references. No identity means the tenant."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cachetools import TTLCache
from sqlalchemy import Table, select

from services.common.errors import Damaged, NotFound
from services.memory import checks
from services.memory.consent import require
from services.memory.domain import GENERATOR_USES, USES, EmotionReference, Generator, Identity, digest_of
from services.memory.repositories.identities import Identities, kind_of, reference_of, source_of
from services.memory.schema import derived_data, emotion_references, identities, reference_files, tenants
from services.memory.session import Session, by, read_as
from services.memory.storage import Columns, Storage, reading, writing


class References:
    """Media of identities; reference files are cached for `keep_s` seconds, `cache_bytes` at most.

    Methods raise `NotFound` when the identity is unknown or has no such file, `FailedPrecondition` when its permissions
    do not allow the use, `Damaged` for a damaged object.
    """

    def __init__(self, storage: Storage, identities: Identities, cache_bytes: int, keep_s: float) -> None:
        self.storage, self.identities = storage, identities
        self.cache: TTLCache[tuple[str, str], bytes] = TTLCache(cache_bytes, keep_s, getsizeof=len)

    async def file(self, tenant: str, name: str, digest: str) -> bytes:
        """Return a reference file."""
        checks.check_digest("digest", digest)

        async def work(session: Session) -> Any:
            identity = await self.identities.found(session, name)
            self._require(identity, digest)
            if row := await session.find(reference_files, identity_id=identity.generation, digest=digest):
                return row
            self._require(await self.identities.found(session, name), digest)  # It may have gone meanwhile.
            raise Damaged(f"file {digest} of identity {name!r} is missing; restore it from a backup, or replace it")

        row, content = await self._content(tenant, work)
        if len(content) <= self.cache.maxsize:
            self.cache[row.identity_id, digest] = content
        return content

    def cached(self, identity: Identity, digest: str) -> bytes | None:
        """Return a reference file if it is cached."""
        self._require(identity, digest)
        return self.cache.get((identity.generation, digest))

    async def derived(self, tenant: str, name: str, digests: Sequence[str], model_digest: str) -> bytes:
        """Return what a model derived from the files with these digests; `NotFound` when nothing was kept."""

        async def work(session: Session) -> Any:
            if row := await session.find(derived_data, **await self._derived(session, name, digests, model_digest)):
                return row
            problem = f"model {model_digest[:12]} has derived nothing from these files of identity {name!r}"
            raise NotFound(f"{problem}; derive it, and keep it")

        return (await self._content(tenant, work))[1]

    async def keep_derived(
        self, tenant: str, name: str, digests: Sequence[str], model_digest: str, content: bytes
    ) -> None:
        """Keep what a model derived from files, in place of what it derived from them before."""
        checks.check_content(content, checks.DERIVED_BYTES_MAX)

        async def same(session: Session) -> dict[str, Any]:
            return await self._derived(session, name, digests, model_digest)

        await self._replace(tenant, derived_data, content, same)

    async def put_emotion(
        self, tenant: str, name: str, generator: Generator, emotion: str, media_type: str, content: bytes
    ) -> EmotionReference:
        """Keep an emotional reference, in place of the one that the identity, or the tenant, had."""
        checks.check_emotion("name", generator, emotion)
        checks.check_media_type("header.media_type", media_type)
        checks.check_content(content, checks.EMOTION_BYTES_MAX)

        async def same(session: Session) -> dict[str, Any]:
            owner = await self._owner(session, name, [GENERATOR_USES[generator]])
            return {"identity_id": owner, "generator": generator, "name": emotion}

        await self._replace(tenant, emotion_references, content, same, media_type=media_type)
        return EmotionReference(generator, emotion, digest_of(content), len(content), media_type, own=bool(name))

    async def emotion(
        self, tenant: str, name: str, generator: Generator, emotion: str
    ) -> tuple[EmotionReference, bytes]:
        """Return the identity's own emotional reference, else the tenant's; and its content."""
        checks.check_emotion("name", generator, emotion)

        async def work(session: Session) -> Any:
            for owner in dict.fromkeys((await self._owner(session, name), None)):
                same: dict[str, Any] = {"identity_id": owner, "generator": generator, "name": emotion}
                if row := await session.find(emotion_references, **same):
                    if owner:
                        await self._owner(session, name, [GENERATOR_USES[generator]])
                    return row
            raise _missing(name, generator, emotion)

        row, content = await self._content(tenant, work)
        return _described(row), content

    @reading
    async def emotions(self, session: Session, name: str) -> list[EmotionReference]:
        """Return those that hold for an identity, or all of the tenant's; by generator and name."""
        whose = emotion_references.c.identity_id
        holds = whose.is_(None) | (whose == await self._owner(session, name))
        found = select(emotion_references).where(session.mine(emotion_references), holds)
        # Own ones come later, and take the place of the tenant's.
        rows = {(row.generator, row.name): row for row in await session.rows(found.order_by(whose.is_not(None)))}
        return [_described(rows[place]) for place in sorted(rows)]

    @writing
    async def remove_emotion(self, session: Session, name: str, generator: Generator, emotion: str) -> None:
        """Remove an emotional reference: the identity's own, or the tenant's."""
        checks.check_emotion("name", generator, emotion)
        if await session.outcome() is None:
            same = {"identity_id": await self._owner(session, name), "generator": generator, "name": emotion}
            if not await session.drop(emotion_references, **same):
                raise _missing(name, generator, emotion)
            await session.record(True, self.storage.clock())

    async def _derived(self, session: Session, name: str, digests: Sequence[str], model_digest: str) -> dict[str, Any]:
        """Return what tells derived data from others, if their use is allowed."""
        checks.check_digest("model_digest", model_digest)
        for place, digest in enumerate(digests):
            checks.check_digest(f"reference_digests[{place}]", digest)
        identity = await self.identities.found(session, name)
        kind = kind_of(identity, digests)
        require(identity, [USES[kind]], self.storage.clock())
        source = {"source": source_of(digests), "model_digest": model_digest, "kind": kind}
        return {"identity_id": identity.generation, **source}

    async def _owner(self, session: Session, name: str, uses: Sequence[str] = ()) -> str | None:
        """Return the id of the identity, if these uses are allowed; None for the tenant."""
        return (await self.identities.found(session, name, uses)).generation if name else None

    def _require(self, identity: Identity, digest: str) -> None:
        require(identity, [USES[reference_of(identity, digest).kind]], self.storage.clock())

    async def _content(self, tenant: str, find: Callable[[Session], Awaitable[Any]]) -> tuple[Any, bytes]:
        """Return the row that `find` returns, and its object; both may be replaced or go while it is read."""
        row = await self.storage.read(tenant, find)
        while True:
            if content := self.cache.get((row.identity_id, row.digest)):
                return row, content
            try:
                return row, await self.storage.media.get(row.key, row.digest)
            except Damaged:
                now = await self.storage.read(tenant, find)
                if now.key == row.key:
                    raise
                row = now

    async def _replace(
        self,
        tenant: str,
        table: Table,
        content: bytes,
        same: Callable[[Session], Awaitable[dict[str, Any]]],
        **others: Any,
    ) -> None:
        """Keep an object and its row in place of the row that is the same thing."""
        owner = (await self.storage.read(tenant, same))["identity_id"]

        async def work(session: Session, media: Sequence[Columns]) -> None:
            await session.ensure_tenant()
            # A replica that keeps the same thing, or takes its permission away, comes before or after.
            root = identities if owner else tenants
            await session.find(root, is_locking=True, **({"id": owner} if owner else {}))
            found = await same(session)
            await session.drop(table, by(table, **found))
            await session.add(table, **media[0], **found, **others)

        await self.storage.keep(tenant, f"identities/{owner}" if owner else "emotions", [content], work)


def _described(row: Any) -> EmotionReference:
    return read_as(EmotionReference, row, own=row.identity_id is not None)


def _missing(name: str, generator: Generator, emotion: str) -> NotFound:
    whose = f"identity {name!r} has" if name else "the tenant has"
    return NotFound(
        f"{whose} no emotional reference for {generator} {emotion!r}; ListEmotionReferences tells those there"
    )
