"""Chooses among the stored replies those that fit a reading, the best first."""

import re
from collections.abc import Sequence
from zlib import crc32

from emotions import Label
from services.understanding.topics.reader import VALENCES, Reading
from services.understanding.topics.store import Act, Tone, Valence

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
SURE, ACT_SURE = 0.45, 0.5
"""Probability of a topic, and of an act other than telling, from which its replies are said."""
TONE_SURE = 0.35
"""Probability of a tone from which its replies are said."""
CLEAR = 0.5
"""Probability from which a valence is taken for that of the message; else the reply names no feeling."""
AGREES = 0.15
"""Probability of its valence below which a topic is not believed."""
GOOD, BAD = 0.3, -0.2
"""Valence of a label that feels good, or bad (`emotions.Label.valence`)."""


class StoredReplies:
    """The replies of all topics and tones."""

    def __init__(self, tones: Sequence[Tone]) -> None:
        self._tones = {tone.name: tone for tone in tones}

    def fitting(self, reading: Reading, text: str, said: Sequence[str], seed: int) -> list[str]:
        """Return replies to what the message is about or does, the best first; none when the reading is not sure.

        Args:
            reading: Of the message.
            text: The message; with `seed`, it decides among replies that fit as well.
            said: What the avatar said in this conversation; none of it is said again.
            seed: See `text`.
        """
        topic = reading.topic
        if topic is None:
            return []
        sure = reading.confidence >= SURE if topic.act is Act.TELLING else reading.act_confidence >= ACT_SURE
        doubted = topic.valence is not Valence.ANY and _share(reading, topic.valence) < AGREES
        return _fresh(topic.replies, text, said, seed) if sure and not doubted else []

    def reflecting(self, reading: Reading, felt: Label, text: str, said: Sequence[str], seed: int) -> list[str]:
        """Return replies that take up how a message sounds and ask, whatever it is about.

        Where no tone is sure, a good or a bad feeling is named only if `felt`, what the panel decided on, allows it.
        """
        tone = reading.tone
        if reading.tone_confidence < TONE_SURE:
            tone = self._tones[Valence.ANY]
            if _share(reading, Valence.BAD) >= CLEAR and felt.valence < GOOD:
                tone = self._tones[Valence.BAD]
            if _share(reading, Valence.GOOD) >= CLEAR and felt.valence > BAD:
                tone = self._tones[Valence.GOOD]
        fresh = _fresh(tone.replies, text, said, seed)
        return fresh or _fresh(self._tones[tone.valence].replies, text, said, seed)


def _share(reading: Reading, valence: Valence) -> float:
    return float(reading.valences[VALENCES.index(valence)])


def _fresh(replies: Sequence[str], text: str, said: Sequence[str], seed: int) -> list[str]:
    """Return the replies of which nothing was said, then those of which the question was not."""
    heard = {sentence for earlier in said for sentence in SENTENCE_END.split(earlier)}
    turn = (crc32(text.encode()) + seed) % len(replies)
    ordered = [*replies[turn:], *replies[:turn]]
    new = [reply for reply in ordered if not heard.intersection(SENTENCE_END.split(reply))]
    asked = [reply for reply in ordered if reply not in new and SENTENCE_END.split(reply)[-1] not in heard]
    return [*new, *asked]
