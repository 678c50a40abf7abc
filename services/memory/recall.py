"""Recall: an identity with the last turns of a conversation, also for a while after the database went away."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from cachetools import TTLCache

from services.common.errors import DeadlineExceeded, NotFound, NotReady
from services.memory import metrics
from services.memory.checks import check_handle, check_id
from services.memory.consent import allowed, check_uses, require
from services.memory.database import Session
from services.memory.domain import EmotionBank, Identity, Recollection, Turn, Use
from services.memory.repositories.conversations import HEAD, LAST, brief, fitting, user_key
from services.memory.repositories.identities import Identities, unknown
from services.memory.repositories.references import References
from services.memory.storage import Storage
from services.memory.trajectory import trajectory

FELT_TURNS = 12
"""Turns from which the mood of a conversation is told, if not more are asked for."""

TURNS_MAX = 1000
"""Most turns that are recalled."""

PATIENCE_S = 0.5
"""A database that does not answer for so long is stood in for by what is cached."""


class Recaller:
    """Answers Recall and GetReference; both from the cache while the database is away.

    Args:
        storage: Where everything is.
        identities: Whom to recall.
        references: Their files.
        keep_s: Seconds that an answer is cached, and nothing older stands in.
    """

    def __init__(self, storage: Storage, identities: Identities, references: References, keep_s: float) -> None:
        self._storage, self._identities, self._references = storage, identities, references
        # By identity: when it was read, and the identity with its bank. By conversation: its turns.
        self.identities: TTLCache[tuple[str, str], tuple[float, Identity, EmotionBank]] = TTLCache(1000, keep_s)
        self.turns: TTLCache[tuple[Any, ...], tuple[Sequence[Turn], str]] = TTLCache(1000, keep_s)

    async def recall(
        self, tenant: str, name: str, user: str, conversation: str, turns_max: int, uses: Collection[str] = ()
    ) -> Recollection:
        """Return an identity with its emotion bank, the last turns of a conversation, and its mood.

        Without the permission keep_turns no turns are recalled.

        Args:
            tenant: Whose identity.
            name: Its name.
            user: Whom it talks with; empty for one who is known in this conversation only.
            conversation: Empty recalls no turns.
            turns_max: At most so many.
            uses: What the identity is needed for.

        Raises:
            NotFound: The identity is unknown.
            FailedPrecondition: Its permissions lack one of `uses`.
        """
        check_id("identity", name)
        check_uses("uses", uses)
        if user:
            check_handle("person", user)
        kind, who = user_key(user, conversation) if user or conversation else ("", "")
        values = {"tenant": tenant, "identity": name, "kind": kind, "user": who, "conversation": conversation}
        count = min(max(turns_max, FELT_TURNS), TURNS_MAX)

        async def work(session: Session) -> tuple[Identity, EmotionBank, Sequence[Turn], str]:
            head = await session.first(HEAD, values)
            if head is None:
                raise unknown(name)
            identity = await self._identities.version(session, name, head.id, head.version)
            bank = await self._identities.bank(session, identity.emotion_bank)
            is_kept = Use.KEEP_TURNS in allowed(identity, self._storage.clock())
            rows: Sequence[Any] = ()
            if head.conversation_id is not None and is_kept:
                last = {"tenant": tenant, "conversation_id": head.conversation_id, "count": count}
                rows = fitting(await session.rows(LAST, last))
            return identity, bank, [brief(row, conversation) for row in reversed(rows)], head.user_id or ""

        names, talk = (tenant, name), (tenant, name, user, conversation, count)
        stale_s = 0.0
        try:
            async with _patience(names in self.identities):
                identity, bank, said, user_id = await self._storage.read(tenant, work)
            self.identities[names] = self._storage.clock(), identity, bank
            self.turns[talk] = said, user_id
        except NotFound:
            self.identities.pop(names, None)
            raise
        except (NotReady, DeadlineExceeded):
            cached = self.identities.get(names)
            if cached is None:
                raise
            known_s, identity, bank = cached
            said, user_id = self.turns.get(talk, ((), ""))
            stale_s = max(self._storage.clock() - known_s, 0.001)
            metrics.STALE_READS.inc()
        require(identity, uses, self._storage.clock())
        felt = trajectory(said, self._storage.clock())
        told = tuple(said[max(0, len(said) - turns_max) :])
        return Recollection(identity, bank, told, felt, stale_s, user_id)

    async def reference(self, tenant: str, name: str, digest: str) -> bytes:
        """Return a reference file; see `References.file`."""
        known = self.identities.get((tenant, name))
        try:
            async with _patience(known is not None and (known[1].generation, digest) in self._references.cache):
                return await self._references.file(tenant, name, digest)
        except (NotReady, DeadlineExceeded) as error:
            try:
                if known is not None:
                    return await self._references.file(tenant, name, digest, known[1])
            except NotFound:
                raise error from None
            raise

    def drop(self, ids: Collection[str]) -> None:
        """Drop what is cached of identities and users with these ids."""
        for names in [names for names, (_, identity, _) in self.identities.items() if identity.generation in ids]:
            self.identities.pop(names, None)
            for talk in [talk for talk in self.turns if talk[:2] == names]:
                self.turns.pop(talk, None)
        for talk in [talk for talk, (_, user_id) in self.turns.items() if user_id in ids]:
            self.turns.pop(talk, None)


@asynccontextmanager
async def _patience(can_stand_in: bool) -> AsyncIterator[None]:
    """Give up early on a slow database where the cache can stand in for it."""
    try:
        async with asyncio.timeout(PATIENCE_S if can_stand_in else None):
            yield
    except TimeoutError:
        raise NotReady("the memory's database does not answer in time; retry") from None
