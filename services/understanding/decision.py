"""Decides by a rule, and tells when a decision cannot change any more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from emotions import Wheel
from services.understanding.domain import Decision, Source, Status, Vote
from services.understanding.rules import Ballot, Rule, ballots_of

DIGITS = 9
"""Scores that are equal to so many decimals are equal: how a processor rounds decides nothing."""
PROBABILITY_DIGITS = 6
"""The same of probabilities, which travel in single precision."""
CLEAR = 1e-6
"""A result stands only if what is missing leaves more than this between winner and next: more than any rounding."""


@dataclass(frozen=True)
class Missing:
    """A voter that has not answered. `fine` is false when its model is known to vote on classes only."""

    voter: str
    fine: bool = True


@dataclass(frozen=True)
class _Verdict:
    label: str
    face_class: str
    tie_break: str


def decide(votes: Sequence[Vote[Source]], rule: Rule, wheel: Wheel) -> Decision[Source]:
    """Decides by `rule`.

    The class with the highest score wins. A tie goes to the class with the higher mean probability over all counted
    votes; if that is equal too, to the class that the voter of higher priority chose. The label is the one with the
    highest score within the class; of equal ones the first of the wheel. In what order the votes came is of no effect.

    Args:
        votes: In order of priority, the highest first.
        rule: How they are counted.
        wheel: The emotion wheel.

    Raises:
        ValueError: No vote counts.
    """
    ballots = ballots_of(votes, wheel)
    if not ballots:
        raise ValueError("no vote counts")
    verdict = _verdict(ballots, rule, wheel)
    tally, distribution = rule.tally(ballots), rule.distribution(ballots)
    others = [score for name, score in tally.items() if name != verdict.face_class]
    return Decision(
        label=verdict.label,
        face_class=verdict.face_class,
        rule=rule.name,
        weights_version=rule.weights.version,
        margin=tally[verdict.face_class] - max(others, default=0.0),
        tie_break=verdict.tie_break,
        tally=tally,
        distribution=distribution,
        entropy_bits=_entropy_bits(list(wheel.gather(distribution).values())),
        agreement=sum(each.choice == verdict.face_class for each in ballots) / len(ballots),
        votes=tuple(_weighed(vote, ballots, rule, wheel) for vote in votes),
    )


def settled(votes: Sequence[Vote[Source]], missing: Sequence[Missing], quorum: int, rule: Rule, wheel: Wheel) -> bool:
    """Tells whether label and class are decided, whatever the missing voters would answer, or if they did not.

    Why it is right: a rule's scores are sums over the votes, and `reach` bounds what one more vote adds to a rival's
    score less the winner's; no vote adds nothing. So a winner that leads each rival by more than the reaches of all
    missing votes together leads it after any of them: no tie can come about, and no tie-break is asked.

    With the class fixed the same holds for its labels, among the votes that are heard on them. A missing vote on
    classes is not heard where one on labels is. Where none is, all that are heard have the wheel's own spread within
    the class, and its first label stays first. But where none is and one might still come, nothing is settled.

    Args:
        votes: Those that are in, in order of priority.
        missing: Those that are not.
        quorum: Votes that must count: with fewer there is no decision.
        rule: How they are counted.
        wheel: The emotion wheel.
    """
    ballots = ballots_of(votes, wheel)
    if len(ballots) < max(1, quorum):
        return False
    verdict = _verdict(ballots, rule, wheel)
    scores = rule.scores(ballots)
    for rival in wheel.classes:
        reach = math.fsum(rule.reach(each.voter, rival) for each in missing)
        if rival != verdict.face_class and scores[verdict.face_class] - scores[rival] <= reach + CLEAR:
            return False
    finer = [each for each in missing if each.fine]
    if not finer:
        return True
    heard = rule.heard(ballots, verdict.face_class)
    if not all(each.fine for each in heard):
        return False
    labels = rule.label_scores(heard, verdict.face_class)
    reach = math.fsum(rule.label_reach(each.voter, verdict.face_class) for each in finer)
    return all(labels[verdict.label] - score > reach + CLEAR for name, score in labels.items() if name != verdict.label)


def _verdict(ballots: Sequence[Ballot], rule: Rule, wheel: Wheel) -> _Verdict:
    scores = {name: round(score, DIGITS) for name, score in rule.scores(ballots).items()}
    tied = [name for name, score in scores.items() if score == max(scores.values())]
    tie_break = "none"
    if len(tied) > 1:
        likely = {
            name: round(math.fsum(each.classes[name] for each in ballots) / len(ballots), PROBABILITY_DIGITS)
            for name in tied
        }
        # Classes that nobody chose come last, in the order of the wheel.
        order = [*(each.choice for each in ballots), *wheel.classes]
        tied.sort(key=lambda name: (-likely[name], order.index(name)))
        tie_break = "priority" if likely[tied[0]] == likely[tied[1]] else "probability"
    labels = rule.label_scores(rule.heard(ballots, tied[0]), tied[0])
    return _Verdict(max(labels, key=labels.__getitem__), tied[0], tie_break)


def _weighed(vote: Vote[Source], ballots: Sequence[Ballot], rule: Rule, wheel: Wheel) -> Vote[Source]:
    """Returns the vote with its weight, and with what the others would have decided."""
    if vote.status is not Status.VOTED or not vote.is_counted:
        return vote
    own = next(each for each in ballots if each.voter == vote.voter)
    others = [each for each in ballots if each is not own]
    without = _verdict(others, rule, wheel).label if others else ""
    return replace(vote, weight=rule.weight(own, ballots), label_without=without)


def _entropy_bits(probabilities: Sequence[float]) -> float:
    return math.fsum(-value * math.log2(value) for value in probabilities if value > 0)
