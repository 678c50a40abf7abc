"""Identities, their versions and permissions, and emotion banks."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any
from uuid import uuid4

from cachetools import TTLCache
from sqlalchemy import Table, delete, insert, or_, select, tuple_, update

import emotions
from services.common.errors import AlreadyExists, Conflict, InvalidRequest, NotFound
from services.memory.blobs import digest_of, new_key
from services.memory.checks import check_bank, check_id, check_profile
from services.memory.consent import allowed, check_grants, check_uses, require
from services.memory.database import Session
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
)
from services.memory.file_checks import FILES_MAX, came, check_declared, check_together, left
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
from services.memory.storage import Storage, ensure_tenant, insert_new, outcome, record

PAGE_BYTES_MAX = 2**20
"""A page of identities ends early when it is larger: it must fit into one message."""


class Identities:
    """Identities of all tenants. Methods raise `InvalidRequest` for a name that is not allowed.

    Args:
        storage: Where they are.
        keep_s: Seconds that a version, which never changes, is cached.
    """

    def __init__(self, storage: Storage, keep_s: float) -> None:
        self._storage = storage
        self.cache: TTLCache[tuple[str, int], Identity] = TTLCache(1000, keep_s)

    async def found(self, session: Session, name: str, uses: Collection[str] = ()) -> Identity:
        """Return an identity whose permissions include all of `uses`.

        Raises:
            NotFound: It is unknown.
            FailedPrecondition: A permission is missing or has ended.
        """
        check_id("identity", name)
        check_uses("uses", uses)
        columns = identities.c
        head = await session.first(
            select(columns.id, columns.version).where(columns.tenant == session.tenant, columns.name == name)
        )
        if head is None:
            raise unknown(name)
        identity = await self.version(session, name, *head)
        require(identity, uses, self._storage.clock())
        return identity

    async def version(self, session: Session, name: str, identity_id: str, version: int) -> Identity:
        """Return one version of an identity."""
        (identity,) = await self.versions(session, [(name, identity_id, version)])
        return identity

    async def versions(self, session: Session, wanted: Sequence[tuple[str, str, int]]) -> list[Identity]:
        """Return versions of identities, given as (name, id, version)."""
        missing = [(key, version) for _, key, version in wanted if (key, version) not in self.cache]
        found = {(key, version): self.cache.get((key, version)) for _, key, version in wanted}
        rows: list[list[Any]] = []
        for table in (identity_versions, permissions, version_references) if missing else ():
            pair = tuple_(table.c.identity_id, table.c.version)
            statement = select(table).where(table.c.tenant == session.tenant, pair.in_(missing))
            if table is not identity_versions:
                statement = statement.order_by(table.c.position)
            rows.append([row._mapping for row in await session.rows(statement)])
        names = {key: name for name, key, _ in wanted}
        for row in rows[0] if rows else ():
            key = row["identity_id"], row["version"]
            of_version = [[each for each in part if (each["identity_id"], each["version"]) == key] for part in rows[1:]]
            identity = Identity(
                id=names[key[0]],
                profile=_read(Profile, row),
                references=tuple(
                    replace(_read(Reference, each), kind=ReferenceKind(each["kind"])) for each in of_version[1]
                ),
                grants=tuple(_read(Grant, each) for each in of_version[0]),
                emotion_bank=row["emotion_bank"],
                version=key[1],
                changed_at_s=row["changed_at_s"],
                generation=key[0],
            )
            self.cache[key] = found[key] = identity
        return [each for _, key, version in wanted if (each := found[key, version])]

    async def get(self, tenant: str, name: str, version: int = 0) -> Identity:
        """Return an identity as it is, or as it was at `version`; it may name files that are gone by now.

        Raises:
            NotFound: The identity is unknown, or has no such version.
        """

        async def work(session: Session) -> Identity:
            now = await self.found(session, name)
            if version in (0, now.version):
                return now
            if not 1 <= version < now.version:
                raise NotFound(f"identity {name!r} has no version {version}; it is at {now.version}")
            return await self.version(session, name, now.generation, version)

        return await self._storage.read(tenant, work)

    async def page(self, tenant: str, page_size: int, after: str) -> tuple[list[Identity], str]:
        """Return at most `page_size` identities by name, those behind `after`, and what the next page is after."""
        if after:
            check_id("page_token", after)

        async def work(session: Session) -> list[Identity]:
            columns = identities.c
            statement = select(columns.name, columns.id, columns.version).where(
                columns.tenant == session.tenant, columns.name > after
            )
            rows = await session.rows(statement.order_by(columns.name).limit(page_size + 1))
            return await self.versions(session, [(row.name, row.id, row.version) for row in rows])

        found = await self._storage.read(tenant, work)
        page: list[Identity] = []
        size_bytes = 0
        for identity in found[:page_size]:
            size_bytes += len(repr(identity))
            if page and size_bytes > PAGE_BYTES_MAX:
                break
            page.append(identity)
        return page, page[-1].id if len(page) < len(found) else ""

    async def add(self, tenant: str, new: NewIdentity) -> Identity:
        """Add an identity, with everything or not at all.

        Raises:
            AlreadyExists: The name is taken.
            InvalidRequest: A field is wrong, a file is missing or too large, the emotion bank is unknown.
        """
        check_id("tenant", tenant)
        check_id("header.id", new.id)
        check_profile("header.profile", new.profile)
        check_grants("header.grants", new.grants)
        if not new.grants:
            raise InvalidRequest("header.grants", f"it is empty; allow at least one of: {', '.join(Use)}")
        check_declared("header.references", [(file.kind, len(file.content)) for file in new.files], whole=True)
        references = came("header.references", new.files, since=1)
        identity_id, now_s = uuid4().hex, self._storage.clock()
        identity = Identity(new.id, new.profile, references, new.grants, new.emotion_bank, 1, now_s, identity_id)
        keys = [new_key(tenant, f"identities/{identity_id}", each.digest) for each in references]

        async def work(session: Session) -> Identity:
            if (first := await outcome(session)) is not None:
                return await self.version(session, new.id, first, 1)
            await self.require_free(session, new.id)
            await self.require_bank(session, "header.emotion_bank", new.emotion_bank)
            await ensure_tenant(session)
            await self.insert_identity(session, identity, now_s)
            await self.insert_files(session, identity, dict(zip((r.digest for r in references), keys, strict=True)))
            await record(session, identity_id, now_s)
            return identity

        await self._storage.read(tenant, lambda session: self.require_free(session, new.id, is_retry_fine=True))
        contents = [file.content for file in new.files]
        return await self._storage.keep(tenant, list(zip(keys, contents, strict=True)), work)

    async def change(self, tenant: str, name: str, change: Change) -> Identity:
        """Change an identity into its next version; without a difference it stays at its version.

        Data derived for a use that is not allowed any more go; the files stay, but are not handed out.

        Raises:
            Conflict: It is not at `change.if_version`; nothing is changed.
            InvalidRequest: A field is wrong, a file is too large or there already, a needed one would go.
        """

        async def before(session: Session) -> tuple[Identity, bool]:
            if (done := await outcome(session)) is not None:
                return await self.version(session, name, *done), True
            return await self.found(session, name), False

        old, is_done = await self._storage.read(tenant, before)
        if is_done:
            return old
        if old.version != change.if_version:
            raise _conflict(old, change.if_version)
        now = self._changed(old, change)
        added = [reference for reference in now.references if reference.since == now.version]
        keys = {each.digest: new_key(tenant, f"identities/{old.generation}", each.digest) for each in added}
        if replace(now, version=old.version, changed_at_s=old.changed_at_s) == old:
            return old

        async def work(session: Session) -> Identity:
            if (done := await outcome(session)) is not None:
                return await self.version(session, name, *done)
            columns = identities.c
            mine = columns.tenant == session.tenant, columns.name == name
            if await session.first(select(columns.id).where(*mine).with_for_update()) is None:
                raise unknown(name)
            current = await self.found(session, name)
            if (current.generation, current.version) != (old.generation, old.version):
                raise _conflict(current, change.if_version)
            await self.require_bank(session, "header.emotion_bank", now.emotion_bank)
            await session.run(update(identities).where(*mine).values(version=now.version))
            await self.insert_version(session, now)
            await self.insert_files(session, now, keys)
            kept = [reference.digest for reference in now.references]
            files = reference_files.c
            await session.run(
                delete(reference_files).where(files.identity_id == now.generation, files.digest.not_in(kept))
            )
            await self._delete_stale_derived(session, now)
            await record(session, [now.generation, now.version], now.changed_at_s)
            return now

        objects = [(keys[digest_of(file.content)], file.content) for file in change.added]
        return await self._storage.keep(tenant, objects, work)

    async def add_ready(self, tenant: str, ready: Iterable[NewIdentity]) -> None:
        """Add the identities that come with the project, but those that are there or were erased on purpose."""

        async def known(session: Session) -> set[str]:
            there = select(identities.c.name).where(identities.c.tenant == tenant, identities.c.name.is_not(None))
            gone = select(removed_identities.c.name).where(removed_identities.c.tenant == tenant)
            return {row[0] for row in (*await session.rows(there), *await session.rows(gone))}

        names = await self._storage.read(tenant, known)
        for new in ready:
            if new.id not in names:
                try:
                    await self.add(tenant, new)
                except AlreadyExists:
                    continue  # Another replica, which starts at the same time, was first.

    async def insert_identity(
        self, session: Session, identity: Identity, now_s: float, is_visible: bool = True
    ) -> None:
        """Insert an identity and its version; one that is not visible is found by nobody yet."""
        values = {"id": identity.generation, "tenant": session.tenant, "version": identity.version}
        name = identity.id if is_visible else None
        await session.run(insert(identities).values(**values, name=name, created_at_s=now_s))
        await self.insert_version(session, identity)

    async def insert_version(self, session: Session, identity: Identity) -> None:
        """Insert the rows of a version."""
        version = {"tenant": session.tenant, "identity_id": identity.generation, "version": identity.version}
        about = {"emotion_bank": identity.emotion_bank, "changed_at_s": identity.changed_at_s}
        await session.run(insert(identity_versions).values(**version, **about, **asdict(identity.profile)))
        parts: tuple[tuple[Table, Sequence[Grant | Reference]], ...] = (
            (permissions, identity.grants),
            (version_references, identity.references),
        )
        for table, of_version in parts:
            rows = [{**version, "position": place, **asdict(each)} for place, each in enumerate(of_version)]
            if rows:
                await session.run(insert(table), rows)

    async def insert_files(self, session: Session, identity: Identity, keys: dict[str, str]) -> None:
        """Insert the rows of those reference files that have a key here."""
        for reference in identity.references:
            if reference.digest in keys:
                values = {"key": keys[reference.digest], "tenant": session.tenant, "identity_id": identity.generation}
                media = {"digest": reference.digest, "size_bytes": reference.size_bytes}
                created = {"created_at_s": identity.changed_at_s}
                await session.run(insert(reference_files).values(**values, **media, **created))

    async def require_free(self, session: Session, name: str, is_retry_fine: bool = False) -> None:
        """Refuse a name that is taken.

        Raises:
            AlreadyExists: It is.
        """
        if is_retry_fine and await outcome(session) is not None:
            return
        columns = identities.c
        if await session.first(select(columns.id).where(columns.tenant == session.tenant, columns.name == name)):
            raise AlreadyExists(f"identity {name!r} exists; choose another id, or erase it first")

    async def require_bank(self, session: Session, field: str, name: str) -> None:
        """Refuse the name of an emotion bank that is unknown.

        Raises:
            InvalidRequest: It is.
        """
        check_id(field, name)
        if name != BANK_DEFAULT and await _bank_row(session, name) is None:
            raise InvalidRequest(field, f"{name!r} is unknown; store it first, or use {BANK_DEFAULT!r}")

    async def bank(self, session: Session, name: str) -> EmotionBank:
        """Return an emotion bank.

        Raises:
            NotFound: It is unknown.
        """
        if name == BANK_DEFAULT:
            wheel = emotions.load()
            return EmotionBank(BANK_DEFAULT, wheel.classes, wheel.styles)
        row = await _bank_row(session, name)
        if row is None:
            raise NotFound(f"emotion bank {name!r} is unknown; store it first, or use {BANK_DEFAULT!r}")
        return EmotionBank(name, tuple(row.face_classes), tuple(row.voice_styles))

    async def put_bank(self, tenant: str, bank: EmotionBank) -> None:
        """Store an emotion bank, or its new content.

        Raises:
            InvalidRequest: It is empty, names something that the ontology lacks, or is the default.
        """
        check_bank(bank)
        if bank.name == BANK_DEFAULT:
            problem = f"{BANK_DEFAULT!r} is all of the ontology; choose another name"
            raise InvalidRequest("emotion_bank.name", problem)
        values = {"face_classes": list(bank.face_classes), "voice_styles": list(bank.voice_styles)}

        async def work(session: Session) -> None:
            await ensure_tenant(session)
            where = emotion_banks.c.tenant == session.tenant, emotion_banks.c.name == bank.name
            await insert_new(session, emotion_banks, {"tenant": tenant, "name": bank.name, **values})
            await session.run(update(emotion_banks).where(*where).values(**values))

        await self._storage.write(tenant, work)

    def _changed(self, old: Identity, change: Change) -> Identity:
        profile = old.profile if change.profile is None else change.profile
        grants = old.grants if change.grants is None else change.grants
        check_profile("header.profile", profile)
        check_grants("header.grants", grants)
        kept = left("header.removed", old.references, change.removed)
        new = came("header.added", change.added, since=old.version + 1, others=old.references)
        check_together((*kept, *new))
        return replace(
            old,
            profile=profile,
            references=(*kept, *new),
            grants=grants,
            emotion_bank=old.emotion_bank if change.emotion_bank is None else change.emotion_bank,
            version=old.version + 1,
            changed_at_s=self._storage.clock(),
        )

    async def _delete_stale_derived(self, session: Session, identity: Identity) -> None:
        """Delete data derived from files that are gone, or for a use that is not allowed any more."""
        uses, columns = allowed(identity, self._storage.clock()), derived_data.c
        valid = []
        for kind in ReferenceKind:
            digests = [each.digest for each in identity.references if each.kind is kind]
            if digests and USES[kind] in uses:
                valid.append((columns.kind == kind) & columns.source.in_([*digests, source_of(digests)]))
        mine = columns.tenant == session.tenant, columns.identity_id == identity.generation
        stale = ~or_(*valid) if valid else columns.kind.is_not(None)
        await session.run(delete(derived_data).where(*mine, stale))


def source_of(digests: Sequence[str]) -> str:
    """Return the digest for what is derived from these files: of one file its own."""
    return digests[0] if len(digests) == 1 else digest_of("".join(digests).encode())


def kind_of(identity: Identity, digests: Sequence[str]) -> ReferenceKind:
    """Return the kind of the files from which something is derived.

    Raises:
        InvalidRequest: There are none, or of several kinds, or in another order than the identity's.
        NotFound: The identity has no such file.
    """
    if not 1 <= len(digests) <= FILES_MAX:
        raise InvalidRequest("reference_digests", f"{len(digests)} of them; send 1 to {FILES_MAX}")
    kinds = {reference_of(identity, digest).kind for digest in digests}
    if len(kinds) > 1:
        raise InvalidRequest("reference_digests", f"they are of {' and '.join(sorted(kinds))}; send those of one kind")
    if list(digests) != [each.digest for each in identity.references if each.digest in digests]:
        problem = f"{', '.join(digest[:12] for digest in digests)} are not in the identity's order, each once"
        raise InvalidRequest("reference_digests", problem)
    return kinds.pop()


def reference_of(identity: Identity, digest: str) -> Reference:
    """Return a reference of an identity.

    Raises:
        NotFound: It has none with this digest.
    """
    for reference in identity.references:
        if reference.digest == digest:
            return reference
    raise NotFound(f"identity {identity.id!r} has no file with SHA-256 {digest}; GetIdentity tells those that it has")


def unknown(name: str) -> NotFound:
    """Return the error for an identity that is not there."""
    return NotFound(f"identity {name!r} is unknown; add it, or use one that ListIdentities tells")


async def _bank_row(session: Session, name: str) -> Any:
    columns = emotion_banks.c
    return await session.first(select(emotion_banks).where(columns.tenant == session.tenant, columns.name == name))


def _conflict(now: Identity, if_version: int) -> Conflict:
    return Conflict(f"identity {now.id!r} is at version {now.version}, not {if_version}; read it again, then change it")


def _read(kind: type[Any], row: Any) -> Any:
    """Return a dataclass from the columns that have its fields' names."""
    return kind(**{each.name: row[each.name] for each in fields(kind)})
