"""Measure the panel beside a slow voter: deciding early against waiting for all.

The panel is the real one, with its rule, deadline and cancelling. Its voters say what they said before and take the
time that they took, all but one.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.panel.votes import Row
from emotions import Wheel
from services.common.metrics import VARIANT
from services.understanding.domain import Decision, Vote
from services.understanding.panel import Introduction, Panel
from services.understanding.rules import Rule

DEADLINE_S = 4.0
"""The default of the understanding service."""
COARSE = ("face", "voice")
"""The embedded voters that vote on classes only, as they say of themselves."""
TOGETHER = 50
"""Messages that are voted on side by side: nobody computes, all only wait."""


@dataclass(frozen=True)
class Waited:
    """Seconds to the decision and the label decided, per message, and how many decisions were early."""

    seconds: tuple[float, ...]
    early: int
    labels: tuple[str, ...]

    def quantile_s(self, share: float) -> float:
        """Returns the time within which that share of the decisions came."""
        return float(np.quantile(self.seconds, share))


class Replayed:
    """A voter that says what it said before, `delay_s` after it was asked."""

    def __init__(self, name: str, fine: bool, delay_s: float | None) -> None:
        self.name, self.variant = name, VARIANT
        self._fine, self._delay_s = fine, delay_s

    def introduce(self) -> Introduction[None]:
        """Return how fine it votes."""
        return Introduction(wordless=False, fine=self._fine, source=None)

    async def vote(self, message: Row, timeout_s: float) -> Vote[None]:
        """Votes as it did."""
        said = message.votes[self.name]
        usual_s = said.cost_ms / 1000 if said else 0.0
        await asyncio.sleep(usual_s if self._delay_s is None else self._delay_s)
        (vote,) = message.ballot([self.name])
        return vote


async def waited(
    rows: Sequence[Row], fine: dict[str, bool], slow: str, slow_s: float, rule: Rule, wheel: Wheel, early: bool
) -> Waited:
    """Has the panel decide every row.

    Args:
        rows: What the voters said.
        fine: The voters, in order of priority, and whether each tells labels apart.
        slow: The one that is late; empty when none is.
        slow_s: How long it takes.
        rule: How votes are counted.
        wheel: The emotion wheel.
        early: Whether to decide as soon as no missing vote can change the result.
    """
    voters = [Replayed(name, tells, slow_s if name == slow else None) for name, tells in fine.items()]
    panel: Panel[Row, None] = Panel(voters, wheel, rule, quorum=1, deadline_s=DEADLINE_S, early=early)
    found: list[tuple[float, Decision[None]]] = []
    for start in range(0, len(rows), TOGETHER):
        found += await asyncio.gather(*(_decided(panel, row) for row in rows[start : start + TOGETHER]))
    return Waited(
        tuple(seconds for seconds, _ in found),
        sum(decision.early for _, decision in found),
        tuple(decision.label for _, decision in found),
    )


async def _decided(panel: Panel[Row, None], row: Row) -> tuple[float, Decision[None]]:
    began_s = asyncio.get_running_loop().time()
    decision = await panel.decide(row)
    return asyncio.get_running_loop().time() - began_s, decision
