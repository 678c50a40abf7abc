"""What voters and rules got right on the same messages."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.panel.statistics import Bools
from benchmarks.panel.votes import Row
from emotions import Wheel
from services.understanding.decision import decide
from services.understanding.domain import Status
from services.understanding.rules import Rule, rule_of


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a voter or a rule did; an abstention is not right.

    Attributes:
        name: Of the voter or the rule.
        hit: bool (messages,): whether the class is right.
        label: bool (messages,): whether the label is right.
        abstained: Messages without an answer.
        cost_ms: Mean CPU time of an answer; 0 of a rule.
    """

    name: str
    hit: Bools
    label: Bools
    abstained: int
    cost_ms: float = 0.0


def of_voter(voter: str, rows: Sequence[Row], wheel: Wheel) -> Outcome:
    """Returns how the voter does as a panel of its own."""
    costs = [said.cost_ms for row in rows if (said := row.votes[voter])]
    alone = of_rule(voter, rule_of("majority", wheel), [voter], rows, wheel)
    return replace(alone, cost_ms=float(np.mean(costs)) if costs else 0.0)


def of_rule(name: str, rule: Rule, voters: Sequence[str], rows: Sequence[Row], wheel: Wheel) -> Outcome:
    """Returns how `voters`, in order of priority, do together under `rule`."""
    answers = []
    for row in rows:
        votes = row.ballot(voters)
        heard = any(vote.status is Status.VOTED for vote in votes)
        answers.append(decide(votes, rule, wheel).label if heard else "")
    pairs = list(zip(answers, rows, strict=True))
    hit = [bool(said) and wheel.label(said).coarse == wheel.label(row.label).coarse for said, row in pairs]
    label = [said == row.label for said, row in pairs]
    return Outcome(name, np.array(hit), np.array(label), answers.count(""))


def of_commonest(rows: Sequence[Row], wheel: Wheel) -> Outcome:
    """Returns how one does who always says the commonest class, and the commonest label."""
    classes = [wheel.label(row.label).coarse for row in rows]
    label, face_class = (Counter(names).most_common(1)[0][0] for names in ([row.label for row in rows], classes))
    return Outcome(
        f"always {face_class}",
        np.array([each == face_class for each in classes]),
        np.array([row.label == label for row in rows]),
        0,
    )
