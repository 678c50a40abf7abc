"""Reader of tones that reads what it is told."""

import emotions
from services.understanding.reader import Heard, Reading
from services.understanding.tones import store
from services.understanding.tones.offers import Offers

TONES = {tone.name: tone for tone in store.read()}
UNSURE = 0.05


def reading(*names: str, fit: float = 1.0) -> Reading:
    """Return a reading by which the tones of `names` fit, the best first."""
    first = [Heard(TONES[name], fit, 1 / len(names)) for name in names]
    return Reading((*first, *(Heard(tone, UNSURE, 0.0) for name, tone in TONES.items() if name not in names)))


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
