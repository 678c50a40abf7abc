"""Asks a second reader how sure one may be that a text speaks of a risk."""

from collections.abc import Callable

from services.understanding.risk.domain import SURE
from services.understanding.risk.screen import Array, Classifies

ASKED_FROM = 0.1
"""Confidence of the classifier below which the second reader is not asked."""
DENIED = 0.3
"""Probability of the second below which a classifier that is sure is not believed to be."""


class SecondOpinion:
    """Reader whose confidence is the geometric mean of two; of a first that is sure the second can only make unsure.

    Each can so deny what the other doubts. Only the second knows what was said before, and where there is something it
    reads the message without it too: the mean counts, as a danger is none the less one behind talk of the weather.

    Args:
        first: The classifier.
        danger: Returns the probability that a caring person would ask whether somebody is safe, by a text and what the
            user said before it.
    """

    def __init__(self, first: Classifies, danger: Callable[[str, str], float]) -> None:
        self._first, self._danger = first, danger

    def read(self, text: str, before: str = "") -> tuple[Array, Array]:
        """Return the first reader's kinds, their sum as both say, and its severities; see `Reader`."""
        kinds, severities = self._first.read(text)
        confidence = float(kinds.sum())
        if confidence < ASKED_FROM:
            return kinds, severities
        second = self._danger(text, "")
        if before:
            second = (second + self._danger(text, before)) / 2
        if confidence < SURE:
            return kinds * (second / confidence) ** 0.5, severities
        return kinds * ((confidence + second) / 2 / confidence if second < DENIED else 1), severities
