"""Liars and late voters beside the voters of recorded votes: what they cost the majority with and without reliability.

The panel is the real one. Time is virtual, so a late voter takes none.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.panel.latency import DEADLINE_S, Replayed
from benchmarks.panel.statistics import Bools
from benchmarks.panel.votes import Row, Said
from emotions import Wheel
from services.understanding.observing import Observer
from services.understanding.panel import Panel
from services.understanding.rules import rule_of
from services.understanding.track_record import TrackRecords
from tests.support import virtual_time

LATE_S = 2 * DEADLINE_S
PAUSE_S = 2 * DEADLINE_S
"""Between messages, so that answers after a decision are in before the next message."""
SEED = 7


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions on the rows.

    Attributes:
        hit: bool (messages,): whether the class is right.
        seconds: Mean time to the decision.
    """

    hit: Bools
    seconds: float


Lie = Callable[[int, int], str]
"""Label that a liar says, by the number of the message and its own."""


def lies(wheel: Wheel) -> dict[str, Lie]:
    """Returns kinds of liars by name."""
    classes = wheel.classes

    def drawn(message: int, liar: int) -> str:
        return random.Random(f"{SEED} {message} {liar}").choice(classes)

    return {
        "always happy": lambda message, liar: "happy",
        "at random": drawn,
        "at random, in concert": lambda message, liar: drawn(message, 0),
    }


def with_liars(rows: Sequence[Row], count: int, lie: Lie) -> list[Row]:
    """Returns the rows with the votes of `count` liars, who are sure of what they say."""

    def votes(number: int) -> dict[str, Said]:
        return {name_of(liar): Said({lie(number, liar): 1.0}, True, 0.0) for liar in range(count)}

    return [replace(row, votes={**row.votes, **votes(number)}) for number, row in enumerate(rows)]


def name_of(liar: int) -> str:
    """Returns the name of a liar on the panel."""
    return f"liar {liar + 1}"


def decided(rows: Sequence[Row], fine: Mapping[str, bool], late: str, wheel: Wheel, is_tracked: bool) -> Decided:
    """Has the panel decide every row by majority, one after the other.

    Args:
        rows: What the voters said; at least one to each message.
        fine: The voters, in order of priority, and whether each tells labels apart.
        late: The one that answers after the deadline; empty for none.
        wheel: The emotion wheel.
        is_tracked: Whether the panel keeps track records.
    """
    warnings = logging.getLogger("services.understanding.absences")
    warnings.disabled = True  # one of each late answer
    try:
        return virtual_time.run(_decided(rows, fine, late, wheel, is_tracked))
    finally:
        warnings.disabled = False


async def _decided(rows: Sequence[Row], fine: Mapping[str, bool], late: str, wheel: Wheel, is_tracked: bool) -> Decided:
    voters = [Replayed(name, tells, LATE_S if name == late else None) for name, tells in fine.items()]
    observer = Observer[None](TrackRecords(wheel)) if is_tracked else None
    panel: Panel[Row, None] = Panel(
        voters, wheel, rule_of("majority", wheel), quorum=1, deadline_s=DEADLINE_S, early=True, observer=observer
    )
    hit, seconds, clock = [], [], asyncio.get_running_loop()
    for row in rows:
        began_s = clock.time()
        decision = await panel.decide(row)
        seconds.append(clock.time() - began_s)
        hit.append(decision.face_class == wheel.label(row.label).coarse)
        await asyncio.sleep(PAUSE_S)
    return Decided(np.array(hit), float(np.mean(seconds)))
