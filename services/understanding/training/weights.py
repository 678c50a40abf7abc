"""`python -m services.understanding.training.weights --votes votes.jsonl --out name` learns what votes weigh.

The votes come one message a line: {"id": …, "label": the truth, if known, "votes": {voter: {"distribution": {label:
probability}, "fine": whether it told labels apart}, or null when it did not vote}}.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import emotions
from emotions import Wheel
from services.understanding.domain import Status, Vote, malformed
from services.understanding.reliability import FOLDER, Weights, parse
from services.understanding.rules import Ballot, ballots_of, floored
from services.understanding.training.estimate import ABSENT, dawid_skene, evidence, exponents

WEIGHT_MIN = 0.05
VOTES_MIN = 30
"""A voter with fewer votes gets no weights of its own: with 8 classes they would be chance."""


@dataclass(frozen=True)
class Message:
    """What the voters said to one message: `truth` is its class, empty when unknown."""

    truth: str
    ballots: Mapping[str, Ballot]


@dataclass(frozen=True)
class Learned:
    """What was learned, and from how much.

    Attributes:
        weights: Without a version.
        messages: How many there were.
        labelled: How many of them with their truth.
        votes: How many each voter gave.
        accuracy: Share of each voter's votes that chose the class of the truth, where it was known.
        left_out: Voters with too few votes.
    """

    weights: Weights
    messages: int
    labelled: int
    votes: Mapping[str, int]
    accuracy: Mapping[str, float]
    left_out: tuple[str, ...]


def read(lines: Sequence[str], wheel: Wheel) -> list[Message]:
    """Returns the messages of a file of votes.

    Raises:
        ValueError: A line is not as it should be; the message says which and why.
    """
    messages = []
    for number, line in enumerate(lines, 1):
        try:
            messages.append(_message(json.loads(line), wheel))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number}: {error}") from error
    return messages


def learn(messages: Sequence[Message], wheel: Wheel) -> Learned:
    """Learns the weights of all voters that gave enough votes.

    Raises:
        ValueError: None did.
    """
    counts: dict[str, int] = {}
    for message in messages:
        for voter in message.ballots:
            counts[voter] = counts.get(voter, 0) + 1
    voters = [name for name, count in counts.items() if count >= VOTES_MIN]
    if not voters:
        raise ValueError(f"no voter gave {VOTES_MIN} votes: {counts}")
    place = {name: index for index, name in enumerate(wheel.classes)}
    choices = np.full((len(messages), len(voters)), ABSENT)
    logs = np.zeros((len(messages), len(voters), len(place)))
    for row, message in enumerate(messages):
        for column, voter in enumerate(voters):
            if ballot := message.ballots.get(voter):
                choices[row, column] = place[ballot.choice]
                logs[row, column] = [np.log(floored(ballot.classes[name], len(place))) for name in place]
    truth = np.array([place.get(message.truth, ABSENT) for message in messages])
    found = dawid_skene(choices, truth, len(place))
    by_class, pool = evidence(found.confusions, WEIGHT_MIN), exponents(logs, found.truths, WEIGHT_MIN)
    right = (choices == truth[:, None]) & (truth != ABSENT)[:, None]
    judged = (choices != ABSENT) & (truth != ABSENT)[:, None]
    share = right.sum(axis=0) / np.maximum(judged.sum(axis=0), 1)
    weights = Weights(
        version="",
        votes={name: dict(zip(place, by_class[column].tolist(), strict=True)) for column, name in enumerate(voters)},
        pool=dict(zip(voters, pool.tolist(), strict=True)),
        # Who was never measured weighs no more than anybody who was, whatever it votes for.
        votes_default=dict(zip(place, by_class.min(axis=0).tolist(), strict=True)),
        pool_default=float(pool.min()),
    )
    return Learned(
        weights,
        messages=len(messages),
        labelled=int((truth != ABSENT).sum()),
        votes={name: counts[name] for name in voters},
        accuracy=dict(zip(voters, share.tolist(), strict=True)),
        left_out=tuple(name for name in counts if name not in voters),
    )


def written(learned: Learned, version: str, source: str, digest: str, wheel: Wheel) -> str:
    """Returns the table of weights as TOML.

    Args:
        learned: What stands in it.
        version: Its name.
        source: Name of the file of votes.
        digest: SHA-256 (hex) of the file of votes.
        wheel: The wheel that the votes were made with.
    """
    weights = learned.weights
    lines = [
        "# Written by services.understanding.training.weights. Votes in nats of evidence; pool: exponents.",
        f"version = {json.dumps(version)}",
        f'ontology_hash = "{wheel.digest}"',
        "",
        "[provenance]",
        f"date = {date.today().isoformat()}",
        f"source = {json.dumps(source)}",
        f'votes_sha256 = "{digest}"',
        f"messages = {learned.messages}",
        f"labelled = {learned.labelled}",
        "",
        "# Of a voter that is not listed: the least of those that are.",
        "[default]",
        f"pool = {weights.pool_default:.4f}",
        "",
        "[default.votes]",
        *_rows(weights.votes_default),
    ]
    for voter, row in weights.votes.items():
        table = f"voters.{json.dumps(voter)}"
        lines += ["", f"[{table}]", f"messages = {learned.votes[voter]}"]
        lines += [f"accuracy = {learned.accuracy[voter]:.4f}"] if learned.labelled else []
        lines += [f"pool = {weights.pool[voter]:.4f}", "", f"[{table}.votes]"]
        lines += _rows(row)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m services.understanding.training.weights", description=__doc__)
    parser.add_argument("--votes", type=Path, required=True, help="the votes, one message a line")
    parser.add_argument("--out", required=True, help="name of the new table, or path of the file, ending in .toml")
    options = parser.parse_args(arguments)
    path = Path(options.out) if options.out.endswith(".toml") else FOLDER / f"{options.out}.toml"
    try:
        problem = _problem(path, options.out)
        content = b"" if problem else options.votes.read_bytes()
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
    if problem:
        print(problem, file=sys.stderr)
        return 1
    wheel = emotions.load()
    try:
        learned = learn(read(content.decode("utf-8").splitlines(), wheel), wheel)
    except ValueError as error:
        print(f"{options.votes}: {error}", file=sys.stderr)
        return 1
    text = written(learned, path.stem, options.votes.name, hashlib.sha256(content).hexdigest(), wheel)
    parse(text, wheel)  # what the panel could not read is not written
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{path}: {learned.messages} messages, {learned.labelled} of them labelled")
    for voter, row in learned.weights.votes.items():
        best = ", ".join(f"{name} {row[name]:.2f}" for name in sorted(row, key=row.__getitem__, reverse=True))
        accuracy, pool = learned.accuracy[voter], learned.weights.pool[voter]
        print(f"  {voter:12} {learned.votes[voter]} votes, {accuracy:.1%} right, pool {pool:.2f}, votes: {best}")
    for voter in learned.left_out:
        print(f"  {voter:12} left out: fewer than {VOTES_MIN} votes")
    return 0


def _rows(by_class: Mapping[str, float]) -> list[str]:
    return [f"{name} = {value:.4f}" for name, value in by_class.items()]


def _problem(path: Path, out: str) -> str:
    """Returns why no table can be written to `path`; empty when one can."""
    if not re.fullmatch(r"\w[\w.-]*", path.stem if out.endswith(".toml") else out):
        return f"--out {out!r} names no table; use letters, digits, '.', '_' and '-', or the path of a .toml file"
    if not path.parent.is_dir():
        return f"--out {out}: there is no folder {path.parent}"
    return f"{path} exists; a version never changes, so choose another name" if path.exists() else ""


def _message(row: Mapping[str, Any], wheel: Wheel) -> Message:
    truth = row.get("label")
    found = {name: _ballot(name, said, wheel) for name, said in row["votes"].items() if said is not None}
    return Message(wheel.label(truth).coarse if truth else "", found)


def _ballot(voter: str, said: Mapping[str, Any], wheel: Wheel) -> Ballot:
    distribution = {name: float(value) for name, value in said["distribution"].items()}
    if problem := malformed(distribution, wheel):
        raise ValueError(f"the vote of {voter}: {problem}")
    (ballot,) = ballots_of([Vote(voter, Status.VOTED, distribution=distribution, fine=bool(said["fine"]))], wheel)
    return ballot


if __name__ == "__main__":
    sys.exit(main())
