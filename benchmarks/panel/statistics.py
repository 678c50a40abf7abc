"""How sure a measured share is, and whether one voter is really better than another."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
COVERAGE = 0.95
SEED = 0

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Comparison:
    """Two voters on the same messages.

    Attributes:
        only_first: Messages that the first alone got right.
        only_second: Messages that the second alone got right.
        p: How likely a difference this large, either way, is between voters that are equally good.
    """

    only_first: int
    only_second: int
    p: float


def interval(right: Bools) -> tuple[float, float]:
    """Returns the limits between which the share of right ones lies with 95 % confidence.

    Percentile bootstrap (Efron 1979): the messages are drawn again and again, with replacement, as many as there are.
    The number of right ones in such a draw is binomial, so it is drawn as such.
    """
    shares = np.random.default_rng(SEED).binomial(len(right), float(right.mean()), RESAMPLES) / len(right)
    low, high = np.quantile(shares, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(low), float(high)


def mcnemar(first: Bools, second: Bools) -> Comparison:
    """Compares two voters by the messages that only one of them got right.

    The exact form of McNemar's test (1947): if both were equally good, each such message would be a fair coin.
    """
    only_first, only_second = int((first & ~second).sum()), int((~first & second).sum())
    count = only_first + only_second
    tail = sum(math.comb(count, each) for each in range(min(only_first, only_second) + 1))
    return Comparison(only_first, only_second, min(1.0, 2 * tail / 2**count))
