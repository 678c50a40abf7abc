"""Chooses among the stored replies those that fit a reading, the best first."""

import re
from collections.abc import Sequence
from zlib import crc32

from emotions import Label
from services.understanding.topics.reader import VALENCES, Reading
from services.understanding.topics.store import Act, Topic, Valence

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
SURE, ACT_SURE = 0.3, 0.35
"""Probability of a topic, and of an act other than telling, from which its replies are said; of messages that
were held out, 58 % were as sure, and of these 82 % right, 1.7 % of the opposite valence, the rest near."""
GOOD, BAD = 0.3, -0.2
"""Valence of a label that feels good, or bad (`emotions.Label.valence`)."""
CLEAR = 0.5
"""Probability from which a valence is taken for that of the message; else the reply reflects without naming it."""
REFLECTIONS = {valence: f"reflect_{valence}" for valence in Valence}
QUESTION = "reflect_question"


class StoredReplies:
    """The replies of all topics."""

    def __init__(self, topics: Sequence[Topic]) -> None:
        self._topics = {topic.name: topic for topic in topics}

    def fitting(self, reading: Reading, text: str, said: Sequence[str], seed: int) -> list[str]:
        """Return replies that fit, the best first; none when the reading is not sure.

        Args:
            reading: Of the message.
            text: The message; with `seed`, it decides among replies that fit as well.
            said: What the avatar said in this conversation; none of it is said again.
            seed: See `text`.
        """
        sure = reading.confidence >= SURE if reading.act is Act.TELLING else reading.act_confidence >= ACT_SURE
        return _fresh(reading.topic.replies, text, said, seed) if sure else []

    def reflecting(self, reading: Reading, felt: Label, text: str, said: Sequence[str], seed: int) -> list[str]:
        """Return replies that take up the feeling and ask, whatever was said.

        `felt` is what the panel decided on; a good or a bad feeling is named only if neither it nor the reader objects.
        A question is handed back: what is not known is not answered.
        """
        if text.rstrip().endswith("?"):
            return _fresh(self._topics[QUESTION].replies, text, said, seed)
        good, bad = (float(reading.valences[VALENCES.index(valence)]) for valence in (Valence.GOOD, Valence.BAD))
        valence = Valence.ANY
        if bad >= CLEAR and felt.valence < GOOD:
            valence = Valence.BAD
        if good >= CLEAR and felt.valence > BAD:
            valence = Valence.GOOD
        return _fresh(self._topics[REFLECTIONS[valence]].replies, text, said, seed)


def _fresh(replies: Sequence[str], text: str, said: Sequence[str], seed: int) -> list[str]:
    """Return the replies of which nothing was said, then those of which the question was not."""
    heard = {sentence for earlier in said for sentence in SENTENCE_END.split(earlier)}
    turn = (crc32(text.encode()) + seed) % len(replies)
    ordered = [*replies[turn:], *replies[:turn]]
    new = [reply for reply in ordered if not heard.intersection(SENTENCE_END.split(reply))]
    asked = [reply for reply in ordered if reply not in new and SENTENCE_END.split(reply)[-1] not in heard]
    return [*new, *asked]
