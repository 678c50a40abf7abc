"""Fits the head of the text classifier to the project's own sentences: `python -m services.mllm.training.train`.

Softmax regression with an L2 penalty, by Nesterov's accelerated gradient descent. Prints how well it does on
sentences that it was not fitted to (k folds), then writes `services/mllm/backends/text_classifier.npz`.
The same sentences and weights give the same head.
"""

import argparse
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import emotions
from emotions import Wheel
from services.mllm.backends.text_classifier import HEAD_PATH, FeatureReader, Head, Settings

SENTENCES_PATH = Path(__file__).with_name("sentences.toml")
FOLDS = 5
SEED = 0
PENALTY = 2e-3
"""Of the squared weights; chosen by the folds among 0.001, 0.002, 0.003, 0.01 and 0.03."""
NEIGHBOURS_SHARE = 0.2
"""Part of a sentence's target that goes to other labels, since "afraid" is hardly wrong for a terrified sentence."""
NEIGHBOURS_WIDTH = 0.3
"""That part falls as exp(-distance / width) on the wheel; the nearest labels lie 0.1 to 0.3 away."""
STEPS = 400

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """Weights float64 (features, labels) and bias float64 (labels,) for centred features."""

    weights: Floats
    bias: Floats

    def logits(self, features: Floats) -> Floats:
        """Returns float64 (n, labels)."""
        return np.asarray(features @ self.weights + self.bias)


def read_sentences(path: Path, wheel: Wheel) -> tuple[list[str], NDArray[np.intp]]:
    """Reads the training file: one list of sentences per label.

    Returns:
        The sentences, and for each the index of its label in the wheel.

    Raises:
        ValueError: The labels are not the wheel's, or a sentence occurs twice.
    """
    content: Mapping[str, list[str]] = tomllib.loads(path.read_text("utf-8"))
    if set(content) != set(wheel.labels):
        raise ValueError(f"{path.name}: the labels differ from the wheel's: {set(content) ^ set(wheel.labels)}")
    texts = [text for label in wheel.labels for text in content[label]]
    if len(set(texts)) != len(texts):
        raise ValueError(f"{path.name}: a sentence occurs twice")
    return texts, np.repeat(np.arange(len(wheel.labels)), [len(content[label]) for label in wheel.labels])


def targets(truth: NDArray[np.intp], wheel: Wheel) -> Floats:
    """Returns what the head should say, float64 (n, labels): mostly the label, a little its neighbours on the wheel."""
    names = list(wheel.labels)
    near = np.exp([[-wheel.distance(one, other) / NEIGHBOURS_WIDTH for other in names] for one in names])
    np.fill_diagonal(near, 0)
    near /= near.sum(axis=1, keepdims=True)
    return np.asarray((1 - NEIGHBOURS_SHARE) * np.eye(len(names))[truth] + NEIGHBOURS_SHARE * near[truth])


def fit(features: Floats, target: Floats, penalty: float = PENALTY, steps: int = STEPS) -> Fit:
    """Minimises the mean cross-entropy plus half `penalty` times the squared weights (Nesterov, 1983)."""
    rows, columns = features.shape
    # The curvature of softmax regression is at most half that of its inputs (Böhning, 1992).
    step = 1 / (0.5 * (np.linalg.norm(features, 2) ** 2 / rows + 1) + penalty)
    now = ahead = np.zeros((columns + 1, target.shape[1]))
    for count in range(steps):
        error = (softmax(features @ ahead[:-1] + ahead[-1]) - target) / rows
        slope = np.concatenate([features.T @ error + penalty * ahead[:-1], error.sum(axis=0, keepdims=True)])
        after = ahead - step * slope
        now, ahead = after, after + count / (count + 3) * (after - now)
    return Fit(now[:-1], now[-1])


def softmax(logits: Floats) -> Floats:
    """Returns the probabilities of `logits` along the last axis."""
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def cross_validate(features: Floats, truth: NDArray[np.intp], wheel: Wheel) -> Floats:
    """Returns the logits, float64 (n, labels), that each sentence gets from the folds without it."""
    fold = np.random.default_rng(SEED).permutation(len(truth)) % FOLDS
    target = targets(truth, wheel)
    logits = np.zeros_like(target)
    for held in range(FOLDS):
        logits[fold == held] = fit(features[fold != held], target[fold != held]).logits(features[fold == held])
    return logits


def temperature(logits: Floats, truth: NDArray[np.intp]) -> float:
    """Returns what to divide logits by, so that a probability is how often the vote is right.

    The one with the least cross-entropy (Guo et al., 2017, "On Calibration of Modern Neural Networks").
    """
    rows = np.arange(len(truth))
    candidates = np.linspace(0.4, 4, 91)
    losses = [-np.log(softmax(logits / candidate)[rows, truth]).mean() for candidate in candidates]
    return float(candidates[int(np.argmin(losses))])


def main() -> None:
    """Trains, reports and writes the head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models-dir", type=Path, default=Settings().models_dir)
    parser.add_argument("--out", type=Path, default=HEAD_PATH)
    arguments = parser.parse_args()
    wheel = emotions.load()
    texts, truth = read_sentences(SENTENCES_PATH, wheel)
    raw = FeatureReader(arguments.models_dir).read(texts)
    centre = raw.mean(axis=0)
    features = (raw - centre).astype(np.float64)
    logits = cross_validate(features, truth, wheel)
    chosen = temperature(logits, truth)
    _report(softmax(logits / chosen), truth, wheel)
    fitted = fit(features, targets(truth, wheel))
    digest = hashlib.sha256(SENTENCES_PATH.read_bytes()).hexdigest()
    Head(
        labels=tuple(wheel.labels),
        centre=centre,
        weights=fitted.weights.astype(np.float32),
        bias=fitted.bias.astype(np.float32),
        temperature=chosen,
        sentences_sha256=digest,
    ).save(arguments.out)
    print(f"temperature {chosen:.2f}; wrote {arguments.out} ({arguments.out.stat().st_size / 1000:.0f} kB)")


def _report(probabilities: Floats, truth: NDArray[np.intp], wheel: Wheel) -> None:
    names, coarse = list(wheel.labels), np.array([wheel.classes.index(label.coarse) for label in wheel.labels.values()])
    by_class = np.stack([probabilities[:, coarse == index].sum(axis=1) for index in range(len(wheel.classes))], axis=1)
    guess = probabilities.argmax(axis=1)
    classes = by_class.argmax(axis=1) == coarse[truth]
    print(f"{len(truth)} sentences, {len(names)} labels, {FOLDS} folds")
    for level, right, true in (("label", guess == truth, truth), ("class", classes, coarse[truth])):
        print(f"{level} right {np.mean(right):.3f} (always the largest {np.bincount(true).max() / len(true):.3f})")
    for index in np.argsort([np.mean(guess[truth == index] == index) for index in range(len(names))])[:6]:
        taken = np.bincount(guess[truth == index], minlength=len(names))
        others = ", ".join(f"{names[other]} {taken[other]}" for other in np.argsort(-taken)[:4] if other != index)
        print(f"  weakest: {names[index]} {taken[index]}/{taken.sum()}, taken for {others}")


if __name__ == "__main__":
    main()
