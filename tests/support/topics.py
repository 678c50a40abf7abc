"""Topic reader that reads what it is told."""

from collections.abc import Mapping

import emotions
from services.understanding.topics import store
from services.understanding.topics.offers import Topics
from services.understanding.topics.reader import Heard, Reading

TOPICS = {topic.name: topic for topic in store.read()}
TONES = store.read_tones()
UNSURE = 0.05


def heard(*names: str, fit: float = 1.0) -> tuple[Heard, ...]:
    """Return all tones; those of `names` fit, the best first."""
    first = [tone for name in names for tone in TONES if tone.name == name]
    rest = [tone for tone in TONES if tone.name not in names]
    return (*(Heard(tone, fit, 1 / len(names)) for tone in first), *(Heard(tone, UNSURE, 0.0) for tone in rest))


class ToldTopics:
    """Reader that is certain of the topics of some texts, and takes any other for something told that it does not know.

    Attributes:
        found: The name of the topic of each text that has one.
        tones: The name of the tone of each text that has one, of which it is certain.
        asked: The texts that it was asked about, with what the user said before.
    """

    def __init__(self, found: Mapping[str, str] | None = None) -> None:
        self.found = dict(found or {})
        self.tones: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []

    def read(self, text: str, before: str = "") -> Reading:
        """Return the told reading; see `Reader`."""
        self.asked.append((text, before))
        topic = TOPICS[self.found[text]] if text in self.found else None
        tone = self.tones.get(text, topic.valence if topic else "any")
        act = topic.act if topic else store.Act.TELLING
        return Reading(act, topic, 1.0 if topic else 0.0, heard(tone))


def topics(reader: ToldTopics | None = None) -> Topics:
    """Return topics of what a reader is told."""
    return Topics(reader or ToldTopics(), emotions.load())
