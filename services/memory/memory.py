"""What may be asked of the memory: identities, their references, their emotion banks and what was said to them.

    identities/<id>                                  the identity's record: while it is there, the identity exists
    kept/<id>/<generation>/references/<digest>       its portrait and voice
    kept/<id>/<generation>/derived/<kind>/<digests>  what a model derived from one of these
    kept/<id>/<generation>/turn-ids/… and turns/…    its conversations, see `conversation.py`
    banks/<name>                                     an emotion bank
    removing/<id>                                    a removal that has begun; whoever finds it after a crash ends it
    removed/<id>                                     a ready identity that was removed on purpose

The record is written last and taken away first, so an identity is there whole or not at all. Every addition has a
generation of its own: nothing of a removed identity can turn up in a later one with the same id.
"""

import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from services.common.errors import AlreadyExists, Damaged, FailedPrecondition, InvalidRequest, NotFound
from services.memory.banks import Banks
from services.memory.checks import check_derived, check_digest, check_handle, check_id, check_new, check_turn
from services.memory.conversation import Conversation
from services.memory.domain import (
    Consent,
    Derivation,
    Identity,
    NewIdentity,
    Recollection,
    Reference,
    ReferenceKind,
    Turn,
    Use,
)
from services.memory.records import Codec, damaged, digest_of, sealed, unsealed
from services.memory.store import Store, content_of


@dataclass(frozen=True)
class _Record:
    """An identity, and which addition of its id it is."""

    identity: Identity
    generation: str

    @property
    def folder(self) -> str:
        return f"kept/{self.identity.id}/{self.generation}/"


_RECORDS = Codec(_Record)
_USES = {ReferenceKind.PORTRAIT: Use.ANIMATE_FACE, ReferenceKind.VOICE: Use.CLONE_VOICE}


