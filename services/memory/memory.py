"""The whole memory: its parts, put together over one store."""

import time
from collections.abc import Callable, Collection, Sequence

from services.common.errors import NotFound, NotReady
from services.memory import keys
from services.memory.archive.archive import Archive
from services.memory.cache import Cached
from services.memory.checks import check_handle
from services.memory.domain import NewIdentity, Recollection, Use
from services.memory.forgetting.audits import Audits
from services.memory.forgetting.erasing import Eraser
from services.memory.forgetting.expiring import Expired
from services.memory.forgetting.retention import Retentions
from services.memory.forgetting.sweeping import Sweeper
from services.memory.layout import check_layout
from services.memory.registry.banks import Banks
from services.memory.registry.consent import allowed
from services.memory.registry.emotion_references import EmotionReferences
from services.memory.registry.exemplars import Exemplars
from services.memory.registry.heads import Kept
from services.memory.registry.registry import Registry
from services.memory.store import Store
from services.memory.talks.conversation import Turns
from services.memory.talks.persons import Persons
from services.memory.talks.talks import Talks
from services.memory.talks.trajectory import trajectory
from services.memory.vectors.embedder import Embedder
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors

CACHE_BYTES = 256 * 2**20
CACHE_KEEP_S = 60.0

TENANT_READY = "default"
"""Whose the identities are that come with the project."""

FELT_TURNS = 12
"""So many turns, if not more are asked for, tell how a conversation felt."""

GONE_LATER_S = 70.0
"""What a replica holds is gone so long after it would have been used last, at the latest: ten seconds are for whoever
tidies up, a minute is what the door keeps a file for."""


class Memory:
    """Everything that can be asked of a store. Calls block and may come from several threads.

    Args:
        store: Where the objects are; it may be shared with other processes.
        embedder: Gives texts their places in meaning space.
        ready: The identities that come with the project.
        cache_bytes: So much memory the copies of objects may take, about.
        cache_keep_s: Nothing is held for longer after its last use.
        clock: Unix time.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        ready: Sequence[NewIdentity] = (),
        cache_bytes: int = CACHE_BYTES,
        cache_keep_s: float = CACHE_KEEP_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._ready, self._clock = store, ready, clock
        self._cache_keep_s = cache_keep_s
        self._cached = cached = Cached(store, cache_bytes, cache_keep_s)
        self._vectors = Vectors(cached)
        self.embedding = Embedding(embedder)
        self.registry = Registry(cached, clock)
        self.banks = Banks(cached)
        self.emotion_references = EmotionReferences(cached, self.registry)
        self.exemplars = Exemplars(cached, self.registry, self._vectors, self.embedding, clock)
        self.persons = Persons(cached)
        self.talks = Talks(cached, self.registry, self.persons, self._vectors, self.embedding, clock)
        self.archive = Archive(cached, self.registry, self.persons, self.talks, self.exemplars, clock)
        heads = [keys.head(TENANT_READY, identity.id) for identity in ready]
        self.eraser = Eraser(cached, cache_keep_s + GONE_LATER_S, heads, self._forget, clock)
        self.audits = Audits(cached)
        self.retentions = Retentions(cached)
        self._sweeper = Sweeper(cached, self.eraser, self._vectors)

    def prepare(self) -> None:
        """Makes the store ready: its layout, what a crash cut short, and the identities that come with the project.

        Raises:
            NotReady: The store has another layout.
        """
        check_layout(self._store)
        self.eraser.resume()
        self.registry.prepare(TENANT_READY, self._ready)

    def recall(
        self,
        tenant: str,
        identity: str,
        person: str,
        conversation: str,
        turns_max: int,
        uses: Collection[str] = (),
    ) -> Recollection:
        """Returns an identity with its emotion bank, the last turns of a conversation, and how it felt.

        While the store is away, this is what was known a moment ago: `Recollection.stale_s` says how long.

        Args:
            tenant: Whose identity.
            identity: Which.
            person: Whom it talks with; empty for somebody who is known in this conversation only.
            conversation: Empty recalls no turns.
            turns_max: At most so many.
            uses: What the identity is needed for.

        Raises:
            NotFound: The identity is unknown.
            FailedPrecondition: Its consent lacks one of `uses`.
        """
        if person:
            check_handle("person", person)
        if conversation:
            check_handle("conversation", conversation)
        with self._cached.allowing_stale((tenant, identity, person, conversation, turns_max)) as call:
            try:
                kept = self.registry.found(tenant, identity, uses)
            except NotFound as error:
                if call.stale_s:  # Another replica may have added it since.
                    raise NotReady(f"the memory's store cannot be reached, and a moment ago {error}") from error
                raise
            bank = self.banks.get(tenant, kept.identity.emotion_bank)
            try:
                said = self._felt(kept, person, conversation, turns_max)
            except NotReady:
                # The identity was answered for by what was known; of this conversation nothing was.
                if not call.stale_s:
                    raise
                said = Turns()
        felt = trajectory(said.turns, self._clock())
        turns = said.turns[max(0, len(said.turns) - turns_max) :]
        return Recollection(
            kept.identity, bank, turns, felt, call.stale_s, said.person_generation, damaged=said.damaged
        )

    def reference(self, tenant: str, identity: str, digest: str) -> bytes:
        """Returns a file of an identity; while the store is away, one that was used a moment ago.

        Raises:
            NotFound: The identity or the file is unknown.
            FailedPrecondition: Its consent does not allow the file's use.
        """
        with self._cached.allowing_stale():
            return self.registry.reference(tenant, identity, digest)

    @property
    def store_problem(self) -> str:
        """Why the store did not answer when it was asked last; empty when it did."""
        return self._cached.problem

    def sweep(self) -> Expired:
        """Ends erasures that were cut short and deletes what is too old; one thread calls at a time.

        Returns:
            How much was too old.
        """
        return self._sweeper.run_once()

    def tidy(self) -> None:
        """Holds nothing in memory any longer that nobody used of late; call it every few seconds."""
        self._cached.tidy()
        self.talks.drop_idle(self._cache_keep_s)
        self.exemplars.drop_idle(self._cache_keep_s)

    def close(self) -> None:
        """Frees what it holds; the objects stay."""
        self._cached.close()

    def _felt(self, kept: Kept, person: str, conversation: str, turns_max: int) -> Turns:
        if not conversation or Use.KEEP_TURNS not in allowed(kept.identity, self._clock()):
            return Turns()  # What was kept while that was allowed is told to nobody's reply any more.
        return self.talks.last(kept.scope, person, conversation, max(turns_max, FELT_TURNS))

    def _forget(self, folder: str) -> None:
        self._cached.forget(folder)
        self._vectors.forget(folder)
