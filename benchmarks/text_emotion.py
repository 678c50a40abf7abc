"""How well the text classifier names the emotion of situations that it has never seen.

    python -m benchmarks.text_emotion --csv situations.csv

The csv has the columns `emotion` and `situation`, as EmpatheticDialogues (Rashkin et al., 2019) can be brought to.
That corpus is for research only (CC BY-NC 4.0): it is not part of this project and nothing here is trained on it.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import emotions
from emotions import Wheel
from services.mllm.backends import text_classifier
from services.mllm.domain import Message

BINS = 10


@dataclass(frozen=True, eq=False)
class Outcome:
    """Votes on n texts: `votes` float64 (n, names), `truth` int (n,) indexes of names that occur in the csv."""

    names: tuple[str, ...]
    votes: NDArray[np.float64]
    truth: NDArray[np.intp]

    @property
    def guess(self) -> NDArray[np.intp]:
        """The name with the largest vote, int (n,)."""
        return np.asarray(self.votes.argmax(axis=1))

    def accuracy(self) -> float:
        """Share of votes that are right."""
        return float(np.mean(self.guess == self.truth))

    def majority(self) -> float:
        """Accuracy of always saying the most frequent name."""
        return float(np.bincount(self.truth).max() / len(self.truth))

    def among_best(self, count: int) -> float:
        """Share of texts whose name is among the `count` largest votes."""
        best = np.argsort(-self.votes, axis=1)[:, :count]
        return float(np.mean((best == self.truth[:, None]).any(axis=1)))

    def macro_f1(self) -> float:
        """Mean over the names that occur of the harmonic mean of precision and recall."""
        scores = []
        for name in np.unique(self.truth):
            said, true = self.guess == name, self.truth == name
            scores.append(2 * np.sum(said & true) / (np.sum(said) + np.sum(true)))
        return float(np.mean(scores))

    def calibration_error(self) -> float:
        """Mean distance between confidence and accuracy over `BINS` bins, weighted by size (Guo et al., 2017)."""
        confidence = self.votes.max(axis=1)
        bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
        right = self.guess == self.truth
        gaps = [abs(np.sum(right[bins == index]) - np.sum(confidence[bins == index])) for index in range(BINS)]
        return float(np.sum(gaps) / len(self.truth))


def measure(rows: Sequence[tuple[str, str]], wheel: Wheel) -> tuple[Outcome, Outcome, float]:
    """Lets the classifier vote on (emotion, situation) rows.

    Returns:
        The outcome over the labels that occur in `rows`, the outcome over the classes, and the CPU ms a text.
    """
    backend = text_classifier.create()
    before = time.process_time()
    predictions = [backend.predict(Message(text=text)).distribution for _, text in rows]
    cost_ms = 1000 * (time.process_time() - before) / len(rows)
    asked = {emotion for emotion, _ in rows}
    names = tuple(name for name in wheel.labels if name in asked)
    fine = np.array([[vote[name] for name in names] for vote in predictions])
    fine /= fine.sum(axis=1, keepdims=True)
    coarse = np.array([list(wheel.gather(vote).values()) for vote in predictions])
    truth = np.array([names.index(emotion) for emotion, _ in rows])
    classes = np.array([wheel.classes.index(wheel.label(emotion).coarse) for emotion, _ in rows])
    return Outcome(names, fine, truth), Outcome(wheel.classes, coarse, classes), cost_ms


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, help="file with the columns emotion and situation")
    parser.add_argument("--weakest", type=int, default=0, help="also list the labels with the least recall")
    arguments = parser.parse_args()
    if arguments.csv is None:
        print("skipped: no csv given; name one with --csv (columns emotion, situation)")
        return
    with arguments.csv.open(encoding="utf-8", newline="") as file:
        rows = [(row["emotion"], row["situation"]) for row in csv.DictReader(file)]
    labels, classes, cost_ms = measure(rows, emotions.load())
    print(f"{len(rows)} texts, {cost_ms:.1f} ms CPU a text")
    print(
        f"{'':8} {'names':>5} {'right':>6} {'majority':>8} {'in best 3':>9} {'macro F1':>8} {'calibration error':>17}"
    )
    for level, found in (("label", labels), ("class", classes)):
        present = len(np.unique(found.truth))
        print(
            f"{level:8} {present:5} {found.accuracy():6.3f} {found.majority():8.3f} {found.among_best(3):9.3f}"
            f" {found.macro_f1():8.3f} {found.calibration_error():17.3f}"
        )
    _print_weakest(labels, arguments.weakest)


def _print_weakest(found: Outcome, count: int) -> None:
    recalls = [(np.mean(found.guess[found.truth == index] == index), index) for index in range(len(found.names))]
    for recall, index in sorted(recalls)[:count]:
        taken = np.bincount(found.guess[found.truth == index], minlength=len(found.names))
        others = ", ".join(f"{found.names[other]} {taken[other]}" for other in np.argsort(-taken)[:4] if other != index)
        print(f"{found.names[index]:13} {recall:.2f}, taken for {others}")


if __name__ == "__main__":
    main()
