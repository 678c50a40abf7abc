"""The identities: finds, adds, changes and lists them. `keys.py` says where they are.

An identity is its head, one object. To add one, its files are put and then the head is created. To change one, the new
files are put, then the head as it was goes to `versions/`, then the head is replaced if it is still the same; what it
does not name any more goes after that. So whoever reads finds the old state or the new one, wherever a writer ended.
What such an end leaves, files that nobody names, goes with the next successful change or addition, or when the
identity is erased.
"""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from services.common.errors import AlreadyExists, Conflict, Damaged, InvalidRequest, NotFound
from services.memory import keys
from services.memory.checks import check_id, check_profile
from services.memory.domain import BANK_DEFAULT, Change, File, Identity, NewIdentity, Reference, Use
from services.memory.forgetting.marks import erasing
from services.memory.forgetting.subjects import IdentitySubject
from services.memory.keys import Scope
from services.memory.registry import file_checks
from services.memory.registry.additions import Additions
from services.memory.registry.banks import Banks
from services.memory.registry.consent import allowed, check_grants, check_uses, require
from services.memory.registry.heads import IDENTITIES, Heads, Kept
from services.memory.registry.listing import Page, page_of
from services.memory.registry.references import References, lost, unnamed
from services.memory.store import Store

log = logging.getLogger(__name__)


