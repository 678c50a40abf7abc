"""Voters that answer when a test lets them, and a panel of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from emotions import Wheel
from services.common.metrics import VARIANT
from services.understanding.domain import Decision, Status, Vote
from services.understanding.observing import Observer
from services.understanding.panel import Introduction, Panel
from services.understanding.rules import rule_of
from tests.fakes import PATIENCE_S


def vote(voter: str, distribution: Mapping[str, float], fine: bool = True) -> Vote[str]:
    return Vote(voter, Status.VOTED, distribution=distribution, fine=fine, source=f"answer of {voter}")


def abstained(voter: str) -> Vote[str]:
    return Vote(voter, Status.ABSTAINED, "no face in any frame")


@dataclass
class Seat:
    """A voter of which something is known if `is_known`, and that answers, or fails, once `ready` is set.

    It is `stopped` when its call is cancelled.
    """

    name: str
    answer: Vote[str] | Exception
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    is_known: bool = True
    sees_only: bool = False
    fine: bool = True
    messages: list[str] = field(default_factory=list)
    variant: str = VARIANT

    def introduce(self) -> Introduction[str] | None:
        return Introduction(self.sees_only, self.fine, f"card of {self.name}") if self.is_known else None

    async def vote(self, message: str, timeout_s: float) -> Vote[str]:
        self.messages.append(message)
        self.asked.set()
        try:
            await self.ready.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def seat(name: str, answer: Vote[str] | Exception, ready: bool = True) -> Seat:
    made = Seat(name, answer)
    if ready:
        made.ready.set()
    return made


def panel_of(
    wheel: Wheel,
    *seats: Seat,
    quorum: int = 1,
    deadline_s: float = 3600,
    early: bool = False,
    observer: Observer[str] | None = None,
) -> Panel[str, str]:
    return Panel(seats, wheel, rule_of("majority", wheel), quorum, deadline_s, early, observer)


async def ask(wheel: Wheel, *seats: Seat, quorum: int = 1, deadline_s: float = 0.05) -> Decision[str]:
    deciding = panel_of(wheel, *seats, quorum=quorum, deadline_s=deadline_s).decide("message")
    return await asyncio.wait_for(deciding, PATIENCE_S)


def three_and_a_slow_one(fine: bool = True) -> tuple[list[Seat], Seat]:
    """Three that agree, and one that does not answer by itself."""
    slow = Seat("slow", vote("slow", {"furious": 1.0}, fine), fine=fine)
    return [seat(name, vote(name, {"sad": 0.9, "lonely": 0.1})) for name in "abc"], slow
