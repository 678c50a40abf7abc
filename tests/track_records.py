"""Synthetic voters of known accuracy, and panels of them that keep track records."""

import random
from collections.abc import Callable, Mapping

from emotions import Wheel
from services.common.metrics import VARIANT
from services.understanding.decision import decide
from services.understanding.domain import Reliability, Standing, Status, Vote
from services.understanding.rules import rule_of
from services.understanding.track_record import TrackRecords

SHARES = {"happy": 35, "sad": 25, "fear": 14, "angry": 10, "surprised": 6, "disgusted": 4, "contempt": 4, "neutral": 2}
"""Base rates of the classes."""

Says = Callable[[str, random.Random], str]
"""Class that a voter says, given the true one."""


def draw(chance: random.Random) -> str:
    """A class by the base rates."""
    return chance.choices([*SHARES], [*SHARES.values()])[0]


def right(share: float) -> Says:
    """A voter that knows the class of this share of messages, and guesses that of the others."""
    return lambda truth, chance: truth if chance.random() < share else draw(chance)


def always(face_class: str) -> Says:
    return lambda truth, chance: face_class


def in_concert(seed: int = 0) -> Says:
    """A liar that says at random what all of its kind say: each counts messages by itself."""
    own = random.Random(f"concert {seed}")
    return lambda truth, chance: draw(own)


def vote(voter: str, face_class: str, status: Status = Status.VOTED, variant: str = VARIANT) -> Vote[str]:
    distribution = {face_class: 1.0} if status is Status.VOTED else {}
    return Vote(voter, status, distribution=distribution, fine=True, variant=variant)


class Traffic:
    """Messages to a panel that decides by majority over the voters that count.

    Args:
        wheel: The emotion wheel.
        voters: What each says.
    """

    def __init__(self, wheel: Wheel, voters: Mapping[str, Says], seed: int = 1) -> None:
        self.records = TrackRecords(wheel)
        self.voters = dict(voters)
        self.variants: dict[str, str] = {}
        self.history: list[dict[str, Standing]] = []
        self._chance, self._wheel = random.Random(seed), wheel

    def reliabilities(self) -> dict[str, Reliability]:
        return self.records.reliabilities([(name, self._variant(name)) for name in self.voters])

    def run(self, messages: int) -> None:
        for _ in range(messages):
            standings = {name: each.standing for name, each in self.reliabilities().items()}
            self.history.append(standings)
            truth = draw(self._chance)
            votes = []
            for name, says in self.voters.items():
                made = vote(name, says(truth, self._chance), variant=self._variant(name))
                is_counted = standings[name] is not Standing.PROBATION
                votes.append(Vote(**{**vars(made), "is_counted": is_counted}))
            self.records.observe(votes, decide(votes, rule_of("majority", self._wheel), self._wheel))

    def ever_on_probation(self) -> set[str]:
        return {name for each in self.history for name, one in each.items() if one is Standing.PROBATION}

    def on_probation(self) -> set[str]:
        return {name for name, each in self.reliabilities().items() if each.standing is Standing.PROBATION}

    def _variant(self, name: str) -> str:
        return self.variants.get(name, VARIANT)