class Registry:
    """The identities in `store`. Calls block; any thread and any number of processes may call.

    Beside what is said at each method, they raise `InvalidRequest` for a name that is not allowed, `NotFound` for an
    identity that is unknown, `Damaged` for a stored object that is not what was written, and what the store raises.

    Args:
        store: Where they are.
        clock: Unix time.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._banks = Banks(store)
        self._heads = Heads(store)
        self.additions = Additions(store)
        self._references = References(store, self._heads, clock)

    def found(self, tenant: str, identity: str, uses: Collection[str] = ()) -> Kept:
        """Returns an identity, if all of `uses` are allowed.

        Raises:
            FailedPrecondition: A permission is missing or has ended; the message says all that there is to know.
            InvalidRequest: One of `uses` is none.
        """
        check_uses("uses", uses)
        kept = self._heads.read(tenant, identity).kept
        require(kept.identity, uses, self._clock())
        return kept

    def is_there(self, tenant: str, identity: str) -> bool:
        """Tells whether there is such an identity, be it damaged."""
        return self._heads.is_there(tenant, identity)

    def check_still(self, scope: Scope) -> None:
        """After a write below `scope.folder`: an erasure may have looked for objects before this one was there.

        Raises:
            NotFound: The identity was erased meanwhile. Nothing is left below the folder then.
        """
        self._heads.still(scope)

    def identity(self, tenant: str, identity: str, version: int = 0) -> Identity:
        """Returns an identity as it is, or as it was at `version`; it may name files that are gone by now.

        Raises:
            NotFound: The identity is unknown, or has no such version.
        """
        kept = self._heads.read(tenant, identity).kept
        if version in (0, kept.identity.version):
            return kept.identity
        if not 1 <= version < kept.identity.version:
            raise NotFound(f"identity {identity!r} has no version {version}; it is at {kept.identity.version}")
        return self._heads.earlier(kept.scope, version)

    def identities(self, tenant: str, page_size: int, after: str) -> Page:
        """Returns at most `page_size` identities behind the id `after`, damaged ones included; see `page_of`."""
        return page_of(self._store, tenant, page_size, after)

    def prepare(self, tenant: str, ready: Iterable[NewIdentity]) -> None:
        """Adds the identities that are neither there nor were erased on purpose.

        One that cannot be added for a damaged object is logged, and stops nothing else.
        """
        for new in ready:
            try:
                # In this order: an erasure leaves its mark before it takes the head.
                if self.is_there(tenant, new.id) or self._store.get(keys.removed(tenant, new.id)) is not None:
                    continue
                self.add(tenant, new)
            except AlreadyExists:
                continue  # Another replica, which starts at the same time, was first.
            except Damaged as error:
                log.error("a ready identity is not added", extra={"identity": new.id, "why": str(error)})

    def add(self, tenant: str, new: NewIdentity) -> Identity:
        """Adds an identity; it is there with everything, or nothing of it is kept.

        Raises:
            AlreadyExists: The id is taken, or its erasure is not over.
            InvalidRequest: A field is wrong, a file is missing or too large, the emotion bank is unknown.
        """
        identity = self._made(tenant, new)
        self.check_free(tenant, new.id)
        scope = Scope(tenant, new.id, identity.generation)
        with self.additions.begun(scope):
            self._put(scope, identity.references, new.files)
            self.appear(scope, identity)
        return identity

    def check_free(self, tenant: str, identity: str) -> None:
        """Refuses an id that is taken.

        Raises:
            AlreadyExists: It is, or its erasure is not over.
        """
        if erasing(self._store, keys.erasing_identity(tenant, identity)):
            raise AlreadyExists(f"identity {identity!r} is still being erased; add it again in a moment")
        if self.is_there(tenant, identity):
            raise _taken(identity)

    def appear(self, scope: Scope, identity: Identity) -> None:
        """Lets an identity be found, of which all else is below `scope.folder`; `additions.begun` takes back a failure.

        Raises:
            AlreadyExists: The id is taken by now, or was erased meanwhile.
        """
        if self._store.create(keys.head(scope.tenant, scope.identity), IDENTITIES.encode(identity)) is None:
            raise _taken(scope.identity)
        self._settle(scope, identity)

    def change(self, tenant: str, identity: str, change: Change) -> Identity:
        """Changes an identity into its next version; one that is that already stays at its version.

        When clone_voice or animate_face is not allowed any more, what was derived from the voices or from the portraits
        and films goes too: it must not outlive the permission. The files themselves stay, but are not lent. Turns that
        were kept stay until they are erased.

        Raises:
            Conflict: It is not at `change.if_version`; nothing is changed.
            InvalidRequest: A field is wrong, a file is too large or there already, a needed one would go.
            NotReady: The store is away; the change may have been made all the same: read the identity.
        """
        head = self._heads.read(tenant, identity)
        kept = head.kept
        if kept.identity.version != change.if_version:
            raise _conflict(kept.identity, change.if_version)
        now, scope = self._changed(tenant, kept.identity, change), kept.scope
        if replace(now, version=kept.identity.version, changed_at_s=kept.identity.changed_at_s) == kept.identity:
            return kept.identity
        came = [reference for reference in now.references if reference.since == now.version]
        self._put(scope, came, change.added)
        self._store.put(scope.version(kept.identity.version), head.object.content)
        if self._store.replace(keys.head(tenant, identity), IDENTITIES.encode(now), head.object.etag) is None:
            winner = self._heads.still(scope)
            self._store.delete(lost(scope, winner, came))
            raise _conflict(winner, change.if_version)
        self._store.delete(unnamed(self._store, scope, now, allowed(now, self._clock())))
        return now

    def reference(self, tenant: str, identity: str, digest: str) -> bytes:
        """Returns the content of a file; see `References.read`."""
        return self._references.read(tenant, identity, digest)

    def derived(self, tenant: str, identity: str, reference_digests: Sequence[str], model_digest: str) -> bytes:
        """Returns what a model derived from files and had kept; see `References.derived`."""
        return self._references.derived(tenant, identity, reference_digests, model_digest)

    def keep_derived(
        self, tenant: str, identity: str, reference_digests: Sequence[str], model_digest: str, content: bytes
    ) -> None:
        """Keeps what a model derived from files; see `References.keep_derived`."""
        self._references.keep_derived(tenant, identity, reference_digests, model_digest, content)

    def _made(self, tenant: str, new: NewIdentity) -> Identity:
        check_id("tenant", tenant)
        check_id("header.id", new.id)
        check_profile("header.profile", new.profile)
        check_grants("header.grants", new.grants)
        if not new.grants:
            raise InvalidRequest("header.grants", f"it is empty; allow at least one of: {', '.join(Use)}")
        sizes = [(file.kind, len(file.content)) for file in new.files]
        file_checks.check_declared("header.references", sizes, whole=True)
        came = file_checks.came("header.references", new.files, since=1)
        self._check_bank(tenant, new.emotion_bank)
        return Identity(
            new.id, new.profile, came, new.grants, new.emotion_bank, 1, self._clock(), secrets.token_hex(16)
        )

    def _changed(self, tenant: str, old: Identity, change: Change) -> Identity:
        profile = old.profile if change.profile is None else change.profile
        grants = old.grants if change.grants is None else change.grants
        bank = old.emotion_bank if change.emotion_bank is None else change.emotion_bank
        check_profile("header.profile", profile)
        check_grants("header.grants", grants)
        left = file_checks.left("header.removed", old.references, change.removed)
        came = file_checks.came("header.added", change.added, since=old.version + 1, others=old.references)
        file_checks.check_together((*left, *came))
        self._check_bank(tenant, bank)
        return replace(
            old,
            profile=profile,
            references=(*left, *came),
            grants=grants,
            emotion_bank=bank,
            version=old.version + 1,
            changed_at_s=self._clock(),
        )

    def _check_bank(self, tenant: str, name: str) -> None:
        check_id("header.emotion_bank", name)
        if not self._banks.has(tenant, name):
            raise InvalidRequest("header.emotion_bank", f"{name!r} is unknown; store it first, or use {BANK_DEFAULT!r}")

    def _put(self, scope: Scope, came: Sequence[Reference], files: Sequence[File]) -> None:
        for reference, file in zip(came, files, strict=True):
            self._store.put(scope.reference(reference.digest, reference.since), file.content)

    def _settle(self, scope: Scope, identity: Identity) -> None:
        """After an addition: looks whether all is there, then deletes what crashed ones left under the same id.

        An erasure in another process may have begun before the head was created, and does not look for it again once
        it has deleted the files. It has left its mark then, or else the files are gone already.

        What is found beside an addition that is whole is of nobody who can still appear: an erasure that makes room for
        another addition deletes those files too. Beside one that is not, it can be of one that appears right now.
        """
        erased = erasing(self._store, keys.erasing_identity(scope.tenant, scope.identity))
        additions = IdentitySubject(scope.tenant, scope.identity).contents(self._store)
        own = {entry.key for entry in additions.pop(scope.folder, ())}
        if erased or any(scope.reference(file.digest, file.since) not in own for file in identity.references):
            raise AlreadyExists(f"identity {scope.identity!r} was erased while it was being added; add it again")
        for folder in additions:
            self._heads.delete_below(folder)


def _taken(identity: str) -> AlreadyExists:
    return AlreadyExists(f"identity {identity!r} exists; choose another id, or erase it first")


def _conflict(now: Identity, if_version: int) -> Conflict:
    return Conflict(f"identity {now.id!r} is at version {now.version}, not {if_version}; read it again, then change it")
