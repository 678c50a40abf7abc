"""Asks a second reader where the first is not sure whether a text speaks of a risk."""

from collections.abc import Callable

from services.understanding.risk.domain import SURE
from services.understanding.risk.screen import Array, Reader

ASKED_FROM = 0.05
"""Confidence of the first reader below which the second is not asked; from `SURE` on it is not asked either."""


class SecondOpinion:
    """Reader whose confidence, where the first is not sure, is the mean of two.

    Args:
        first: The classifier.
        danger: Returns the probability that a caring person would ask whether somebody is safe.
    """

    def __init__(self, first: Reader, danger: Callable[[str], float]) -> None:
        self._first, self._danger = first, danger

    def read(self, text: str) -> tuple[Array, Array]:
        """Return the first reader's kinds, their sum as both say, and its severities; see `Reader`."""
        kinds, severities = self._first.read(text)
        confidence = float(kinds.sum())
        if ASKED_FROM <= confidence < SURE:
            kinds = kinds * ((confidence + self._danger(text)) / 2 / confidence)
        return kinds, severities
