"""Asks a second reader how sure one may be that a text speaks of a risk."""

from collections.abc import Callable
from math import exp, log

from services.understanding.risk.screen import Array, Classifies

ASKED_FROM = 0.02
"""Confidence of the classifier below which the second reader is not asked."""
CLEAR = 0.9
"""Confidence of the classifier from which at least `DOUBTED` is believed: what reads so like danger is asked about."""
DOUBTED = 0.45
LEAST = 1e-3
"""No probability counts for less, nor its opposite."""


class SecondOpinion:
    """Reader whose confidence is the mean of two, as log-odds, so that each can deny what the other doubts.

    Args:
        first: The classifier; it reads a text by itself.
        danger: Returns the probability that a caring person would ask whether somebody is safe, by a text and what the
            user said before it.
    """

    def __init__(self, first: Classifies, danger: Callable[[str, str], float]) -> None:
        self._first, self._danger = first, danger

    def read(self, text: str, before: str = "") -> tuple[Array, Array]:
        """Return the first reader's kinds, their sum as both say, and its severities; see `Reader`."""
        kinds, severities = self._first.read(text)
        first = float(kinds.sum())
        if first < ASKED_FROM:
            return kinds, severities
        both = 1 / (1 + exp(-(_log_odds(first) + _log_odds(self._danger(text, before))) / 2))
        return kinds * (max(both, DOUBTED if first >= CLEAR else 0) / first), severities


def _log_odds(probability: float) -> float:
    held = min(max(probability, LEAST), 1 - LEAST)
    return log(held / (1 - held))
