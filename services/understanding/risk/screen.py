"""Risk screen: finds a risk in a text, by words and by a reader."""

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.understanding.risk.domain import SURE, Kind, Risk, Severity, Source
from services.understanding.risk.words import RiskWords
from services.understanding.spelling import readable

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
SENTENCE_WORDS_MIN = 3
CRY = 0.7
"""Confidence in a cry for help that says nothing else, and in words of danger that the readers doubt
(`words.DOUBTFUL`): it is asked about, and the reply says whom to call."""
SENTENCE_TRUST = 0.75
"""Of a sentence without words of a risk, torn from a message that as a whole reads harmless: it is asked about."""

LIFELESS = re.compile(
    r"\b(?:won'?t|will not|can'?t|cannot|doesn'?t|isn'?t|not) (?:wak(?:e|ing)|breath(?:e|ing))\b"
    r"|\bstopped breathing\b|\bunconscious\b|\bturn(?:ing|ed|s) blue\b|\bchok(?:ing|es) on\b"
    r"|\b(?:drank|drunk|swallowed|ate)\b[^.!?]*\b(?:bleach|antifreeze|poison|detergent|drain cleaner|weed ?killer)\b",
    re.IGNORECASE,
)
"""Of a risk, whatever its kind: somebody's life hangs on the next minutes."""
LIFELESS_BAR = 0.3
"""Probability of any risk from which such words are believed."""

KIND_SHARE, KIND_DOUBT = 0.5, 0.79
"""Share of the likeliest kind below which it is no ground for advice (it was right for 28 of 67 such messages, on which
bars were set too), and the confidence that is told then, below `SURE`: as urgent as it is, it is asked about."""

Array = NDArray[np.float32]
KINDS = tuple(Kind)


class Reader(Protocol):
    """Reads how likely a text speaks of each kind of risk, behind what the user said before."""

    def risk(self, text: str, before: str = "") -> tuple[Array, Array]:
        """Return the probability of each of `KINDS`, float32 (6,), and of each severity, float32 (3,)."""


@dataclass(frozen=True)
class Bars:
    """Probabilities of any risk from which a text is taken to speak of one, set on messages that were not trained on.

    Attributes:
        alone: Of a text without words of a risk.
        with_words: Of a text with words of one.
        watched: In a conversation that raised one.
        sentence: Of one sentence of several, read by itself.
    """

    alone: float = 0.65
    with_words: float = 0.5
    watched: float = 0.4
    sentence: float = 0.95


class RiskScreen:
    """Finds risks.

    Args:
        reader: The reader.
        bars: Its bars.
    """

    def __init__(self, reader: Reader, bars: Bars = Bars()) -> None:
        self._reader, self._bars, self._words = reader, bars, RiskWords()

    def find(self, text: str, is_watched: bool = False, before: str = "") -> Risk | None:
        """Return the risk that a text speaks of, None for none. Blocks for some 20 ms, of a long text for more.

        `is_watched` tells that the conversation raised a risk that has not faded: then less is enough. `before` is what
        the user said before.
        """
        if not text.strip():
            return None
        said = self._words.find(readable(text))
        if said.other:
            return Risk(said.other[0], Severity.HIGH, 1.0, Source.WORDS)
        if said.must_flee:
            return Risk(Kind.MEDICAL, Severity.HIGH, 1.0, Source.CLASSIFIER)
        if said.cries_for_help:
            return Risk(Kind.MEDICAL, Severity.LOW, CRY, Source.CLASSIFIER)
        bar = self._bars.watched if is_watched else self._bars.with_words if said.english else self._bars.alone
        found = self._read(text, before, bar)
        if said.doubtful and not (found and found.is_sure):
            kind, severity = said.doubtful
            found = Risk(kind, severity, CRY, Source.CLASSIFIER)
        sentences = [each for each in SENTENCE_END.split(text) if len(each.split()) >= SENTENCE_WORDS_MIN]
        if (found and found.is_sure) or len(sentences) < 2:
            return found
        # One sentence of danger in a long everyday message would be lost in its mean.
        trust = 1.0 if said.english else SENTENCE_TRUST
        torn = (self._read(each, before, self._bars.sentence, trust) for each in sentences)
        return max(filter(None, (found, *torn)), key=lambda risk: (risk.is_sure, risk.severity), default=None)

    def _read(self, text: str, before: str, bar: float, trust: float = 1.0) -> Risk | None:
        kinds, severities = self._reader.risk(text, before)
        confidence = float(kinds.sum())
        is_lifeless = bool(LIFELESS.search(text.replace("\u2019", "'")))
        if confidence < (min(bar, LIFELESS_BAR) if is_lifeless else bar):
            return None
        confidence *= trust
        if is_lifeless:
            return Risk(Kind.MEDICAL, Severity.HIGH, max(confidence, SURE), Source.CLASSIFIER)
        kind, severity = KINDS[int(kinds.argmax())], Severity(int(severities.argmax()) + 1)
        if confidence < SURE:
            return Risk(kind, Severity.LOW, confidence, Source.CLASSIFIER)
        if kinds.max() < KIND_SHARE * kinds.sum():
            return Risk(kind, severity, KIND_DOUBT, Source.CLASSIFIER)
        return Risk(kind, severity, min(confidence, 1.0), Source.CLASSIFIER)
