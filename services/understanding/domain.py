"""How a panel of voters decides what a person feels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from emotions import Wheel

RULE = "majority"

Source = TypeVar("Source")


class Status(StrEnum):
    """What became of a voter."""

    VOTED = "voted"
    ABSTAINED = "abstained"
    LATE = "late"
    FAILED = "failed"


@dataclass(frozen=True)
class Vote(Generic[Source]):
    """One voter's part in a decision.

    Attributes:
        voter: Its name.
        status: Only VOTED counts.
        reason: Why it does not count; empty when it does.
        distribution: Probability per label of the wheel; sums to 1 when it counts.
        fine: Whether the voter itself told labels apart; false when its vote was spread from a class.
        latency_s: From question to answer.
        source: Whatever the voter's adapter wants to keep with the vote for the record.
    """

    voter: str
    status: Status
    reason: str = ""
    distribution: Mapping[str, float] = field(default_factory=dict)
    fine: bool = False
    latency_s: float = 0.0
    source: Source | None = None


@dataclass(frozen=True)
class Decision(Generic[Source]):
    """What the panel decided, and how.

    Attributes:
        label: The label decided.
        face_class: Its coarse class: what the majority was about.
        margin: Votes of the winning class minus votes of the next.
        tie_break: "none", "probability" or "priority".
        tally: Votes per class, classes with votes only.
        distribution: Mean of the counted votes' distributions.
        votes: All of them, in order of priority.
    """

    label: str
    face_class: str
    margin: int
    tie_break: str
    tally: Mapping[str, int]
    distribution: Mapping[str, float]
    votes: tuple[Vote[Source], ...]


def decide(votes: Sequence[Vote[Source]], wheel: Wheel) -> Decision[Source]:
    """Decides by majority over the coarse classes.

    Each vote counts for the class that holds most of its mass. A tie goes to the class with the higher mean
    probability over all counted votes; if that is equal too, to the class that the voter of higher priority chose.
    The label is the most probable of the winning class, in the mean of the votes for that class; of these, those
    of voters that told labels apart are asked first, since a vote spread from a class knows no labels.

    Args:
        votes: In order of priority, the highest first.
        wheel: The emotion wheel.

    Raises:
        ValueError: No vote counts.
    """
    counted = [vote for vote in votes if vote.status is Status.VOTED]
    if not counted:
        raise ValueError("no vote counts")
    choice = {vote.voter: _argmax(wheel.gather(vote.distribution)) for vote in counted}
    tally: dict[str, int] = {}
    for name in choice.values():
        tally[name] = tally.get(name, 0) + 1
    mean = _mean(counted, wheel)
    probability = wheel.gather(mean)
    order = list(choice.values())
    ranked = sorted(tally, key=lambda name: (-tally[name], -round(probability[name], 6), order.index(name)))
    winner = ranked[0]
    tie_break = "none"
    if len(ranked) > 1 and tally[ranked[1]] == tally[winner]:
        equal = round(probability[ranked[1]], 6) == round(probability[winner], 6)
        tie_break = "priority" if equal else "probability"
    supporters = [vote for vote in counted if choice[vote.voter] == winner]
    within = _mean([vote for vote in supporters if vote.fine] or supporters, wheel)
    label = _argmax({name: value for name, value in within.items() if wheel.label(name).coarse == winner})
    margin = tally[winner] - (tally[ranked[1]] if len(ranked) > 1 else 0)
    return Decision(label, winner, margin, tie_break, tally, mean, tuple(votes))


def _argmax(values: Mapping[str, float]) -> str:
    return max(values, key=values.__getitem__)


def _mean(votes: Sequence[Vote[Source]], wheel: Wheel) -> dict[str, float]:
    return {name: sum(vote.distribution.get(name, 0.0) for vote in votes) / len(votes) for name in wheel.labels}
