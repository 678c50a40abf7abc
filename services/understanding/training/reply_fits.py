"""Train the regressions that tell how well each reply fits, `services/understanding/tones/fits.npz`, on graded replies.

    python -m services.understanding.training.reply_fits .models --hold plainday,singles_75,talks_75

Logistic regression on the logits of the reader's head, for each reply twice: that it can be said, and that it is just
right. A reply has some 150 grades, its tone ten times as many: so the weights of a tone are learned first, held near
those of its own outputs, and those of a reply are held near its tone's. A new or changed reply has its tone's, without
any grade. Of a reply to a risk the group is its kind and who is spoken to, which the head was not taught to tell: its
weights are on the reader's state too (of 484 messages held out it was told of 92 %, by the head alone of 88 %; other
replies were chosen no better so). Takes five minutes, most of them to read.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perception.mpnet import Encoder, joined
from services.understanding.reader import ADAPTER, BEFORE
from services.understanding.risk.care import Care
from services.understanding.risk.domain import Kind
from services.understanding.risk.lines import HelpLines
from services.understanding.spelling import readable
from services.understanding.tones import store
from services.understanding.tones.fits import PATH
from services.understanding.training import reply_grades
from services.understanding.training.reply_grades import GRADES, Graded

CUTS = (GRADES.index("s"), GRADES.index("g"))
FIRST_BIASES = (-0.3, -2.0)
STATE = 768
"""Inputs that are the reader's state, behind the logits of its head."""
OWN_BEST, OWN_FIT, OWN_KIND = 0.3, 0.9, 1.0
"""Weights that a group begins with: of its tone's outputs, or of its kind of risk."""
GROUP_DECAY, REPLY_DECAY, BIAS_DECAY = 0.05, 0.3, 0.02
"""Penalty, beside the mean loss, on the square of a weight's distance from its start, set on messages held out; that of
a reply is for 100 grades: fewer move it less."""
STEPS_MAX, GAIN_MIN = 25, 1e-7
WORTH = (0.0, 0.1, 0.2, 0.3)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Grades:
    """Grades: rows of messages and replies, and the grade, each int64 (grades,)."""

    message: NDArray[np.int64]
    reply: NDArray[np.int64]
    grade: NDArray[np.int64]

    def of(self, kept: NDArray[np.bool_]) -> "Grades":
        """Return those that a mask keeps."""
        return Grades(self.message[kept], self.reply[kept], self.grade[kept])


def groups() -> dict[str, list[str]]:
    """Return all replies by group: the name of a tone, or the kind of a risk and who is spoken to."""
    found = {tone.name: list(tone.replies) for tone in store.read()}
    for name, reply in Care(HelpLines()).addressed().items():
        kind, _, group, _ = name.split(".")
        found.setdefault(f"{kind}.{group}", []).append(" ".join(reply))
    return found


def first_weights(group: str, inputs: int) -> Floats:
    """Return the weights that a group begins with, float64 (inputs,)."""
    names = [tone.name for tone in store.read()]
    weights = np.zeros(inputs)
    if group in names:
        weights[names.index(group)], weights[len(names) + names.index(group)] = OWN_BEST, OWN_FIT
    elif (kind := group.split(".", maxsplit=1)[0]) in set(Kind):
        weights[2 * len(names) + 1 + list(Kind).index(Kind(kind))] = OWN_KIND
    return weights


def regression(inputs: Floats, wanted: Floats, first: Floats, decay: float) -> Floats:
    """Return the weights, the bias last, that tell what is wanted and lie near the first ones: Newton's method."""
    padded = np.column_stack([inputs, np.ones(len(inputs))])
    paid = np.append(np.full(inputs.shape[1], decay), BIAS_DECAY)

    def loss(weights: Floats) -> float:
        logits = padded @ weights
        return float((np.logaddexp(0, logits) - wanted * logits).mean() + (paid * (weights - first) ** 2).sum())

    weights = first
    for _ in range(STEPS_MAX):
        told = 1 / (1 + np.exp(-np.clip(padded @ weights, -30, 30)))
        slope = padded.T @ (told - wanted) / len(wanted) + 2 * paid * (weights - first)
        bend = (padded * (told * (1 - told))[:, None]).T @ padded / len(wanted) + np.diag(2 * paid)
        step, before = np.linalg.solve(bend, slope), loss(weights)
        while loss(weights - step) > before and np.abs(step).max() > GAIN_MIN:
            step = step / 2
        weights = weights - step
        if before - loss(weights) < GAIN_MIN:
            break
    return weights


