"""Reads what a message does and is about, by the text encoder with an adapter of its own."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.understanding.mpnet import Array, Encoder, softmax
from services.understanding.spelling import with_names
from services.understanding.topics.store import Act, Topic, Valence, learned

ADAPTER = Path(__file__).with_suffix(".npz")
VALENCES = tuple(Valence)
SHORT_WORDS_MAX = 8
"""A message this short is read together with what the user said before."""
JOINED_WEIGHT = np.float32(2 / 3)
"""Of the reading with what was said before: "She taught me the accordion" after a death is not about music."""
STANDS_ALONE = 0.6
"""Probability of an act other than telling from which a short message needs nothing before it."""


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        act: That of the topic.
        act_confidence: Its probability.
        topic: The likeliest.
        confidence: Its probability.
        valences: The probability of each of `VALENCES`, float32 (3,).
    """

    act: Act
    act_confidence: float
    topic: Topic
    confidence: float
    valences: Array


class TopicReader:
    """Reads topics.

    Args:
        models_dir: The model folder.
        topics: Of which the head was taught.
        adapter: The adapter and the head.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
        ValueError: The head was taught other topics.
    """

    def __init__(self, models_dir: Path, topics: Sequence[Topic], adapter: Path = ADAPTER) -> None:
        self._topics = learned(topics)
        with np.load(adapter) as trained:
            if str(trained["topics"]) != digest_of_names(topics):
                raise ValueError(f"{adapter.name} was taught other topics: train it anew with `training.topic_adapter`")
        self._encoder = Encoder(models_dir, adapter)
        self.digest = self._encoder.digest
        self._acts = np.array([list(Act).index(topic.act) for topic in self._topics])

    def read(self, text: str, before: str = "") -> Reading:
        """Return the reading of a text; `before` is what the user said last. Blocks for some 20 ms, or 40 if short.

        An act is as likely as its topics together, and read off the likeliest topic, as most topics are of telling. Of
        a long text, the window that is surest of its topic counts.
        """
        topics, valences = self._probabilities(text)
        telling = self._of_acts(topics)[list(Act).index(Act.TELLING)]
        if before and len(text.split()) <= SHORT_WORDS_MAX and telling > 1 - STANDS_ALONE:
            joined = self._probabilities(f"{before} {text}")
            topics, valences = (
                JOINED_WEIGHT * together + (1 - JOINED_WEIGHT) * alone
                for together, alone in zip(joined, (topics, valences), strict=True)
            )
        found = int(topics.argmax())
        topic = self._topics[found]
        act_confidence = float(self._of_acts(topics)[self._acts[found]])
        return Reading(topic.act, act_confidence, topic, float(topics[found]), valences)

    def _of_acts(self, topics: Array) -> Array:
        return np.bincount(self._acts, topics, len(Act)).astype(np.float32)

    def _probabilities(self, text: str) -> tuple[Array, Array]:
        count = len(self._topics)
        windows = [
            (softmax(logits[:count]), softmax(logits[count : count + len(VALENCES)]))
            for logits in self._encoder.read(with_names(text))
        ]
        return max(windows, key=lambda window: float(window[0].max()))


def digest_of_names(topics: Sequence[Topic]) -> str:
    """Return the digest of the names of all topics that a head is taught, SHA-256 (hex)."""
    return hashlib.sha256(json.dumps([topic.name for topic in learned(topics)]).encode()).hexdigest()
