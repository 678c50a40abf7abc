"""Messages with their true emotion, what voters said to them, and the file that keeps it.

A file of votes has one message a line: {"id": …, "label": the truth, "votes": {voter: {"distribution": {label:
probability}, "fine": whether it told labels apart, "cost_ms": CPU time}, or null when it abstained}}. The program
`services.understanding.training.weights` reads the same.
"""

import csv
import io
import json
import random
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emotions import Wheel
from services.mllm.domain import Level, Message, Prediction, answer_of
from services.understanding.domain import Status, Vote

VARIANT_MARK = ", "
"""In the names of what --shots asks otherwise; they are measured and have no seat on the panel."""
DIGITS = 6
TOLERANCE = 1e-3
"""How far from 1 a sum of probabilities may be."""

Predict = Callable[[Message], Prediction]


class InputError(ValueError):
    """What was given to measure with cannot be used; the message says what and why, in one line."""


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
        InputError: It cannot be read, a column is missing, or an emotion is no label of the wheel.
    """
    situations: list[Situation] = []
    reader = csv.DictReader(io.StringIO(_text(path), newline=""))
    try:
        for column in ("emotion", "situation"):
            if column not in (reader.fieldnames or ()):
                raise InputError(f"{path}: has no column {column!r}")
        for row in reader:
            if row["situation"] is None:
                raise InputError(f"{path}, line {reader.line_num}: has no situation")
            situations.append(Situation(str(len(situations)), wheel.label(row["emotion"]).name, row["situation"]))
    except KeyError as error:
        raise InputError(f"{path}, line {reader.line_num}: {error.args[0]}") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error
    return situations


def read_toml(path: Path, wheel: Wheel) -> list[Situation]:
    """Reads a TOML file that lists messages by label.

    Raises:
        InputError: It cannot be read, or a name is no label of the wheel.
    """
    try:
        content = tomllib.loads(_text(path))
        for label, texts in content.items():
            wheel.label(label)
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise InputError(f"{path}: {label} is no list of messages")
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: {error.args[0]}") from error
    return [
        Situation(f"{label}/{number}", label, text)
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


def read_votes(path: Path, wheel: Wheel) -> list[Row]:
    """Reads a file of votes.

    Raises:
        InputError: It cannot be read, or a line of it is none or has other voters than the first.
    """
    rows: list[Row] = []
    for number, text in enumerate(_text(path).splitlines(), 1):
        try:
            rows.append(_row(json.loads(text), wheel))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}, line {number}: is no line of votes: {error}") from error
        if rows[-1].votes.keys() != rows[0].votes.keys():
            raise InputError(f"{path}, line {number}: has other voters than the first line")
    return rows


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # a spreadsheet's csv begins with a mark
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text in UTF-8") from error


def _row(content: Mapping[str, Any], wheel: Wheel) -> Row:
    votes = {voter: None if said is None else _read(voter, said, wheel) for voter, said in content["votes"].items()}
    return Row(str(content["id"]), wheel.label(content["label"]).name, votes)


def _read(voter: str, said: Mapping[str, Any], wheel: Wheel) -> Said:
    distribution = {name: float(value) for name, value in said["distribution"].items()}
    known = distribution.keys() <= wheel.labels.keys()
    if not known or not abs(sum(distribution.values()) - 1) < TOLERANCE or min(distribution.values()) < 0:
        raise ValueError(f"the vote of {voter} is not a distribution over the wheel's labels")
    return Said(distribution, bool(said["fine"]), float(said.get("cost_ms", 0.0)))


def _said(predict: Predict, message: Message, wheel: Wheel) -> Said | None:
    before_s = time.process_time()
    prediction = predict(message)
    cost_ms = 1000 * (time.process_time() - before_s)
    answer = answer_of(prediction, wheel)
    return Said(answer.distribution, prediction.level is Level.LABEL, cost_ms) if answer.label else None
