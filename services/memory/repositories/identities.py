"""Identities, their versions and permissions, and emotion banks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import uuid4

from cachetools import TTLCache
from sqlalchemy import Table, or_, select, tuple_

import emotions
from services.common.errors import AlreadyExists, Conflict, InvalidRequest, NotFound
from services.memory import checks
from services.memory.consent import allowed, check_grants, check_uses, require
from services.memory.domain import (
    BANK_DEFAULT,
    USES,
    Change,
    EmotionBank,
    Grant,
    Identity,
    NewIdentity,
    Profile,
    Reference,
    ReferenceKind,
    Use,
    digest_of,
)
from services.memory.repositories.pages import page_of
from services.memory.schema import (
    derived_data,
    emotion_banks,
    identities,
    identity_versions,
    permissions,
    reference_files,
    removed_identities,
    version_references,
)
from services.memory.session import Session, by, read_as
from services.memory.storage import Columns, Storage, reading, writing


class Identities:
    """Identities of all tenants. A version never changes, and is cached for `keep_s` seconds."""

    def __init__(self, storage: Storage, keep_s: float) -> None:
        self.storage = storage
        self.cache: TTLCache[tuple[str, int], Identity] = TTLCache(1000, keep_s)

    async def found(self, session: Session, name: str, uses: Collection[str] = ()) -> Identity:
        """Return an identity whose permissions include all of `uses`.

        Raises:
            NotFound: It is unknown.
            FailedPrecondition: A permission is missing or has ended.
        """
        checks.check_id("identity", name)
        check_uses("uses", uses)
        if (head := await session.find(identities, name=name)) is None:
            raise unknown(name)
        identity = await self.version(session, name, head.id, head.version)
        require(identity, uses, self.storage.clock())
        return identity

    async def version(self, session: Session, name: str, identity_id: str, version: int) -> Identity:
        """Return one version of an identity; `NotFound` when it was erased since its head was read."""
        if not (found := await self.versions(session, [(name, identity_id, version)])):
            raise unknown(name)
        return found[0]

    async def versions(self, session: Session, wanted: Sequence[tuple[str, str, int]]) -> list[Identity]:
        """Return versions of identities, given as (name, id, version)."""
        names = {key: name for name, key, _ in wanted}
        found = {(key, version): self.cache.get((key, version)) for _, key, version in wanted}
        if missing := [key for key, known in found.items() if known is None]:
            heads = await _by_version(session, identity_versions, missing)
            files = await _by_version(session, version_references, missing)
            grants = await _by_version(session, permissions, missing)
            for key, (head,) in heads.items():
                self.cache[key] = found[key] = Identity(
                    names[head.identity_id],
                    read_as(Profile, head),
                    tuple(read_as(Reference, row) for row in files[key]),
                    tuple(read_as(Grant, row) for row in grants[key]),
                    head.emotion_bank,
                    head.version,
                    head.changed_at_s,
                    head.identity_id,
                )
        return [known for _, key, version in wanted if (known := found[key, version])]

    @reading
    async def get(self, session: Session, name: str, version: int = 0) -> Identity:
        """Return an identity as it is, or as it was at `version`; it may name files that are gone by now."""
        now = await self.found(session, name)
        if version > now.version:
            raise NotFound(f"identity {name!r} has no version {version}; it is at {now.version}")
        return await self.version(session, name, now.generation, version or now.version)

    @reading
    async def page(self, session: Session, page_size: int, after: str) -> tuple[list[Identity], str]:
        """Return at most `page_size` identities by name, those behind `after`, and what the next page is after."""
        if after:
            checks.check_id("page_token", after)
        columns = identities.c
        heads = select(columns.name, columns.id, columns.version).order_by(columns.name).limit(page_size + 1)
        rows = await session.rows(heads.where(session.mine(identities), columns.name > after))
        found = await self.versions(session, [(row.name, row.id, row.version) for row in rows])
        return page_of(found, page_size, lambda each: each.id, lambda each: len(repr(each).encode()))

    async def add(self, tenant: str, new: NewIdentity) -> Identity:
        """Add an identity, with everything or not at all.

        Raises:
            AlreadyExists: The name is taken.
            InvalidRequest: A field is wrong, a file is missing or too large, the emotion bank is unknown.
        """
        checks.check_id("header.id", new.id)
        checks.check("header.profile", new.profile)
        check_grants("header.grants", new.grants)
        if not new.grants:
            raise InvalidRequest("header.grants", f"it is empty; allow at least one of: {', '.join(Use)}")
        checks.check_declared("header.references", new.files, whole=True)
        references = checks.new_references("header.references", new.files, since=1)
        generation, now_s = uuid4().hex, self.storage.clock()
        identity = Identity(new.id, new.profile, references, new.grants, new.emotion_bank, 1, now_s, generation)

        async def work(session: Session, media: Sequence[Columns]) -> Identity:
            if first := await session.outcome():
                return await self.version(session, new.id, first, 1)
            await self.require_free(session, new.id)
            await self.require_bank(session, "header.emotion_bank", new.emotion_bank)
            await session.ensure_tenant()
            await self.insert(session, identity)
            for file in media:
                await session.add(reference_files, identity_id=generation, **file)
            await session.record(generation, now_s)
            return identity

        async def is_free(session: Session) -> None:
            if await session.outcome() is None:
                await self.require_free(session, new.id)

        await self.storage.read(tenant, is_free)  # Before its files are stored.
        contents = [file.content for file in new.files]
        return await self.storage.keep(tenant, f"identities/{generation}", contents, work)

    async def change(self, tenant: str, name: str, change: Change) -> Identity:
        """Change an identity into its next version; without a difference it stays at its version.

        Data derived for a use that is not allowed any more go; the files stay, but are not handed out.

        Raises:
            Conflict: It is not at `change.if_version`; nothing is changed.
            InvalidRequest: A field is wrong, a file is too large or there already, a needed one would go.
        """

        async def seen(session: Session) -> tuple[Identity, bool]:
            if done := await session.outcome():
                return await self.version(session, name, *done), True
            return await self.found(session, name), False

        old, is_done = await self.storage.read(tenant, seen)
        if is_done:
            return old
        if old.version != change.if_version:
            raise _conflict(old, change.if_version)
        now = self._changed(old, change)
        if replace(now, version=old.version, changed_at_s=old.changed_at_s) == old:
            return old

        async def work(session: Session, media: Sequence[Columns]) -> Identity:
            await session.find(identities, is_locking=True, name=name)
            current, is_done = await seen(session)
            if is_done:
                return current
            if (current.generation, current.version) != (old.generation, old.version):
                raise _conflict(current, change.if_version)
            await self.require_bank(session, "header.emotion_bank", now.emotion_bank)
            await session.change(identities, session.mine(identities, name=name), version=now.version)
            await self.insert_version(session, now)
            for file in media:
                await session.add(reference_files, identity_id=now.generation, **file)
            kept = [reference.digest for reference in now.references]
            await session.drop(reference_files, reference_files.c.digest.not_in(kept), identity_id=now.generation)
            await self._drop_stale_derived(session, now)
            await session.record([now.generation, now.version], now.changed_at_s)
            return now

        contents = [file.content for file in change.added]
        return await self.storage.keep(tenant, f"identities/{old.generation}", contents, work)

    async def add_ready(self, tenant: str, ready: Iterable[NewIdentity]) -> None:
        """Add the identities that come with the project, but those that are there or were erased on purpose."""
        there = select(identities.c.name).where(by(identities, tenant=tenant))
        gone = select(removed_identities.c.name).where(by(removed_identities, tenant=tenant))
        names = {row[0] for row in await self.storage.rows(tenant, there.union(gone))}
        for new in ready:
            if new.id not in names:
                try:
                    await self.add(tenant, new)
                except AlreadyExists:
                    continue  # Another replica, which starts at the same time, was first.

    async def insert(self, session: Session, identity: Identity, is_visible: bool = True) -> None:
        """Insert an identity and its version; one that is not visible is found by nobody yet."""
        head = {"id": identity.generation, "name": identity.id if is_visible else None, "version": identity.version}
        await session.add(identities, **head, created_at_s=self.storage.clock())
        await self.insert_version(session, identity)

    async def insert_version(self, session: Session, identity: Identity) -> None:
        """Insert the rows of a version."""
        version = {"identity_id": identity.generation, "version": identity.version}
        about = {"emotion_bank": identity.emotion_bank, "changed_at_s": identity.changed_at_s}
        await session.add(identity_versions, **version, **about, **asdict(identity.profile))
        for place, grant in enumerate(identity.grants):
            await session.add(permissions, **version, position=place, **asdict(grant))
        for place, reference in enumerate(identity.references):
            await session.add(version_references, **version, position=place, **asdict(reference))

    async def require_free(self, session: Session, name: str) -> None:
        """Refuse a name that is taken.

        Raises:
            AlreadyExists: It is.
        """
        if await session.find(identities, name=name):
            raise AlreadyExists(f"identity {name!r} exists; choose another id, or erase it first")

    async def require_bank(self, session: Session, field: str, name: str) -> None:
        """Refuse the name of an emotion bank that is unknown."""
        checks.check_id(field, name)
        if name != BANK_DEFAULT and await session.find(emotion_banks, name=name) is None:
            raise InvalidRequest(field, f"{name!r} is unknown; store it first, or use {BANK_DEFAULT!r}")

    async def bank(self, session: Session, name: str) -> EmotionBank:
        """Return an emotion bank."""
        if name == BANK_DEFAULT:
            return default_bank()
        if (row := await session.find(emotion_banks, name=name)) is None:
            raise NotFound(f"emotion bank {name!r} is unknown; store it first, or use {BANK_DEFAULT!r}")
        return read_as(EmotionBank, row)

    @writing
    async def put_bank(self, session: Session, bank: EmotionBank) -> None:
        """Store an emotion bank, or its new content."""
        checks.check("emotion_bank", bank)
        if bank.name == BANK_DEFAULT:
            problem = f"{BANK_DEFAULT!r} is what the wheel has; choose another name"
            raise InvalidRequest("emotion_bank.name", problem)
        await session.ensure_tenant()
        await session.drop(emotion_banks, name=bank.name)
        await session.add(emotion_banks, **asdict(bank))

    def _changed(self, old: Identity, change: Change) -> Identity:
        given = {name: getattr(change, name) for name in ("profile", "grants", "emotion_bank")}
        now = replace(old, **{name: value for name, value in given.items() if value is not None})
        checks.check("header.profile", now.profile)
        check_grants("header.grants", now.grants)
        kept, version = checks.kept_references("header.removed", old.references, change.removed), old.version + 1
        references = (*kept, *checks.new_references("header.added", change.added, version, old.references))
        checks.check_declared("header.added", references)
        checks.check_needed("header.removed", references)
        return replace(now, references=references, version=version, changed_at_s=self.storage.clock())

    async def _drop_stale_derived(self, session: Session, identity: Identity) -> None:
        """Delete data derived from files that are gone, or for a use that is not allowed any more."""
        uses, columns = allowed(identity, self.storage.clock()), derived_data.c
        valid = [columns.kind == ""]
        for kind in ReferenceKind:
            digests = [each.digest for each in identity.references if each.kind is kind]
            if digests and USES[kind] in uses:
                valid.append((columns.kind == kind) & columns.source.in_([*digests, source_of(digests)]))
        await session.drop(derived_data, ~or_(*valid), identity_id=identity.generation)


def default_bank() -> EmotionBank:
    """Return the emotion bank that is all of the ontology."""
    wheel = emotions.load()
    return EmotionBank(BANK_DEFAULT, wheel.classes, wheel.styles)


def source_of(digests: Sequence[str]) -> str:
    """Return the digest for what is derived from these files: of one file its own."""
    return digests[0] if len(digests) == 1 else digest_of("".join(digests).encode())


def kind_of(identity: Identity, digests: Sequence[str]) -> ReferenceKind:
    """Return the kind of the files from which something is derived; refuse several kinds, and another order."""
    if not 1 <= len(digests) <= checks.FILES_MAX:
        raise InvalidRequest("reference_digests", f"{len(digests)} of them; send 1 to {checks.FILES_MAX}")
    kinds = {reference_of(identity, digest).kind for digest in digests}
    if len(kinds) > 1:
        raise InvalidRequest("reference_digests", f"they are of {' and '.join(sorted(kinds))}; send those of one kind")
    if list(digests) != [each.digest for each in identity.references if each.digest in digests]:
        problem = f"{', '.join(digest[:12] for digest in digests)} are not in the identity's order, each once"
        raise InvalidRequest("reference_digests", problem)
    return kinds.pop()


def reference_of(identity: Identity, digest: str) -> Reference:
    """Return a reference of an identity."""
    for reference in identity.references:
        if reference.digest == digest:
            return reference
    raise NotFound(f"identity {identity.id!r} has no file with SHA-256 {digest}; GetIdentity tells those that it has")


def unknown(name: str) -> NotFound:
    """Return the error for an identity that is not there."""
    return NotFound(f"identity {name!r} is unknown; add it, or use one that ListIdentities tells")


async def _by_version(
    session: Session, table: Table, versions: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], list[Any]]:
    """Return the rows of versions of identities, in their order."""
    of_these = tuple_(table.c.identity_id, table.c.version).in_(versions)
    found = select(table).where(session.mine(table), of_these).order_by(*table.primary_key.columns)
    rows: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in await session.rows(found):
        rows[row.identity_id, row.version].append(row)
    return rows


def _conflict(now: Identity, if_version: int) -> Conflict:
    return Conflict(f"identity {now.id!r} is at version {now.version}, not {if_version}; read it again, then change it")
