"""Chooses among the stored replies those that fit a reading, the best first."""

import re
from collections.abc import Sequence

from emotions import Label
from services.understanding.topics.reader import VALENCES, Reading
from services.understanding.topics.store import Act, Topic, Valence

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
SURE, ACT_SURE = 0.3, 0.5
"""Probability of a topic, and of an act other than telling, from which its replies are said; of messages that
were held out, 58 % were as sure, and of these 82 % right, 1.7 % of the opposite valence, the rest near."""
GOOD, BAD = 0.3, -0.2
"""Valence of a label that feels good, or bad (`emotions.Label.valence`)."""
REFLECTIONS = {valence: f"reflect_{valence}" for valence in Valence}


class StoredReplies:
    """The replies of all topics."""

    def __init__(self, topics: Sequence[Topic]) -> None:
        self._topics = {topic.name: topic for topic in topics}

    def fitting(self, reading: Reading, said: Sequence[str], seed: int) -> list[str]:
        """Return replies that fit, the best first; none when the reading is not sure.

        Args:
            reading: Of the message.
            said: What the avatar said in this conversation; none of it is said again.
            seed: Decides among those that fit as well.
        """
        sure = reading.confidence >= SURE if reading.act is Act.TELLING else reading.act_confidence >= ACT_SURE
        return _fresh(reading.topic.replies, said, seed) if sure else []

    def reflecting(self, reading: Reading, felt: Label, said: Sequence[str], seed: int) -> list[str]:
        """Return replies that take up the feeling and ask, whatever was said: `felt` is what the panel decided on."""
        told = dict(zip(VALENCES, reading.valences, strict=True))
        voted = Valence.GOOD if felt.valence >= GOOD else Valence.BAD if felt.valence <= BAD else Valence.ANY
        told[voted] += 0.5
        likeliest = max(told, key=lambda valence: told[valence])
        return _fresh(self._topics[REFLECTIONS[likeliest]].replies, said, seed)


def _fresh(replies: Sequence[str], said: Sequence[str], seed: int) -> list[str]:
    """Return the replies of which nothing was said, then those of which the question was not, from one by `seed` on."""
    heard = {sentence for text in said for sentence in SENTENCE_END.split(text)}
    turn = seed % len(replies)
    ordered = [*replies[turn:], *replies[:turn]]
    new = [reply for reply in ordered if not heard.intersection(SENTENCE_END.split(reply))]
    asked = [reply for reply in ordered if reply not in new and SENTENCE_END.split(reply)[-1] not in heard]
    return [*new, *asked]
