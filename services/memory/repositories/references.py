"""Media of identities: reference files, data derived from them, emotional references."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cachetools import TTLCache
from sqlalchemy import Table, delete, insert, select

import emotions
from services.common.errors import Damaged, InvalidRequest, NotFound, TooLarge
from services.memory.blobs import digest_of, new_key
from services.memory.checks import check_choice, check_digest, check_id, check_media_type
from services.memory.consent import require
from services.memory.database import Session
from services.memory.domain import GENERATOR_USES, USES, EmotionReference, Generator, Identity
from services.memory.file_checks import check_derived
from services.memory.repositories.identities import Identities, kind_of, reference_of, source_of
from services.memory.schema import derived_data, emotion_references, reference_files
from services.memory.storage import Storage, ensure_tenant, outcome, record

EMOTION_BYTES_MAX = 2**24
"""Largest emotional reference."""


class References:
    """Media of identities. An empty identity means the tenant.

    Methods raise `InvalidRequest` for a name or digest that is not allowed, `NotFound` when the identity is unknown or
    has no such file, `FailedPrecondition` when its permissions do not allow the use, `Damaged` for a damaged object.

    Args:
        storage: Where they are.
        identities: Whose they are.
        cache_bytes: Memory for reference files.
        keep_s: Seconds that a reference file is cached.
    """

    def __init__(self, storage: Storage, identities: Identities, cache_bytes: int, keep_s: float) -> None:
        self._storage, self._identities = storage, identities
        self.cache: TTLCache[tuple[str, str], bytes] = TTLCache(cache_bytes, keep_s, getsizeof=len)

    async def file(self, tenant: str, name: str, digest: str, known: Identity | None = None) -> bytes:
        """Return a reference file.

        Args:
            tenant: Whose identity.
            name: Its name.
            digest: SHA-256 of the file.
            known: The identity, when the database is away: only cached files are returned then.
        """
        check_digest("digest", digest)

        async def work(session: Session) -> tuple[Identity, str]:
            identity = await self._identities.found(session, name)
            require(identity, [USES[reference_of(identity, digest).kind]], self._storage.clock())
            columns = reference_files.c
            mine = columns.tenant == tenant, columns.identity_id == identity.generation, columns.digest == digest
            return identity, await session.scalar(select(columns.key).where(*mine))

        if known is not None:
            require(known, [USES[reference_of(known, digest).kind]], self._storage.clock())
            if (cached := self.cache.get((known.generation, digest))) is None:
                raise NotFound("it is not cached")
            return cached
        identity, key = await self._storage.read(tenant, work)
        cached = self.cache.get((identity.generation, digest))
        if key is None:
            raise Damaged(f"file {digest} of identity {name!r} is missing; restore it from a backup, or replace it")
        content = cached if cached is not None else await self._storage.media.get(key, digest)
        if len(content) <= self.cache.maxsize:
            self.cache[identity.generation, digest] = content
        return content

    async def derived(self, tenant: str, name: str, digests: Sequence[str], model_digest: str) -> bytes:
        """Return what a model derived from the files with these digests.

        Raises:
            NotFound: Also when nothing was kept.
        """

        async def work(session: Session) -> Any:
            identity, _ = await self._allowed(session, name, digests, model_digest)
            columns = derived_data.c
            source = columns.source == source_of(digests), columns.model_digest == model_digest
            mine = columns.tenant == tenant, columns.identity_id == identity.generation
            return await session.first(select(columns.key, columns.digest).where(*mine, *source))

        row = await self._storage.read(tenant, work)
        if row is None:
            problem = f"model {model_digest[:12]} has derived nothing from these files of identity {name!r}"
            raise NotFound(f"{problem}; derive it, and keep it")
        return await self._storage.media.get(row.key, row.digest)

    async def keep_derived(
        self, tenant: str, name: str, digests: Sequence[str], model_digest: str, content: bytes
    ) -> None:
        """Keep what a model derived from files, in place of what it derived from them before."""
        check_derived(content)
        read = lambda session: self._allowed(session, name, digests, model_digest)  # noqa: E731
        identity, _ = await self._storage.read(tenant, read)

        async def values(session: Session) -> tuple[dict[str, Any], list[Any]]:
            identity, kind = await self._allowed(session, name, digests, model_digest)
            found = {"identity_id": identity.generation, "source": source_of(digests), "model_digest": model_digest}
            same = [derived_data.c[column] == value for column, value in found.items()]
            return found | {"kind": kind}, same

        await self._replace(tenant, derived_data, f"identities/{identity.generation}", content, values)

    async def put_emotion(
        self, tenant: str, name: str, generator: Generator, emotion: str, media_type: str, content: bytes
    ) -> EmotionReference:
        """Keep an emotional reference, in place of the one that the identity, or the tenant, had."""
        _check(tenant, generator, emotion)
        check_media_type("header.media_type", media_type)
        if not content:
            raise InvalidRequest("content", f"it is empty (0 bytes); send 1 to {EMOTION_BYTES_MAX}")
        if len(content) > EMOTION_BYTES_MAX:
            raise TooLarge("content", f"it has {len(content)} bytes; send at most {EMOTION_BYTES_MAX} (16 MiB)")

        async def values(session: Session) -> tuple[dict[str, Any], list[Any]]:
            owner = await self._owner(session, name, [GENERATOR_USES[generator]])
            found = {"identity_id": owner, "generator": generator, "name": emotion, "media_type": media_type}
            return found, _same(owner, generator, emotion)

        owner = await self._storage.read(
            tenant, lambda session: self._owner(session, name, [GENERATOR_USES[generator]])
        )
        below = f"identities/{owner}" if owner else "emotions"
        await self._replace(tenant, emotion_references, below, content, values)
        return EmotionReference(generator, emotion, digest_of(content), len(content), media_type, own=bool(name))

    async def emotion(
        self, tenant: str, name: str, generator: Generator, emotion: str
    ) -> tuple[EmotionReference, bytes]:
        """Return the identity's own emotional reference, else the tenant's; and its content."""
        _check(tenant, generator, emotion)

        async def work(session: Session) -> Any:
            owner = await self._owner(session, name)
            for each in dict.fromkeys((owner, None)):
                columns = emotion_references.c
                where = columns.tenant == tenant, *_same(each, generator, emotion)
                if row := await session.first(select(emotion_references).where(*where)):
                    await self._owner(session, name if each else "", [GENERATOR_USES[generator]] if each else ())
                    return row
            raise _missing(name, generator, emotion)

        row = await self._storage.read(tenant, work)
        return _described(row), await self._storage.media.get(row.key, row.digest)

    async def emotions(self, tenant: str, name: str) -> list[EmotionReference]:
        """Return those that hold for an identity, or all of the tenant's; by generator and name."""
        check_id("tenant", tenant)

        async def work(session: Session) -> Sequence[Any]:
            owner, columns = await self._owner(session, name), emotion_references.c
            mine = columns.identity_id.is_(None) | (columns.identity_id == owner)
            # Own ones come later, and take the place of the tenant's.
            own = columns.identity_id.is_not(None)
            return await session.rows(select(emotion_references).where(columns.tenant == tenant, mine).order_by(own))

        rows = {(row.generator, row.name): row for row in await self._storage.read(tenant, work)}
        return [_described(rows[place]) for place in sorted(rows)]

    async def remove_emotion(self, tenant: str, name: str, generator: Generator, emotion: str) -> None:
        """Remove an emotional reference: the identity's own, or the tenant's.

        Raises:
            NotFound: Also when there is none.
        """
        _check(tenant, generator, emotion)

        async def work(session: Session) -> None:
            if await outcome(session) is None:
                owner = await self._owner(session, name)
                where = emotion_references.c.tenant == tenant, *_same(owner, generator, emotion)
                if not await session.run(delete(emotion_references).where(*where)):
                    raise _missing(name, generator, emotion)
                await record(session, True, self._storage.clock())

        await self._storage.write(tenant, work)

    async def _allowed(
        self, session: Session, name: str, digests: Sequence[str], model_digest: str
    ) -> tuple[Identity, str]:
        """Return the identity and the kind of these files, if their use is allowed."""
        check_digest("model_digest", model_digest)
        for place, digest in enumerate(digests):
            check_digest(f"reference_digests[{place}]", digest)
        identity = await self._identities.found(session, name)
        kind = kind_of(identity, digests)
        require(identity, [USES[kind]], self._storage.clock())
        return identity, kind

    async def _owner(self, session: Session, name: str, uses: Sequence[str] = ()) -> str | None:
        """Return the id of the identity, if these uses are allowed; None for the tenant."""
        return (await self._identities.found(session, name, uses)).generation if name else None

    async def _replace(
        self,
        tenant: str,
        table: Table,
        below: str,
        content: bytes,
        values: Callable[[Session], Awaitable[tuple[dict[str, Any], list[Any]]]],
    ) -> None:
        """Keep an object and its row in place of the row that is the same thing."""
        digest = hashlib.sha256(content).hexdigest()
        key, created_at_s = new_key(tenant, below, digest), self._storage.clock()
        media = {"key": key, "digest": digest, "size_bytes": len(content), "created_at_s": created_at_s}

        async def work(session: Session) -> None:
            await ensure_tenant(session)
            found, same = await values(session)
            await session.run(delete(table).where(table.c.tenant == tenant, *same, table.c.key != key))
            if await session.first(select(table.c.key).where(table.c.key == key)) is None:
                await session.run(insert(table).values(tenant=tenant, **media, **found))

        await self._storage.keep(tenant, [(key, content)], work)


def _same(owner: str | None, generator: str, emotion: str) -> list[Any]:
    columns = emotion_references.c
    mine = columns.identity_id.is_(None) if owner is None else columns.identity_id == owner
    return [mine, columns.generator == generator, columns.name == emotion]


def _described(row: Any) -> EmotionReference:
    own = row.identity_id is not None
    return EmotionReference(Generator(row.generator), row.name, row.digest, row.size_bytes, row.media_type, own)


def _check(tenant: str, generator: Generator, emotion: str) -> None:
    check_id("tenant", tenant)
    wheel = emotions.load()
    check_choice("name", emotion, wheel.styles if generator is Generator.VOICE else wheel.classes)


def _missing(name: str, generator: Generator, emotion: str) -> NotFound:
    whose = f"identity {name!r} has" if name else "the tenant has"
    return NotFound(
        f"{whose} no emotional reference for {generator} {emotion!r}; ListEmotionReferences tells those there"
    )
