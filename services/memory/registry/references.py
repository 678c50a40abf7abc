"""The files of identities, and what models derived from them: which is meant, what it holds, what has to go."""

from collections.abc import Callable, Sequence

from services.common.errors import FailedPrecondition, InvalidRequest, NotFound
from services.memory import keys
from services.memory.checks import check_digest
from services.memory.domain import USES, Identity, Reference, ReferenceKind
from services.memory.forgetting import marks
from services.memory.keys import Scope, source_of
from services.memory.records import damaged, digest_of, sealed, unsealed
from services.memory.registry.consent import require
from services.memory.registry.file_checks import FILES_MAX, check_derived
from services.memory.registry.heads import Heads, unknown
from services.memory.store import Store, content_of


class References:
    """The files in `store`, and what was derived from them. Calls block; any thread may call.

    Beside what is said at each method, they raise `InvalidRequest` for a name or a digest that is none, `NotFound` when
    the identity is unknown or has no such file, `FailedPrecondition` when its consent does not allow what the file is
    used for, and `Damaged` for a stored object that is not what was written.

    Args:
        store: Where they are.
        heads: The identities.
        clock: Unix time.
    """

    def __init__(self, store: Store, heads: Heads, clock: Callable[[], float]) -> None:
        self._store = store
        self._heads = heads
        self._clock = clock

    def read(self, tenant: str, identity: str, digest: str) -> bytes:
        """Returns the content of a file, which is what was added: its SHA-256 is checked."""
        check_digest("digest", digest)
        kept = self._heads.read(tenant, identity).kept
        reference = reference_of(kept.identity, digest)
        require(kept.identity, [USES[reference.kind]], self._clock())
        key = kept.scope.reference(digest, reference.since)
        content = content_of(self._store.get(key))
        if content is None:
            now = self._heads.read(tenant, identity).kept
            erasure = marks.read(self._store, keys.erasing_identity(tenant, identity))
            if erasure and kept.scope.folder in erasure.mark.folders:
                raise unknown(identity)  # Its addition met the erasure, and is being taken back.
            if now.scope == kept.scope and reference in now.identity.references:
                raise damaged(key, "it is missing")
            return self.read(tenant, identity, digest)  # It has just been removed, and may have come again.
        if digest_of(content) != digest:
            raise damaged(key, f"its SHA-256 does not match ({len(content)} bytes, {reference.size_bytes} expected)")
        return content

    def derived(self, tenant: str, identity: str, digests: Sequence[str], model_digest: str) -> bytes:
        """Returns what a model derived from the files with these digests and had kept.

        Raises:
            NotFound: Also when nothing was kept.
            InvalidRequest: Also when the files are not of one kind, or not in the identity's order.
        """
        key = self._key(tenant, identity, digests, model_digest)
        content = content_of(self._store.get(key))
        if content is None:
            problem = f"model {model_digest[:12]} has derived nothing from these files of identity {identity!r}"
            raise NotFound(f"{problem}; derive it, and keep it")
        return unsealed(key, content)

    def keep_derived(
        self, tenant: str, identity: str, digests: Sequence[str], model_digest: str, content: bytes
    ) -> None:
        """Keeps what a model derived from files, in place of what it derived from them before.

        Raises:
            NotFound: Also when the identity or the file goes meanwhile; nothing is kept then.
            FailedPrecondition: Also when the permission is taken back meanwhile; nothing is kept then.
            InvalidRequest: Also when the files are not of one kind, or not in the identity's order.
            TooLarge: The content is.
        """
        check_derived(content)
        key = self._key(tenant, identity, digests, model_digest)
        self._store.put(key, sealed(content))
        try:
            # A change or an erasure may have looked for what had to go before this was there.
            if self._key(tenant, identity, digests, model_digest) != key:
                raise unknown(identity)
        except (FailedPrecondition, NotFound, InvalidRequest):
            self._store.delete([key])
            raise

    def _key(self, tenant: str, identity: str, digests: Sequence[str], model_digest: str) -> str:
        """Returns the key of what a model derived from these files."""
        check_digest("model_digest", model_digest)
        kept = self._heads.read(tenant, identity).kept
        kind = _kind_of(kept.identity, digests)
        require(kept.identity, [USES[kind]], self._clock())
        return kept.scope.derived(kind, source_of(digests), model_digest)


def reference_of(identity: Identity, digest: str) -> Reference:
    """Returns a file of an identity.

    Raises:
        NotFound: It has no such file.
    """
    for reference in identity.references:
        if reference.digest == digest:
            return reference
    raise NotFound(f"identity {identity.id!r} has no file with SHA-256 {digest}; GetIdentity tells those that it has")


def lost(scope: Scope, winner: Identity, came: Sequence[Reference]) -> list[str]:
    """Returns the keys of files that came with a change that another change has overtaken.

    What the winner names stays: it brought the same file. Nobody can name the others any more, since the version that
    they came with is made.
    """
    named = _named(scope, winner)
    own = (scope.reference(reference.digest, reference.since) for reference in came)
    return [key for key in own if key not in named]


def unnamed(store: Store, scope: Scope, identity: Identity, uses: frozenset[str]) -> list[str]:
    """Returns the keys of files that no version can name any more, and of what must not be kept of derived data.

    Of a file that a later version brings its writer may be about to say so: it is left alone. What was derived from a
    kind of files stays when it was from one of them or from all of them: a key does not tell of which several it is.

    Args:
        store: Where they are.
        scope: Whose.
        identity: What is named.
        uses: What is allowed: nothing derived for another use stays.
    """
    named = _named(scope, identity)
    entries = store.list(scope.references)
    found = [entry.key for entry in entries if entry.key not in named and _since(entry.key) <= identity.version]
    for kind in ReferenceKind:
        digests = [reference.digest for reference in identity.references if reference.kind is kind]
        sources = {*digests, source_of(digests)} if digests and USES[kind] in uses else set()
        folder = scope.derived_folder(kind)
        derived = (entry.key for entry in store.list(folder))
        found += [key for key in derived if key.removeprefix(folder).partition("-")[0] not in sources]
    return found


def _kind_of(identity: Identity, digests: Sequence[str]) -> ReferenceKind:
    """Returns the kind of the files from which something is derived.

    Raises:
        InvalidRequest: There are none, or of several kinds, or in another order than the identity's.
        NotFound: The identity has no such file.
    """
    if not 1 <= len(digests) <= FILES_MAX:
        raise InvalidRequest("reference_digests", f"{len(digests)} of them; send 1 to {FILES_MAX}")
    for index, digest in enumerate(digests):
        check_digest(f"reference_digests[{index}]", digest)
    kinds = {reference_of(identity, digest).kind for digest in digests}
    if len(kinds) > 1:
        found = " and ".join(sorted(kinds))
        raise InvalidRequest("reference_digests", f"they are of {found}; send those of one kind")
    in_order = [reference.digest for reference in identity.references if reference.digest in digests]
    if list(digests) != in_order:
        problem = f"{', '.join(digest[:12] for digest in digests)} are not in the identity's order, each once"
        raise InvalidRequest("reference_digests", problem)
    return kinds.pop()


def _named(scope: Scope, identity: Identity) -> frozenset[str]:
    return frozenset(scope.reference(reference.digest, reference.since) for reference in identity.references)


def _since(key: str) -> int:
    _, _, since = key.rpartition("-")
    return int(since) if since.isdecimal() else 0