class Memory:
    """The rules of the memory, over any store.

    Calls block and may come from several threads. Beside what is said at each method, they raise `InvalidRequest`
    for a name that is not allowed, `Damaged` for a stored object that is not what was written, and `NotReady` when
    the store cannot be reached.

    Args:
        store: Where the objects are; it may be shared with other processes.
        ready: The identities that come with the project.
    """

    def __init__(self, store: Store, ready: Iterable[NewIdentity] = ()) -> None:
        self.banks = Banks(store)
        self._store = store
        self._ready = {identity.id: identity for identity in ready}
        # Additions and removals of this process take turns. Those of other processes need not: see `add`.
        self._changes = threading.Lock()

    def prepare(self) -> None:
        """Ends removals that a crash cut short, and adds the ready identities that are neither there nor removed."""
        with self._changes:
            for entry in self._store.list("removing/"):
                self._erase(entry.key.removeprefix("removing/"))
        for identity in self._ready.values():
            kept = self._store.get(_record_key(identity.id))
            if kept is None and self._store.get(f"removed/{identity.id}") is None:
                self._add_unless_taken(identity)

    def recall(self, identity_id: str, conversation: str, turns_max: int) -> Recollection:
        """Returns the identity, its emotion bank and at most `turns_max` of the last turns; "" recalls no turns.

        Raises:
            NotFound: The identity is unknown.
        """
        check_id("identity", identity_id)
        if conversation:
            check_handle("conversation", conversation)
        record = self._found(identity_id)
        turns = Conversation(self._store, record.folder, conversation).last(turns_max) if conversation else ()
        return Recollection(record.identity, self.banks.get(record.identity.emotion_bank), turns)

    def remember(self, identity_id: str, conversation: str, turn: Turn) -> None:
        """Keeps a turn; a turn id that the conversation has already changes nothing.

        Raises:
            NotFound: The identity is unknown, or was removed meanwhile; nothing of the turn is kept then.
            FailedPrecondition: Its consent does not include `keep_turns`.
        """
        check_id("identity", identity_id)
        check_handle("conversation", conversation)
        check_turn(turn)
        record = self._found(identity_id)
        _require(record.identity.consent, Use.KEEP_TURNS, identity_id)
        Conversation(self._store, record.folder, conversation).append(turn)
        self._check_still_there(record)

    def identities(self) -> tuple[Identity, ...]:
        """Returns all identities, by id."""
        ids = (entry.key.removeprefix("identities/") for entry in self._store.list("identities/"))
        return tuple(record.identity for record in map(self._record, ids) if record)

    def identity(self, identity_id: str) -> Identity:
        """Returns an identity.

        Raises:
            NotFound: It is unknown.
        """
        check_id("identity", identity_id)
        return self._found(identity_id).identity

    def reference(self, identity_id: str, kind: ReferenceKind) -> bytes:
        """Returns the content of a reference, which is what was added: its SHA-256 is checked.

        Raises:
            NotFound: The identity is unknown.
            FailedPrecondition: Its consent does not allow what the reference is used for.
        """
        check_id("identity", identity_id)
        record = self._found(identity_id)
        _require(record.identity.consent, _USES[kind], identity_id)
        wanted = _reference_of(record.identity, kind)
        key = _reference_key(record, wanted)
        content = content_of(self._store.get(key))
        if content is None:
            self._found(identity_id)  # Gone because the identity is: not damage.
            raise damaged(key, "it is missing")
        if digest_of(content) != wanted.digest:
            raise damaged(key, f"its SHA-256 does not match ({len(content)} bytes, {wanted.size_bytes} expected)")
        return content

    def derived(self, identity_id: str, derivation: Derivation) -> bytes:
        """Returns what a model derived from a reference and had kept.

        Raises:
            NotFound: The identity is unknown, or nothing of this kind was kept.
            FailedPrecondition: Its consent does not allow what the reference is used for.
        """
        check_id("identity", identity_id)
        _check_derivation(derivation)
        record = self._found(identity_id)
        _require(record.identity.consent, _USES[derivation.kind], identity_id)
        key = _derived_key(record, derivation)
        content = content_of(self._store.get(key))
        if content is None:
            model = derivation.model_digest[:12]
            raise NotFound(f"identity {identity_id!r}: model {model} derived nothing from that {derivation.kind}")
        return unsealed(key, content)

    def keep_derived(self, identity_id: str, derivation: Derivation, content: bytes) -> None:
        """Keeps what a model derived from a reference.

        Raises:
            NotFound: The identity is unknown, or was removed meanwhile; nothing is kept then.
            FailedPrecondition: Its consent does not allow what the reference is used for.
        """
        check_id("identity", identity_id)
        _check_derivation(derivation)
        check_derived(content)
        record = self._found(identity_id)
        reference = _reference_of(record.identity, derivation.kind)
        if derivation.reference_digest != reference.digest:
            raise InvalidRequest(
                "reference_digest",
                f"{derivation.reference_digest} is not that of the {derivation.kind} of {identity_id!r}; it is"
                f" {reference.digest}",
            )
        _require(record.identity.consent, _USES[derivation.kind], identity_id)
        self._store.put(_derived_key(record, derivation), sealed(content))
        self._check_still_there(record)

    def add(self, new: NewIdentity) -> Identity:
        """Adds an identity; it is there with everything, or nothing of it is kept.

        Raises:
            AlreadyExists: The id is taken.
            InvalidRequest: A field is wrong, a reference is missing or too large, the emotion bank is unknown.
        """
        check_new(new)
        if not self.banks.has(new.emotion_bank):
            raise InvalidRequest("header.emotion_bank", f"{new.emotion_bank!r} is unknown; use 'default'")
        with self._changes:
            self._check_free(new.id)
            record = _record_of(new)
            try:
                self._store.put(_reference_key(record, record.identity.portrait), new.portrait)
                self._store.put(_reference_key(record, record.identity.voice), new.voice)
                if self._store.create(_record_key(new.id), _RECORDS.encode(record)) is None:
                    raise _taken(new.id)
            except BaseException:
                self._withdraw(record)
                raise
            self._settle(record)
        return record.identity

    def remove(self, identity_id: str) -> int:
        """Removes an identity with its references and turns, and what a crash may have left of it.

        Returns:
            How many objects were removed.

        Raises:
            NotFound: It is unknown.
        """
        check_id("identity", identity_id)
        with self._changes:
            left = self._store.list(f"kept/{identity_id}/", limit=1)
            if not left and not self._has(_record_key(identity_id)) and not self._has(f"removing/{identity_id}"):
                raise _unknown(identity_id)
            if identity_id in self._ready:
                self._store.put(f"removed/{identity_id}", b"")
            self._store.put(f"removing/{identity_id}", b"")
            return self._erase(identity_id)

    def _found(self, identity_id: str) -> _Record:
        record = self._record(identity_id)
        if record is None:
            raise _unknown(identity_id)
        return record

    def _record(self, identity_id: str) -> _Record | None:
        key = _record_key(identity_id)
        content = content_of(self._store.get(key))
        return None if content is None else _RECORDS.decode(key, content)

    def _check_still_there(self, record: _Record) -> None:
        """After a write: a removal that began meanwhile may have looked for objects before this one was there."""
        now = self._record(record.identity.id)
        if now is None or now.generation != record.generation:
            self._delete_below(record.folder)
            raise _unknown(record.identity.id)

    def _check_free(self, identity_id: str) -> None:
        if self._store.get(f"removing/{identity_id}") is not None:
            raise AlreadyExists(f"identity {identity_id!r} is still being removed; remove it again to end that")
        if self._store.get(_record_key(identity_id)) is not None:
            raise _taken(identity_id)

    def _add_unless_taken(self, identity: NewIdentity) -> None:
        try:
            self.add(identity)
        except AlreadyExists:
            return  # Another replica, which starts at the same time, was first.

    def _settle(self, record: _Record) -> None:
        """After an addition: deletes what a crashed one left under the same id, and looks whether all is there.

        A removal in another process may have begun before the record was written, and does not look for it again
        once it has deleted the references. It has left its mark then, or else the references are gone already.
        """
        removing = self._store.get(f"removing/{record.identity.id}") is not None
        keys = [entry.key for entry in self._store.list(f"kept/{record.identity.id}/")]
        left = [key for key in keys if not key.startswith(record.folder)]
        self._store.delete(left)
        if removing or len(keys) - len(left) < 2:
            self._withdraw(record)
            raise AlreadyExists(f"identity {record.identity.id!r} was removed while it was being added; add it again")

    def _withdraw(self, record: _Record) -> None:
        """Takes an addition back. Its record may be there even when writing it failed: the answer can get lost."""
        now = self._record(record.identity.id)
        if now and now.generation == record.generation:
            self._store.delete([_record_key(record.identity.id)])
        self._delete_below(record.folder)

    def _erase(self, identity_id: str) -> int:
        """Deletes all objects of an identity whose removal is marked; then the mark."""
        count = self._delete_record(identity_id)
        while True:
            count += self._delete_below(f"kept/{identity_id}/")
            # An addition in another process may have been about to write its record: that goes too.
            if not self._delete_record(identity_id):
                break
            count += 1
        self._store.delete([f"removing/{identity_id}"])
        return count

    def _delete_record(self, identity_id: str) -> int:
        """Deletes the record; returns how many there were."""
        key = _record_key(identity_id)
        if not self._has(key):
            return 0
        self._store.delete([key])
        return 1

    def _has(self, key: str) -> bool:
        """Tells whether there is an object, be it damaged: a damaged identity can be removed too."""
        try:
            return self._store.get(key) is not None
        except Damaged:
            return True

    def _delete_below(self, folder: str) -> int:
        """Deletes the objects in `folder`; returns how many there were."""
        keys = [entry.key for entry in self._store.list(folder)]
        self._store.delete(keys)
        return len(keys)


