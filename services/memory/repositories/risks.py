"""Risks that conversations raised: kind and severity, for an hour, whether or not their words may be kept."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import update

from services.memory.checks import check_handle
from services.memory.domain import ConversationKey, EarlierRisk, Risk, RiskKind, RiskSeverity
from services.memory.repositories.conversations import Conversations, user_of
from services.memory.schema import conversations
from services.memory.session import InterferedError, Session
from services.memory.storage import Storage

KEEP_S = 3600.0
RISKS_MAX = 16
"""Risks of one conversation that are kept; of more the newest."""


class Risks:
    """Keeps risks with their conversation, which goes with its identity and its user."""

    def __init__(self, storage: Storage, conversations: Conversations) -> None:
        self._storage, self._conversations = storage, conversations

    async def add(self, tenant: str, key: ConversationKey, name: str, kind: RiskKind, severity: RiskSeverity) -> None:
        """Keep a risk, also without the permission keep_turns; one whose `name` is kept changes nothing.

        Raises:
            NotFound: The identity is unknown.
        """
        check_handle("conversation", key.conversation)
        check_handle("id", name)
        whose, user = user_of(key)
        now_s = self._storage.clock()

        async def work(session: Session) -> None:
            identity = await self._conversations.identities.found(session, key.identity)
            user_id = await self._conversations.insert_user(session, whose, user)
            talk = {"identity_id": identity.generation, "user_id": user_id, "name": key.conversation}
            await insert_risks(session, [Risk(name, kind, severity, now_s)], now_s, **talk)

        await self._storage.write(tenant, work)

    async def expire(self) -> int:
        """Delete risks that have faded; return of how many conversations."""
        until_s = conversations.c.risks_until_s
        faded = update(conversations).where(until_s > 0, until_s < self._storage.clock())
        return await self._storage.run("", faded.values(risks=[], risks_until_s=0))


async def insert_risks(session: Session, new: Sequence[Risk], now_s: float, **talk: Any) -> None:
    """Insert risks that have not faded into a conversation, which is made if need be.

    One whose id is kept changes nothing; one of the future counts as raised now.
    """
    await session.add_new(conversations, tenant=session.tenant, **talk, created_at_s=now_s)
    if (found := await session.find(conversations, is_locking=True, **talk)) is None:
        raise InterferedError("the conversation was erased meanwhile")
    kept = {risk["id"]: risk for risk in found.risks if is_unfaded(risk["raised_at_s"], now_s)}
    for risk in new:
        kept.setdefault(risk.id, asdict(risk))
    past = [{**risk, "raised_at_s": min(risk["raised_at_s"], now_s)} for risk in kept.values()]
    risks = sorted(past, key=lambda risk: risk["raised_at_s"])[-RISKS_MAX:]
    until_s = risks[-1]["raised_at_s"] + KEEP_S
    await session.change(conversations, conversations.c.id == found.id, risks=risks, risks_until_s=until_s)


def is_unfaded(raised_at_s: float, now_s: float) -> bool:
    """Tell whether a risk is still kept."""
    return now_s - raised_at_s < KEEP_S


def unfaded(risks: Iterable[Mapping[str, Any]], now_s: float) -> tuple[EarlierRisk, ...]:
    """Return the risks of a conversation that have not faded, the newest first."""
    aged = [(max(0.0, now_s - risk["raised_at_s"]), risk) for risk in risks]
    return tuple(
        EarlierRisk(RiskKind(risk["kind"]), RiskSeverity(risk["severity"]), age_s)
        for age_s, risk in reversed(aged)
        if age_s < KEEP_S
    )
