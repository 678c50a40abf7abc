"""The head of an identity: the one object that says that it exists, and what it is."""

from dataclasses import dataclass

from services.common.errors import Damaged, NotFound
from services.memory import keys
from services.memory.checks import check_id
from services.memory.domain import Identity
from services.memory.forgetting.leaving import Leaving
from services.memory.keys import Scope
from services.memory.records import Codec, damaged
from services.memory.store import Object, Store, content_of

IDENTITIES = Codec(Identity)
"""How an identity is written: as its head, and among its versions."""


@dataclass(frozen=True)
class Kept:
    """An identity that was found, and where its things are."""

    identity: Identity
    scope: Scope


@dataclass(frozen=True)
class Head:
    """An identity and the object that it is in."""

    kept: Kept
    object: Object


class Heads:
    """The heads in `store`. Calls block; any thread may call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leaving = Leaving(store)

    def read(self, tenant: str, identity: str) -> Head:
        """Returns a head.

        Raises:
            InvalidRequest: A name is not allowed.
            NotFound: There is no such identity.
            Damaged: The object is not what was written; the message names it.
        """
        check_id("tenant", tenant)
        check_id("identity", identity)
        key = keys.head(tenant, identity)
        found = self._store.get(key)
        if not isinstance(found, Object):
            raise unknown(identity)
        record = identity_in(key, found.content)
        return Head(Kept(record, Scope(tenant, identity, record.generation)), found)

    def is_there(self, tenant: str, identity: str) -> bool:
        """Tells whether there is such an identity, be it damaged."""
        check_id("tenant", tenant)
        check_id("identity", identity)
        try:
            return self._store.get(keys.head(tenant, identity)) is not None
        except Damaged:
            return True

    def earlier(self, scope: Scope, version: int) -> Identity:
        """Returns an identity as it was at an earlier version.

        Raises:
            NotFound: It was erased meanwhile.
            Damaged: The object is missing, or not what was written; the message names it.
        """
        key = scope.version(version)
        content = content_of(self._store.get(key))
        if content is None:
            self.still(scope)
            raise damaged(key, "it is missing")
        record = IDENTITIES.decode(key, content)
        if (record.id, record.version) != (scope.identity, version):
            raise damaged(key, f"it is version {record.version} of {record.id!r}")
        return record

    def still(self, scope: Scope) -> Identity:
        """After a write below `scope.folder`: an erasure may have looked for objects before this one was there.

        Returns:
            The identity as it is now.

        Raises:
            NotFound: It was erased meanwhile. Nothing is left below the folder then.
        """
        try:
            kept = self.read(scope.tenant, scope.identity).kept
            if kept.scope != scope:
                raise unknown(scope.identity)
        except NotFound:
            self.delete_below(scope.folder)
            raise
        return kept.identity

    def withdraw(self, scope: Scope) -> None:
        """Takes an addition back. Its head may be there even when writing it failed: the answer can get lost."""
        key = keys.head(scope.tenant, scope.identity)
        content = content_of(self._store.get(key))
        if content is not None and IDENTITIES.decode(key, content).generation == scope.generation:
            self._store.delete([key])
        self.delete_below(scope.folder)

    def delete_below(self, folder: str) -> None:
        """Deletes all that is in the folder of an addition, and what says of people that something of them is there."""
        entries = self._store.list(folder)
        self._leaving.leave(folder, entries)
        self._store.delete([entry.key for entry in entries])


def identity_in(key: str, content: bytes) -> Identity:
    """Returns the identity of which `key` is the head.

    Raises:
        Damaged: The object is not what was written, or is the head of another; the message names it.
    """
    record = IDENTITIES.decode(key, content)
    if record.id != key.rpartition("/")[2]:
        raise damaged(key, f"it is the head of {record.id!r}")
    return record


def unknown(identity: str) -> NotFound:
    """Returns the error for an identity that is not there."""
    return NotFound(f"identity {identity!r} is unknown; add it, or use one that ListIdentities tells")