def learned(inputs: Floats, grades: Grades, places: dict[str, list[int]], count: int) -> Floats:
    """Return the weights of all replies, the bias last, float64 (2, replies, outputs + 1); see the module."""
    rows = defaultdict(list)
    for row, reply in enumerate(grades.reply.tolist()):
        rows[reply].append(row)
    result = np.zeros((len(CUTS), count, inputs.shape[1] + 1))
    for number, (cut, bias) in enumerate(zip(CUTS, FIRST_BIASES, strict=True)):
        for group, members in places.items():
            shown = inputs if "." in group else inputs[:, :-STATE]
            shared = np.append(first_weights(group, shown.shape[1]), bias)
            if of_all := [row for member in members for row in rows[member]]:
                shared = _of(shown, grades, of_all, cut, shared, GROUP_DECAY)
            for member in members:
                own = rows[member]
                decay = REPLY_DECAY * 100 / max(1, len(own))
                weights = _of(shown, grades, own, cut, shared, decay) if own else shared
                result[number, member, : len(weights) - 1], result[number, member, -1] = weights[:-1], weights[-1]
    return result


def _of(inputs: Floats, grades: Grades, rows: Sequence[int], cut: int, first: Floats, decay: float) -> Floats:
    return regression(inputs[grades.message[rows]], (grades.grade[rows] >= cut).astype(float), first, decay)


def report(inputs: Floats, grades: Grades, weights: Floats) -> None:
    """Print how good the best of the graded replies to each message is, by what being just right is worth."""
    logits = (inputs[grades.message] * weights[:, grades.reply, :-1]).sum(2) + weights[:, grades.reply, -1]
    sayable, good = 1 / (1 + np.exp(-logits))
    for worth in WORTH:
        best: dict[int, tuple[float, int]] = {}
        for message, grade, value in zip(grades.message, grades.grade, sayable + worth * good, strict=True):
            best[message] = max(best.get(message, (0.0, 0)), (float(value), int(grade)))
        told = np.array([grade for _, grade in best.values()])
        shares = (told >= CUTS[1]).mean(), (told >= CUTS[0]).mean(), (told == 0).mean()
        print(f"  good counts {worth}: just right {shares[0]:.1%}, sayable {shares[1]:.1%}, harmful {shares[2]:.1%}")


def main() -> None:
    """Learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models_dir", type=Path)
    parser.add_argument("--hold", default="", help="sets that are held out, to see how good the choice is on them")
    parser.add_argument("--to", type=Path, default=PATH)
    given = parser.parse_args()
    every = groups()
    names = [reply for replies in every.values() for reply in replies]
    places = {group: [names.index(reply) for reply in replies] for group, replies in every.items()}
    held_sets = set(filter(None, given.hold.split(",")))
    shown = reply_grades.read()
    inputs = found_in(Encoder(given.models_dir, ADAPTER), shown)
    mean, deviation = inputs.mean(0), inputs.std(0) + 1e-3
    inputs = (inputs - mean) / deviation
    grades = _grades(shown, names)
    held = np.array([one.of in held_sets for one in shown])[grades.message]
    print(f"{len(shown)} messages, {len(held)} grades, {held.sum()} of them held out", flush=True)
    if held.any():
        report(inputs, grades.of(held), learned(inputs, grades.of(~held), places, len(names)))
    weights = learned(inputs, grades, places, len(names))
    rows = weights[..., :-1] / deviation
    biases = (weights[..., -1] - rows @ mean).astype(np.float32)
    np.savez_compressed(given.to, replies=np.array(names), rows=rows.astype(np.float16), biases=biases)


def found_in(encoder: Encoder, shown: Sequence[Graded]) -> Floats:
    """Return the logits of the reader's head for messages, and its states, float64 (messages, outputs + 768)."""
    texts = (readable(joined(one.text, " ".join(one.before[-BEFORE:]))) for one in shown)
    means = np.stack([encoder.means(text)[0] for text in texts])
    return np.column_stack([encoder.logits(means), means]).astype(np.float64)


def _grades(shown: Sequence[Graded], names: Sequence[str]) -> Grades:
    """Return the grades of the replies that there still are."""
    places = {reply: place for place, reply in enumerate(names)}
    then = [places.get(reply, -1) for reply in reply_grades.replies()]
    told = [(row, then[reply], grade) for row, one in enumerate(shown) for reply, grade in one.grades.items()]
    return Grades(*np.array([each for each in told if each[1] >= 0]).T)


if __name__ == "__main__":
    main()
