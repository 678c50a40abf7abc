"""Track records of the voters: whose vote counts, and who is waited for.

Voters are compared in pairs: by the agreement with the majority alone, two liars who agree could put honest voters on
probation. A voter is doubted only by a group of voters that provably agree with each other and that is larger than the
voter's own.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from emotions import Wheel
from services.understanding import metrics
from services.understanding.agreement import Kappa, Share
from services.understanding.domain import Decision, Reliability, Standing, Status, Vote
from services.understanding.rules import choice_of

HALF_LIFE = 50
"""Messages after which one weighs half."""
BAR = 0.1
"""Kappa that a voter on probation is surely below and a proven one surely above. Little more than chance, which is 0,
since voters that read face or voice agree less with those that read text."""
PAIR_MESSAGES_MIN = 10
"""Messages, by effective sample size, before two voters are compared."""
NEW_VOTES = 20
"""Votes after which a new voter counts, unless it is doubted by then."""
LATE_HALF_LIFE = 10
"""Shorter than that of the rest: each late answer costs a turn the whole deadline."""
LATE_MESSAGES_MIN = 4
"""Messages, by what they still weigh, before a voter may be found late: 5 after the start of the process."""
LATE_SHARE, ON_TIME_SHARE = 0.5, 0.2
"""Shares of late answers above which a voter is not waited for, and below which it is again."""
CALLED_OFF_SHARE = 0.5
"""A voter that is called off more often is not judged: it is heard only where the others differ."""
RECORDS_MAX = 256
"""Records that a process keeps; the one unused for longest goes first."""

Key = tuple[str, str]
"""A voter and its variant."""


@dataclass
class _Record:
    is_new: bool
    agreement: Kappa = field(default_factory=lambda: Kappa(HALF_LIFE))
    abstained: Share = field(default_factory=lambda: Share(HALF_LIFE))
    missed: Share = field(default_factory=lambda: Share(HALF_LIFE))
    called_off: Share = field(default_factory=lambda: Share(HALF_LIFE))
    late: Share = field(default_factory=lambda: Share(LATE_HALF_LIFE))
    messages: int = 0
    votes: int = 0
    is_doubted: bool = False
    is_slow: bool = False

    @property
    def counts(self) -> bool:
        return not (self.is_new or self.is_doubted)

    def add(self, status: Status) -> None:
        self.called_off.add(status is Status.CANCELLED)
        if status is Status.CANCELLED:
            return
        self.messages += 1
        self.abstained.add(status is Status.ABSTAINED)
        self.missed.add(status in (Status.LATE, Status.FAILED))
        if status is Status.VOTED:
            self.votes += 1
            self.is_new = self.is_new and self.votes < NEW_VOTES
        if status is not Status.ABSTAINED:  # of a message that it cannot read it is not even asked
            self.late.add(status is Status.LATE)
        if self.late.weight >= LATE_MESSAGES_MIN:
            self.is_slow = self.late.value > (ON_TIME_SHARE if self.is_slow else LATE_SHARE)

    def reliability(self) -> Reliability:
        standing = Standing.NOT_WAITED_FOR if self.is_slow else Standing.COUNTED
        if not self.counts:
            standing = Standing.PROBATION
        return Reliability(
            agreement=self.agreement.value,
            abstained=self.abstained.value,
            late=self.missed.value,
            messages=self.messages,
            standing=standing,
            is_new=self.is_new,
            is_late=self.is_slow,
        )


class TrackRecords:
    """Records of all voters and variants that this process has asked.

    Args:
        wheel: The panel's emotion wheel.
    """

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._records: dict[Key, _Record] = {}
        self._pairs: dict[tuple[Key, Key], Kappa] = {}

    def reliabilities(self, voters: Sequence[Key]) -> dict[str, Reliability]:
        """Return the reliability of each voter of a panel, by its name.

        One without a record is on probation where another voter has proven itself; else all are new alike.
        """
        has_new = any(key not in self._records for key in voters)
        is_established = has_new and any(self._is_proven(each) for each in voters)
        for key in voters:
            # Put in anew, so that the first in order is the one unused for longest.
            self._records[key] = self._records.pop(key) if key in self._records else _Record(is_established)
        self._forget()
        return {key[0]: self._records[key].reliability() for key in voters}

    def observe(self, votes: Sequence[Vote[Any]], decision: Decision[Any] | None) -> None:
        """Enter what became of the voters.

        Args:
            votes: One of each voter; also those that came after the decision.
            decision: What was decided; None without a quorum.
        """
        known = [vote for vote in votes if (vote.voter, vote.variant) in self._records]
        choices = {
            (vote.voter, vote.variant): choice_of(vote, self._wheel) for vote in known if vote.status is Status.VOTED
        }
        for vote in known:
            self._records[vote.voter, vote.variant].add(vote.status)
        for key, others_choice in self._of_others(choices, decision):
            self._records[key].agreement.add(choices[key], others_choice)
        for first, second in itertools.combinations(sorted(choices), 2):
            pair = self._pairs.setdefault((first, second), Kappa(HALF_LIFE))
            pair.add(choices[first], choices[second])
        self._judge([(vote.voter, vote.variant) for vote in known])
        for vote in known:
            reliability = self._records[vote.voter, vote.variant].reliability()
            metrics.observe_reliability(vote.voter, vote.variant, reliability)

    def _of_others(self, choices: Iterable[Key], decision: Decision[Any] | None) -> Iterable[tuple[Key, str]]:
        """Yield what the other counted voters decided, for each voter that has others."""
        if decision is None:
            return
        counted = {(vote.voter, vote.variant): vote for vote in decision.votes if vote.weight > 0}
        for key in choices:
            if key not in counted:
                yield key, decision.face_class
            elif label := counted[key].label_without:
                yield key, self._wheel.label(label).coarse

    def _judge(self, voters: Sequence[Key]) -> None:
        counted = [each for each in voters if self._records[each].counts]
        doubted = {each: self._is_doubted(each, [other for other in counted if other != each]) for each in voters}
        for each, is_doubted in doubted.items():
            self._records[each].is_doubted = is_doubted

    def _is_doubted(self, voter: Key, others: Sequence[Key]) -> bool:
        """Tell whether a voter is on probation, by its agreement with the others that count."""
        record = self._records[voter]
        pairs = {each: pair for each in others if (pair := self._pair(voter, each)).messages >= PAIR_MESSAGES_MIN}
        if record.is_doubted:
            return not pairs or _mean(pair.low for pair in pairs.values()) <= BAR
        if record.called_off.value > CALLED_OFF_SHARE:
            return False
        own = 1 + sum((pair.value or 0.0) > BAR for pair in pairs.values())
        groups = ([each, *(other for other in pairs if self._agree(each, other))] for each in pairs)
        return any(len(group) > own and _mean(pairs[each].high for each in group) < BAR for group in groups)

    def _agree(self, first: Key, second: Key) -> bool:
        return first != second and self._pair(first, second).low > BAR

    def _is_proven(self, voter: Key) -> bool:
        return any(voter in keys and pair.low > BAR for keys, pair in self._pairs.items())

    def _pair(self, first: Key, second: Key) -> Kappa:
        return self._pairs.get((min(first, second), max(first, second))) or Kappa(HALF_LIFE)

    def _forget(self) -> None:
        for key in list(self._records)[: max(0, len(self._records) - RECORDS_MAX)]:
            del self._records[key]
            self._pairs = {keys: pair for keys, pair in self._pairs.items() if key not in keys}
            metrics.forget_reliability(*key)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