def _check_derivation(derivation: Derivation) -> None:
    check_digest("reference_digest", derivation.reference_digest)
    check_digest("model_digest", derivation.model_digest)


def _reference_of(identity: Identity, kind: ReferenceKind) -> Reference:
    return identity.portrait if kind is ReferenceKind.PORTRAIT else identity.voice


def _derived_key(record: _Record, derivation: Derivation) -> str:
    return f"{record.folder}derived/{derivation.kind}/{derivation.reference_digest}-{derivation.model_digest}"


def _record_of(new: NewIdentity) -> _Record:
    identity = Identity(
        id=new.id,
        profile=new.profile,
        portrait=Reference(digest_of(new.portrait), len(new.portrait)),
        voice=Reference(digest_of(new.voice), len(new.voice)),
        consent=Consent(new.consent.granted_by, new.consent.granted_on, tuple(sorted(set(new.consent.uses)))),
        emotion_bank=new.emotion_bank,
    )
    return _Record(identity, secrets.token_hex(16))


def _record_key(identity_id: str) -> str:
    return f"identities/{identity_id}"


def _reference_key(record: _Record, reference: Reference) -> str:
    return f"{record.folder}references/{reference.digest}"


def _require(consent: Consent, use: Use, identity_id: str) -> None:
    if use not in consent.uses:
        given = ", ".join(consent.uses) or "nothing"
        raise FailedPrecondition(
            f"the consent of {consent.granted_by} for identity {identity_id!r} does not include {use.value};"
            f" it allows {given}; add the identity again with the permission"
        )


def _unknown(identity_id: str) -> NotFound:
    return NotFound(f"identity {identity_id!r} is unknown; add it, or use one that ListIdentities tells")


def _taken(identity_id: str) -> AlreadyExists:
    return AlreadyExists(f"identity {identity_id!r} exists; choose another id, or remove it first")
