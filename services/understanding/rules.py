"""The rules by which votes are counted: majority, weighted, pooled. `decision` decides by any of them.

Every rule is a sum over the votes, one for the class and then one for the label within it. So it can be said how far
a vote that is still missing could move the result, which is what an early decision needs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from emotions import Wheel
from services.understanding.domain import Status, Vote
from services.understanding.reliability import EQUAL, Weights

DOUBT = 0.08
"""Share of every distribution that is taken to be random when distributions are pooled.

A pool multiplies probabilities: a single 0 would be a veto that nobody can outvote, and models that answer in words
give all other labels exactly 0. With it a vote gives each of 8 classes at least 0.01, each of 36 labels 0.0022.
"""


@dataclass(frozen=True)
class Ballot:
    """A vote that counts, as a rule reads it.

    Attributes:
        voter: Name of its voter.
        labels: Probability per label; sums to 1. Within a class the wheel's own spread where the voter is not `fine`.
        classes: The same, gathered into the classes.
        choice: The class that holds most of it; of equal ones the first of the wheel.
        fine: Whether the voter told labels apart.
    """

    voter: str
    labels: Mapping[str, float]
    classes: Mapping[str, float]
    choice: str
    fine: bool


def ballots_of(votes: Iterable[Vote[Any]], wheel: Wheel) -> list[Ballot]:
    """Returns the ballots of the votes that count, in their order."""
    return [_ballot(vote, wheel) for vote in votes if vote.status is Status.VOTED and vote.is_counted]


def choice_of(vote: Vote[Any], wheel: Wheel) -> str:
    """Returns the class that a vote chooses, whether it counts or not."""
    return _ballot(vote, wheel).choice


class Rule(Protocol):
    """How votes are counted. Its scores are sums over the ballots, rounded once: their order changes nothing."""

    @property
    def name(self) -> str:
        """On the record and in the settings."""

    @property
    def weights(self) -> Weights:
        """What the voters weigh."""

    def scores(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Returns the score of every class; the highest wins."""

    def reach(self, voter: str, rival: str) -> float:
        """Returns by how much one ballot of `voter`, whatever it says, can bring class `rival` nearer to another."""

    def heard(self, ballots: Sequence[Ballot], face_class: str) -> list[Ballot]:
        """Returns the ballots that choose the label, once `face_class` has won."""

    def label_scores(self, heard: Sequence[Ballot], face_class: str) -> dict[str, float]:
        """Returns the score of every label of `face_class` by the ballots heard; the highest wins."""

    def label_reach(self, voter: str, face_class: str) -> float:
        """Returns by how much one ballot of `voter` can bring a label of `face_class` nearer to another of it."""

    def tally(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Returns what the classes have in the rule's unit, for the record; classes that have any only."""

    def distribution(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Returns the panel's distribution over the labels, for the record."""

    def weight(self, ballot: Ballot, ballots: Sequence[Ballot]) -> float:
        """Returns what `ballot`, one of `ballots`, weighed for the class that it chose."""


@dataclass(frozen=True)
class Counting:
    """One choice per vote: it adds its weight to its class. Under the majority every vote weighs 1.

    The label is chosen by those who voted for the class, by the weighted sum of their probabilities. Of these, voters
    that told labels apart go first, since a vote spread from a class knows no labels.
    """

    name: str
    weights: Weights
    wheel: Wheel

    def scores(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Weight of the votes per class."""
        return {
            name: math.fsum(self._weight(each) for each in ballots if each.choice == name)
            for name in self.wheel.classes
        }

    def reach(self, voter: str, rival: str) -> float:
        """Its weight for the rival: a vote adds that much, and takes nothing from the winner."""
        return self.weights.of_vote(voter, rival)

    def heard(self, ballots: Sequence[Ballot], face_class: str) -> list[Ballot]:
        """Those who voted for the class."""
        return _finest([each for each in ballots if each.choice == face_class])

    def label_scores(self, heard: Sequence[Ballot], face_class: str) -> dict[str, float]:
        """Weighted sum of the probabilities."""
        return {
            name: math.fsum(self._weight(each) * each.labels[name] for each in heard)
            for name in self.wheel.members(face_class)
        }

    def label_reach(self, voter: str, face_class: str) -> float:
        """Its weight: probability 1 on one label leaves 0 for the other."""
        return self.weights.of_vote(voter, face_class)

    def tally(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Weight of the votes per class."""
        return {name: score for name, score in self.scores(ballots).items() if score}

    def distribution(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """The plain mean."""
        return {name: math.fsum(each.labels[name] for each in ballots) / len(ballots) for name in self.wheel.labels}

    def weight(self, ballot: Ballot, ballots: Sequence[Ballot]) -> float:
        """The voter's weight for the class that it chose."""
        return self._weight(ballot)

    def _weight(self, ballot: Ballot) -> float:
        return self.weights.of_vote(ballot.voter, ballot.choice)


@dataclass(frozen=True)
class Pooled:
    """The weighted product of the distributions: a log-opinion pool.

    See Genest and Zidek 1986, "Combining Probability Distributions: A Critique and an Annotated Bibliography".

    Classes are pooled first, over all votes; then the labels within a class, over the votes of those who told labels
    apart. A vote that was spread from a class has no say on labels: its spread is no opinion, and in one product over
    labels it would push towards the class's own label, and away from classes that have many labels.

    The weights are exponents. On the record they sum to 1, so that voters who agree are pooled to what they all say.
    """

    weights: Weights
    wheel: Wheel
    name: str = "pooled"

    def scores(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Weighted sum of the log-probabilities per class, in nats."""
        count = len(self.wheel.classes)
        return {
            name: math.fsum(self._exponent(each) * math.log(floored(each.classes[name], count)) for each in ballots)
            for name in self.wheel.classes
        }

    def reach(self, voter: str, rival: str) -> float:
        """All on the rival, nothing on the other."""
        return self.weights.of_pool(voter) * _span(len(self.wheel.classes))

    def heard(self, ballots: Sequence[Ballot], face_class: str) -> list[Ballot]:
        """All: who gives the class little says little on its labels, since the doubt then levels them."""
        return _finest(ballots)

    def label_scores(self, heard: Sequence[Ballot], face_class: str) -> dict[str, float]:
        """Weighted sum of the log-probabilities, in nats; the wheel's spread when nobody told labels apart."""
        names, count = self.wheel.members(face_class), len(self.wheel.labels)
        if not any(each.fine for each in heard):
            spread = self.wheel.spread({face_class: 1.0})
            return {name: math.log(spread[name]) for name in names}
        return {
            name: math.fsum(self._exponent(each) * math.log(floored(each.labels[name], count)) for each in heard)
            for name in names
        }

    def label_reach(self, voter: str, face_class: str) -> float:
        """All on one label, nothing on another."""
        return self.weights.of_pool(voter) * _span(len(self.wheel.labels))

    def tally(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Probability per class."""
        return _softmax(self.scores(ballots), self._total(ballots))

    def distribution(self, ballots: Sequence[Ballot]) -> dict[str, float]:
        """Probability per label: that of its class, shared out within the class by those who told labels apart."""
        heard = _finest(ballots)
        total = self._total(heard) if heard[0].fine else 1.0
        found: dict[str, float] = {}
        for face_class, mass in self.tally(ballots).items():
            shares = _softmax(self.label_scores(heard, face_class), total)
            found |= {name: mass * share for name, share in shares.items()}
        return {name: found[name] for name in self.wheel.labels}

    def weight(self, ballot: Ballot, ballots: Sequence[Ballot]) -> float:
        """The voter's share of the exponents."""
        return self._exponent(ballot) / self._total(ballots)

    def _exponent(self, ballot: Ballot) -> float:
        return self.weights.of_pool(ballot.voter)

    def _total(self, ballots: Sequence[Ballot]) -> float:
        return math.fsum(self._exponent(each) for each in ballots)


NAMES = ("majority", "weighted", "pooled")


def rule_of(name: str, wheel: Wheel, weights: Weights = EQUAL) -> Rule:
    """Returns the rule called `name`, one of `NAMES`; the majority knows no weights.

    Raises:
        ValueError: There is no such rule.
    """
    match name:
        case "majority":
            return Counting(name, EQUAL, wheel)
        case "weighted":
            return Counting(name, weights, wheel)
        case "pooled":
            return Pooled(weights, wheel)
    raise ValueError(f"{name!r} is no rule; use one of: {', '.join(NAMES)}")


def floored(probability: float, count: int) -> float:
    """Returns the probability of one of `count` names once `DOUBT` is spread evenly over all of them."""
    return (1 - DOUBT) * probability + DOUBT / count


def _span(count: int) -> float:
    """Returns how far apart, in nats, one distribution can put two of `count` names."""
    return math.log(floored(1.0, count) / floored(0.0, count))


def _softmax(logs: Mapping[str, float], total: float) -> dict[str, float]:
    """Returns the distribution with the log-odds `logs` divided by `total`."""
    highest = max(logs.values())
    odds = {name: math.exp((value - highest) / total) for name, value in logs.items()}
    whole = math.fsum(odds.values())
    return {name: value / whole for name, value in odds.items()}


def _finest(ballots: Sequence[Ballot]) -> list[Ballot]:
    """Returns those who told labels apart, or all when nobody did."""
    return [each for each in ballots if each.fine] or list(ballots)


def _ballot(vote: Vote[Any], wheel: Wheel) -> Ballot:
    total = math.fsum(vote.distribution.values())
    labels = {name: vote.distribution.get(name, 0.0) / total for name in wheel.labels}
    classes = wheel.gather(labels)
    choice = max(classes, key=classes.__getitem__)
    return Ballot(vote.voter, labels if vote.fine else wheel.spread(classes), classes, choice, vote.fine)
