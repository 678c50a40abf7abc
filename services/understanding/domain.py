"""Votes and decisions of a panel; its rules stand in `rules`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from emotions import Wheel

SUM_TOLERANCE = 1e-3
"""By how much a distribution, in single precision over the wire, may miss the sum of 1."""
NAME_CHARS = 40
"""Of a name that is none of the wheel's, for a message."""

Source = TypeVar("Source")


class Status(StrEnum):
    """Outcome of asking a voter."""

    VOTED = "voted"
    ABSTAINED = "abstained"
    LATE = "late"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Standing(StrEnum):
    """Part of a voter in decisions, by its track record."""

    COUNTED = "counted"
    PROBATION = "probation"
    NOT_WAITED_FOR = "not_waited_for"


@dataclass(frozen=True)
class Reliability:
    """Track record of a voter's variant before a message; each share is of messages, the last ones weigh most.

    Attributes:
        agreement: Cohen's kappa with the decision of the other counted voters, on classes; None while there is none.
        abstained: Share on which it abstained.
        late: Share on which it was late or failed.
        messages: Messages on which it answered, abstained, was late or failed.
        standing: Its part in decisions.
        is_new: Whether it is on probation because it is new.
        is_late: Whether it is often late, so that no decision waits for it.
    """

    agreement: float | None
    abstained: float
    late: float
    messages: int
    standing: Standing
    is_new: bool = False
    is_late: bool = False


@dataclass(frozen=True)
class Vote(Generic[Source]):
    """One voter's part in a decision.

    Attributes:
        voter: Its name.
        status: Only VOTED counts, unless the voter is on probation.
        reason: Why it does not count; empty when it does.
        distribution: Probability per label of the wheel; sums to 1 when it voted.
        fine: Whether the voter itself told labels apart; false when its vote was spread from a class.
        latency_s: From question to answer, or to giving up.
        source: Whatever the voter's adapter wants to keep with the vote for the record.
        weight: What the vote weighed for the class that it chose; 0 when it does not count.
        label_without: The label that would have won without it; empty when none would have, or it does not count.
        variant: Name of the voter's variant.
        is_counted: False of a vote that is recorded only, since its voter is on probation.
        reliability: Track record of the voter before this message; None where none is kept.
    """

    voter: str
    status: Status
    reason: str = ""
    distribution: Mapping[str, float] = field(default_factory=dict)
    fine: bool = False
    latency_s: float = 0.0
    source: Source | None = None
    weight: float = 0.0
    label_without: str = ""
    variant: str = ""
    is_counted: bool = True
    reliability: Reliability | None = None


@dataclass(frozen=True)
class Decision(Generic[Source]):
    """Decision of the panel, with its grounds.

    Attributes:
        label: The label decided.
        face_class: Its coarse class: what the vote was about.
        rule: Name of the rule.
        weights_version: Version of the voters' weights; empty when the rule used none.
        margin: Tally of the winning class minus tally of the next.
        tie_break: "none", "probability" or "priority".
        tally: Per class, in the rule's unit: votes, weights or probability; classes that have some only.
        distribution: Over the labels: the mean of the counted votes, or their pool under the rule that pools.
        entropy_bits: Of `distribution` gathered into the classes; 0 when all are sure of one class.
        agreement: Share of the counted votes that chose the winning class, 0 to 1.
        votes: All of them, in order of priority.
        early: Whether it was decided before every vote was in.
    """

    label: str
    face_class: str
    rule: str
    weights_version: str
    margin: float
    tie_break: str
    tally: Mapping[str, float]
    distribution: Mapping[str, float]
    entropy_bits: float
    agreement: float
    votes: tuple[Vote[Source], ...]
    early: bool = False


def malformed(distribution: Mapping[str, float], wheel: Wheel) -> str:
    """Returns why it is no distribution over the labels of the wheel; empty when it is one."""
    if not distribution:
        return "it neither voted nor abstained"
    if unknown := sorted(set(distribution) - set(wheel.labels)):
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        return f"its distribution holds {unknown[0][:NAME_CHARS]!r}{more}, no label of the wheel"
    for name, value in distribution.items():
        if not math.isfinite(value) or value < 0:
            return f"its probability of {name} is {value:g}"
    total = math.fsum(distribution.values())
    if not math.isclose(total, 1, abs_tol=SUM_TOLERANCE):
        return f"its probabilities sum to {total:.4g}, not to 1"
    return ""
