"""How reliable voters are, estimated from their votes, where the truth is known and where it is not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ABSENT = -1
"""In place of a choice or a truth that there is none of."""
SMOOTHING = 0.5
"""Votes that every cell of a confusion matrix holds before any is counted (Jeffreys' prior)."""
ROUNDS_MAX = 200
CHANGE_MIN = 1e-6
RIDGE = 1e-3
"""Holds the exponents where votes that are all right, or too few, would let them grow without end."""
STEPS = 2000


@dataclass(frozen=True)
class Reliability:
    """What was estimated.

    Attributes:
        confusions: float64 (voters, classes, classes): how often a voter says the last when the truth is the middle.
        truths: float64 (messages, classes): how likely each class is the truth; certain where it was known.
    """

    confusions: Floats
    truths: Floats


def dawid_skene(choices: Ints, truth: Ints, classes: int) -> Reliability:
    """Estimates the voters' confusion matrices, by expectation and maximisation where the truth is unknown.

    Dawid and Skene 1979, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm", with two
    additions: known truths stay fixed, so that with all of them known this is plain counting, and counts are smoothed.
    It begins, as they do, with the share of the votes that each class got. A voter that did not vote on a message
    tells nothing about it.

    Args:
        choices: int (messages, voters): the class that was chosen, or `ABSENT`.
        truth: int (messages,): the class, or `ABSENT`.
        classes: How many there are.
    """
    votes = np.eye(classes + 1)[choices][:, :, :classes]  # one-hot; the row of ABSENT, which is last, is cut off
    known = truth != ABSENT
    fixed = np.eye(classes + 1)[truth][:, :classes]
    counts = votes.sum(axis=1)
    truths = np.where(known[:, None], fixed, _rows(counts + np.where(counts.sum(axis=1, keepdims=True) > 0, 0, 1)))
    for _ in range(ROUNDS_MAX):
        confusions = _rows(np.einsum("mc,mvk->vck", truths, votes) + SMOOTHING)
        prior = (truths.sum(axis=0) + SMOOTHING) / (len(truths) + SMOOTHING * classes)
        logs = np.log(prior) + np.einsum("mvk,vck->mc", votes, np.log(confusions))
        found = np.where(known[:, None], fixed, _softmax(logs))
        change = float(np.abs(found - truths).max(initial=0))
        truths = found
        if change < CHANGE_MIN:
            break
    return Reliability(_rows(np.einsum("mc,mvk->vck", truths, votes) + SMOOTHING), truths)


def evidence(confusions: Floats, least: float) -> Floats:
    """Returns what a vote for each class is worth as evidence for it, float64 (voters, classes), in nats.

    It is ln(P(says it | it is) / P(says it | it is another)), the weight of evidence (Good 1950, "Probability and the
    Weighing of Evidence"), the others all equally likely: how often a class occurs among the messages that were
    learned from is of no effect. If errors fall evenly on the other classes it is ln(p (C - 1) / (1 - p)), the
    log-odds by which a weighted majority of independent voters is best.

    Args:
        confusions: As in `Reliability`.
        least: A vote that speaks against its own class weighs so much all the same.
    """
    said = np.einsum("vcc->vc", confusions)
    by_others = (confusions.sum(axis=1) - said) / (confusions.shape[1] - 1)
    return np.asarray(np.maximum(np.log(said / by_others), least))


def exponents(logs: Floats, truths: Floats, least: float) -> Floats:
    """Returns the exponents of a log-opinion pool under which the truths are likeliest, float64 (voters,).

    The log-likelihood is concave in them, so projected gradient ascent finds the best, at a step that its curvature
    allows everywhere.

    Args:
        logs: float64 (messages, voters, classes): log-probabilities; 0 throughout where a voter did not vote.
        truths: float64 (messages, classes), as in `Reliability`.
        least: The smallest exponent.
    """
    voters = logs.shape[1]
    even = np.full(voters, 1 / voters)
    centred = logs - logs.mean(axis=2, keepdims=True)
    curvature = float((centred**2).sum(axis=1).max(axis=1).mean()) + RIDGE
    found = even.copy()
    for _ in range(STEPS):
        missed = truths - _softmax(np.einsum("v,mvc->mc", found, centred))
        slope = np.einsum("mc,mvc->v", missed, centred) / len(logs) - RIDGE * (found - even)
        found = np.maximum(found + slope / curvature, least)
    return found


def _rows(counts: Floats) -> Floats:
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def _softmax(logs: Floats) -> Floats:
    return _rows(np.exp(logs - logs.max(axis=-1, keepdims=True)))
