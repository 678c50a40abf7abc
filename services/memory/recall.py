"""Recall: an identity with the last turns of a conversation, also for a while after the database went away."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from cachetools import TTLCache

import emotions
from services.common.errors import DeadlineExceeded, NotFound, NotReady
from services.memory import metrics
from services.memory.checks import check_id, check_slug
from services.memory.consent import allowed, check_uses, require
from services.memory.domain import BANK_DEFAULT, ConversationKey, EmotionBank, Identity, Recollection, Turn, Use
from services.memory.repositories.conversations import HEAD, size_of, user_of
from services.memory.repositories.identities import Identities, default_bank, unknown
from services.memory.repositories.pages import fitting
from services.memory.repositories.references import References
from services.memory.repositories.risks import unfaded
from services.memory.session import Session, read_as
from services.memory.storage import Storage
from services.memory.trajectory import trajectory

FELT_TURNS = 12
"""Turns from which the mood of a conversation is told, if not more are asked for."""

TURNS_MAX = 1000
"""Most turns that are recalled."""

PATIENCE_S, PATIENCE_AWAY_S = 2.0, 0.5
"""A database that does not answer for so long is stood in for by what is cached; once it was, the second counts until
it answers. A busy machine is waited for, as a reply from the cache knows nothing of the last turn."""


@dataclass(frozen=True)
class _Said:
    """The last turns of a conversation, its user's id, its variants, those assigned to the user, and its risks."""

    turns: Sequence[Turn] = ()
    user_id: str = ""
    variants: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, str] = field(default_factory=dict)
    risks: Sequence[Mapping[str, Any]] = ()


class Recaller:
    """Answers Recall and GetReference; both from the cache, of `keep_s` seconds, while the database is away."""

    def __init__(self, storage: Storage, identities: Identities, references: References, keep_s: float) -> None:
        self._storage, self._identities, self._references = storage, identities, references
        # By identity: when it was read, and the identity with its bank. By conversation: what was said in it.
        self.identities: TTLCache[tuple[str, str], tuple[float, Identity, EmotionBank]] = TTLCache(1000, keep_s)
        self.turns: TTLCache[tuple[Any, ...], _Said] = TTLCache(1000, keep_s)
        self._patience_s = PATIENCE_S

    async def recall(
        self, tenant: str, key: ConversationKey, turns_max: int, uses: Collection[str] = (), experiment: str = ""
    ) -> Recollection:
        """Return an identity with its emotion bank, the last turns of a conversation, its mood and its user's variants.

        Without the permission keep_turns no turns and no variants are recalled, but risks are; an empty conversation
        recalls no turns.

        Raises:
            NotFound: The identity is unknown.
            FailedPrecondition: Its permissions lack one of `uses`.
        """
        check_id("identity", key.identity)
        check_uses("uses", uses)
        if experiment:
            check_slug("experiment", experiment)
        kind, user = user_of(key) if key.user or key.conversation else ("", "")
        count = min(max(turns_max, FELT_TURNS), TURNS_MAX)
        values = {**asdict(key), "tenant": tenant, "kind": kind, "user": user, "count": count, "experiment": experiment}
        names, stale_s = (tenant, key.identity), 0.0
        asked = names, key, count, experiment
        try:
            async with self._patience(names in self.identities):
                rows = await self._storage.rows(tenant, HEAD, values)
                if not rows:
                    raise unknown(key.identity)
                identity, bank = await self._identity(tenant, key.identity, rows[0])
            fit = fitting([row for row in reversed(rows) if row.pk is not None], size_of)
            turns = [read_as(Turn, row, conversation=key.conversation) for row in reversed(fit)]
            # A turn in words has no voice: the conversation keeps the one that spoke last.
            variants = {stage: name for row in rows for stage, name in (row.turn_variants or {}).items()}
            said = _Said(turns, rows[-1].user_id or "", variants, rows[-1].assigned or {}, rows[-1].risks or ())
            self.identities[names] = self._storage.clock(), identity, bank
            self.turns[asked] = said
        except NotFound:
            self.identities.pop(names, None)
            raise
        except (NotReady, DeadlineExceeded):
            if (cached := self.identities.get(names)) is None:
                raise
            known_s, identity, bank = cached
            said = self.turns.get(asked, _Said())
            stale_s = max(self._storage.clock() - known_s, 0.001)
            metrics.STALE_READS.inc()
        now_s = self._storage.clock()
        require(identity, uses, now_s)
        if Use.KEEP_TURNS not in allowed(identity, now_s):
            said = _Said(user_id=said.user_id, risks=said.risks)
        told, felt = tuple(said.turns[max(0, len(said.turns) - turns_max) :]), trajectory(said.turns, now_s)
        about = stale_s, said.user_id, emotions.load().digest, said.variants, said.assigned, unfaded(said.risks, now_s)
        return Recollection(identity, bank, told, felt, *about)

    async def reference(self, tenant: str, name: str, digest: str) -> bytes:
        """Return a reference file; see `References.file`."""
        known = self.identities.get((tenant, name))
        try:
            async with self._patience(known is not None and (known[1].generation, digest) in self._references.cache):
                return await self._references.file(tenant, name, digest)
        except (NotReady, DeadlineExceeded):
            if known is None or (content := self._references.cached(known[1], digest)) is None:
                raise
            return content

    def drop(self, ids: Collection[str]) -> None:
        """Drop what is cached of identities and users with these ids."""
        gone = {names for names, (_, identity, _) in self.identities.items() if identity.generation in ids}
        for talk in [
            talk for talk, said in self.turns.items() if (talk[0], talk[1].identity) in gone or said.user_id in ids
        ]:
            self.turns.pop(talk, None)
        for names in gone:
            self.identities.pop(names, None)

    async def _identity(self, tenant: str, name: str, head: Any) -> tuple[Identity, EmotionBank]:
        """Return an identity and its emotion bank; a version never changes, a bank may."""
        identity = self._identities.cache.get((head.identity_id, head.version))
        if identity is not None and identity.emotion_bank == BANK_DEFAULT:
            return identity, default_bank()

        async def work(session: Session) -> tuple[Identity, EmotionBank]:
            found = await self._identities.versions(session, [(name, head.identity_id, head.version)])
            if not found:
                raise unknown(name)  # Erased since.
            return found[0], await self._identities.bank(session, found[0].emotion_bank)

        return await self._storage.read(tenant, work)

    @asynccontextmanager
    async def _patience(self, can_stand_in: bool) -> AsyncIterator[None]:
        """Give up early on a slow database where the cache can stand in for it."""
        try:
            async with asyncio.timeout(self._patience_s if can_stand_in else None):
                yield
            self._patience_s = PATIENCE_S
        except TimeoutError:
            self._patience_s = PATIENCE_AWAY_S
            raise NotReady("the memory's database does not answer in time; retry") from None
