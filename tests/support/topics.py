"""Topic reader that reads what it is told."""

from collections.abc import Mapping

import numpy as np

import emotions
from services.understanding.topics import store
from services.understanding.topics.offers import Topics
from services.understanding.topics.reader import VALENCES, Reading
from services.understanding.topics.replies import StoredReplies

TOPICS = {topic.name: topic for topic in store.read()}
TONES = store.read_tones()
UNSURE = 0.05


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
        valences = np.full(len(VALENCES), 1 / len(VALENCES), np.float32)
        topic = TOPICS[self.found.get(text, "mixed_general")]
        sure = 1.0 if text in self.found else UNSURE
        tone = next(tone for tone in TONES if tone.name == self.tones.get(text, TONES[0].name))
        return Reading(topic.act, sure, topic, sure, tone, 1.0 if text in self.tones else UNSURE, valences)


def topics(reader: ToldTopics | None = None) -> Topics:
    """Return topics of what a reader is told."""
    return Topics(reader or ToldTopics(), StoredReplies(TONES), emotions.load())
