"""Asks a second reader how sure one may be that a text speaks of a risk."""

from collections.abc import Callable
from math import exp, log

from services.understanding.risk.screen import Array, Classifies

ASKED_FROM = 0.2
"""Confidence of the classifier below which the second reader is not asked."""
FIRST_WEIGHT = 0.4
"""Of the classifier; the rest is the second's. Set with the bars, on messages that neither was taught."""
LEAST = 1e-3
"""No probability counts for less, nor its opposite."""


class SecondOpinion:
    """Reader whose confidence is the weighted mean of two, as log-odds: each can deny what the other doubts.

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
        second = self._danger(text, before)
        both = FIRST_WEIGHT * _log_odds(first) + (1 - FIRST_WEIGHT) * _log_odds(second)
        return kinds / (1 + exp(-both)) / first, severities


def _log_odds(probability: float) -> float:
    held = min(max(probability, LEAST), 1 - LEAST)
    return log(held / (1 - held))
