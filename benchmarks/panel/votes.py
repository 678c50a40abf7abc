"""Messages with their true emotion, what voters said to them, and the file that keeps it.

A file of votes has one message a line: {"id": …, "label": the truth, "votes": {voter: {"distribution": {label:
probability}, "fine": whether it told labels apart, "cost_ms": CPU time}, or null when it abstained}}. The program
`services.understanding.training.weights` reads the same.
"""

import csv
import json
import random
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emotions import Wheel
from services.mllm.domain import Level, Message, Prediction, answer_of
from services.understanding.domain import Status, Vote

DIGITS = 6

Predict = Callable[[Message], Prediction]


@dataclass(frozen=True)
class Situation:
    """A message, `label` what its author said they felt; `id` its place in the file that it is from."""

    id: str
    label: str
    text: str


@dataclass(frozen=True)
class Said:
    """A voter's answer: a probability per label, whether it told labels apart, and the CPU time that it took."""

    distribution: Mapping[str, float]
    fine: bool
    cost_ms: float


@dataclass(frozen=True)
class Row:
    """What was said to one message; None where a voter abstained."""

    id: str
    label: str
    votes: Mapping[str, Said | None]

    def ballot(self, voters: Sequence[str]) -> list[Vote[None]]:
        """Returns the votes of `voters` as the panel gets them, in this order."""
        return [self._vote(voter) for voter in voters]

    def _vote(self, voter: str) -> Vote[None]:
        said = self.votes[voter]
        if said is None:
            return Vote(voter, Status.ABSTAINED, reason="abstained")
        return Vote(voter, Status.VOTED, distribution=said.distribution, fine=said.fine)


def read_csv(path: Path, wheel: Wheel) -> list[Situation]:
    """Reads a csv with the columns `emotion` and `situation`.

    Raises:
        KeyError: A column is missing, or an emotion is no label of the wheel.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Situation(str(number), wheel.label(row["emotion"]).name, row["situation"]) for number, row in enumerate(rows)
    ]


def read_toml(path: Path, wheel: Wheel) -> list[Situation]:
    """Reads a TOML file that lists messages by label.

    Raises:
        KeyError: A name is no label of the wheel.
    """
    content = tomllib.loads(path.read_text("utf-8"))
    return [
        Situation(f"{wheel.label(label).name}/{number}", label, text)
        for label, texts in content.items()
        for number, text in enumerate(texts)
    ]


def sample(situations: Sequence[Situation], half: int, count: int | None, seed: int) -> list[Situation]:
    """Returns `count` of the situations, or all, in an order drawn by `seed`.

    Args:
        situations: All there are.
        half: 1 or 2 takes from that half of the order only, 0 from all. What was chosen by looking at one half is
            judged on the other.
        count: How many.
        seed: Draws the order.
    """
    order = list(situations)
    random.Random(seed).shuffle(order)
    middle = len(order) // 2
    taken = (order, order[:middle], order[middle:])[half]
    return taken[:count]


def cast(situations: Iterable[Situation], voters: Mapping[str, Predict], wheel: Wheel) -> Iterator[Row]:
    """Lets every voter vote on every situation."""
    for situation in situations:
        message = Message(text=situation.text)
        yield Row(
            situation.id, situation.label, {name: _said(predict, message, wheel) for name, predict in voters.items()}
        )


def line(row: Row) -> str:
    """Returns the row as a line of a file of votes."""
    votes = {
        voter: said
        and {
            "distribution": {name: round(value, DIGITS) for name, value in said.distribution.items()},
            "fine": said.fine,
            "cost_ms": round(said.cost_ms, 2),
        }
        for voter, said in row.votes.items()
    }
    return json.dumps({"id": row.id, "label": row.label, "votes": votes})


def read_votes(path: Path) -> list[Row]:
    """Reads a file of votes.

    Raises:
        ValueError: A line is none, or lacks a voter that the first line has.
    """
    rows = [_row(text) for text in path.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows, 1):
        if row.votes.keys() != rows[0].votes.keys():
            raise ValueError(f"{path}, line {number}: has other voters than the first line")
    return rows


def _row(text: str) -> Row:
    content = json.loads(text)
    votes = {
        voter: said and Said(said["distribution"], said["fine"], said.get("cost_ms", 0.0))
        for voter, said in content["votes"].items()
    }
    return Row(content["id"], content["label"], votes)


def _said(predict: Predict, message: Message, wheel: Wheel) -> Said | None:
    before_s = time.process_time()
    prediction = predict(message)
    cost_ms = 1000 * (time.process_time() - before_s)
    answer = answer_of(prediction, wheel)
    return Said(answer.distribution, prediction.level is Level.LABEL, cost_ms) if answer.label else None
