"""Risk screen whose reader finds what it is told to."""

from collections.abc import Mapping

import numpy as np

from services.understanding.risk.domain import Kind, Severity
from services.understanding.risk.screen import KINDS, Array, RiskScreen
from services.understanding.screening import Screening


class ToldReader:
    """Reader that finds the risks of some texts, and none in any other.

    Attributes:
        found: The risk of each text that has one.
        confidence: How sure it is of a text; certain of others.
        calmed: What the user said before, behind which it takes no text for a risk.
        asked: The texts that it was asked about.
    """

    def __init__(self, found: Mapping[str, tuple[Kind, Severity]] | None = None) -> None:
        self.found = dict(found or {})
        self.confidence: dict[str, float] = {}
        self.calmed = ""
        self.asked: list[str] = []

    def risk(self, text: str, before: str = "") -> tuple[Array, Array]:
        """Return the told risk; see `Reader`."""
        self.asked.append(text)
        kinds, severities = np.zeros(len(KINDS), np.float32), np.zeros(len(Severity), np.float32)
        if text in self.found and not (before and before == self.calmed):
            kind, severity = self.found[text]
            kinds[KINDS.index(kind)] = self.confidence.get(text, 1.0)
            severities[severity - 1] = 1
        return kinds, severities


def screening(reader: ToldReader | None = None) -> Screening:
    """Return a screening of what a reader is told."""
    return Screening(RiskScreen(reader or ToldReader()))
