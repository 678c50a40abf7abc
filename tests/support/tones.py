"""Readers of messages: the real one, and one that reads what it is told."""

from collections import defaultdict
from pathlib import Path

import emotions
from services.understanding.reader import Heard, MessageReader, Reading
from services.understanding.risk.care import Care
from services.understanding.risk.lines import HelpLines
from services.understanding.tones import store
from services.understanding.tones.fits import Fit
from services.understanding.tones.offers import Offers

TONES = {tone.name: tone for tone in store.read()}
UNSURE, STEP = 0.05, 0.001
ALIKE: defaultdict[str, Fit] = defaultdict(lambda: Fit(0.5, 0.0))
"""Fits by which every reply fits alike."""


def real_reader() -> MessageReader:
    """Return the reader of the panel."""
    tones = store.read()
    return MessageReader(Path(".models"), tones, [*store.replies(tones), *Care(HelpLines()).texts()])


def reading(*names: str, fit: float = 1.0) -> Reading:
    """Return a reading by which the tones of `names` fit and their replies do, the best first."""
    first = [Heard(TONES[name], fit, 1 / len(names)) for name in names]
    others = [tone for name, tone in TONES.items() if name not in names]
    fits = dict.fromkeys([*store.replies(others), *Care(HelpLines()).texts()], Fit(UNSURE, 0.0))
    told = [reply for name in names for reply in TONES[name].replies]
    fits |= {reply: Fit(fit - place * STEP, 0.0) for place, reply in enumerate(told)}
    return Reading((*first, *(Heard(tone, UNSURE, 0.0) for tone in others)), fits)


class ToldTones:
    """Reader that is certain of the tones of some texts, and takes any other for something told without much feeling.

    Attributes:
        tones: The name of the tone of each text that has one.
        asked: The texts that it was asked about, with what the user said before.
    """

    def __init__(self) -> None:
        self.tones: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []

    def read(self, text: str, before: str = "") -> Reading:
        """Return the told reading; see `Reader`."""
        self.asked.append((text, before))
        return reading(self.tones.get(text, "any"))


def offers(reader: ToldTones | None = None) -> Offers:
    """Return offers by what a reader is told."""
    return Offers(reader or ToldTones(), emotions.load())
