"""Asks a second reader how sure one may be that a text speaks of a risk."""

from math import exp, log
from typing import Protocol

import numpy as np

from services.understanding.risk.screen import Array, Reader

ASKED_FROM = 0.1
"""Confidence of the first reader below which the second is not asked: it could not change what is done."""
SECOND_WEIGHT, SECOND_WEIGHT_BEHIND = 0.5, 0.15
"""Of the second reader, and where it does not know what was said before; the rest is the first's. Set with the bars, on
messages that neither was taught."""
LEAST = 1e-3
"""No probability counts for less, nor its opposite."""


class Classifies(Protocol):
    """Reads how likely a text by itself speaks of each kind of risk."""

    def read(self, text: str) -> tuple[Array, Array]:
        """Return the probability of each of `KINDS`, float32 (6,), and of each severity, float32 (3,)."""


class SecondOpinion:
    """Reader whose confidence is the weighted mean of two, as log-odds: each can deny what the other doubts.

    Args:
        first: Reads a text behind what the user said before.
        second: Reads the text alone; it was taught others' messages.
    """

    def __init__(self, first: Reader, second: Classifies) -> None:
        self._first, self._second = first, second

    def risk(self, text: str, before: str = "") -> tuple[Array, Array]:
        """Return what both say of each kind, and the mean of their severities; see `Reader`."""
        kinds, severities = self._first.risk(text, before)
        first = float(kinds.sum())
        if first < ASKED_FROM:
            return kinds, severities
        others, others_severities = self._second.read(text)
        second = float(others.sum())
        weight = SECOND_WEIGHT_BEHIND if before else SECOND_WEIGHT
        both = (1 - weight) * _log_odds(first) + weight * _log_odds(second)
        told = kinds / first + others / max(second, LEAST)
        result: Array = (told / told.sum() / (1 + exp(-both))).astype(np.float32)
        return result, np.mean([severities, others_severities], axis=0, dtype=np.float32)


def _log_odds(probability: float) -> float:
    held = min(max(probability, LEAST), 1 - LEAST)
    return log(held / (1 - held))
