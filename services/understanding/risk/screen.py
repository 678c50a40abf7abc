"""Risk screen: finds a risk in a text, by words and by a classifier."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.understanding.risk.classifier import KINDS, severity_of
from services.understanding.risk.domain import Risk, Severity, Source
from services.understanding.risk.words import RiskWords

Array = NDArray[np.float32]


class Reader(Protocol):
    """Reads how likely a text speaks of each kind of risk."""

    def read(self, text: str) -> tuple[Array, Array]:
        """Return the probability of each of `KINDS`, float32 (6,), and of each severity, float32 (3,)."""


@dataclass(frozen=True)
class Bars:
    """Probabilities of any risk from which a text is taken to speak of one, set on an eighth of the messages, held out.

    Attributes:
        alone: Of a text without words of a risk.
        with_words: Of a text with words of one.
    """

    alone: float = 0.85
    with_words: float = 0.3


class RiskScreen:
    """Finds risks.

    Args:
        reader: The classifier.
        bars: Its bars.
    """

    def __init__(self, reader: Reader, bars: Bars = Bars()) -> None:
        self._reader, self._bars, self._words = reader, bars, RiskWords()

    def find(self, text: str) -> Risk | None:
        """Return the risk that a text speaks of, None for none. Blocks for some 10 ms, of a long text for more."""
        if not text.strip():
            return None
        said = self._words.find(text)
        if said.other:
            return Risk(said.other[0], Severity.HIGH, 1.0, Source.WORDS)
        kinds, severities = self._reader.read(text)
        confidence = float(kinds.sum())
        if confidence < (self._bars.with_words if said.english else self._bars.alone):
            return None
        kind = KINDS[int(kinds.argmax())]
        return Risk(kind, severity_of(severities), min(confidence, 1.0), Source.CLASSIFIER)
