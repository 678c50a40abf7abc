"""Reads what a message does, is about and sounds like, by the text encoder with an adapter of its own."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perception.mpnet import MODEL, Array, Encoder, joined, softmax
from services.common.weights import digest_of
from services.understanding.spelling import with_names
from services.understanding.topics.store import Act, Tone, Topic, Valence, learned

ADAPTER = Path(__file__).with_suffix(".npz")
VALENCES, ACTS = tuple(Valence), tuple(Act)
QUESTION, IRONY = "question", "irony"
"""Tones: of what asks, and of what means the opposite."""
IRONY_MARK = re.compile(r"\s*(?:(?<!\S)/s(?:arcasm)?|#sarcasm|#irony|\u2e2e)\s*$", re.IGNORECASE)
"""At the end of a message, says that it is meant as irony, whatever it reads like."""


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        act: That of the topic; without one asking a fact or telling, by the tone.
        act_confidence: Its probability.
        topic: The likeliest; None where none of them is.
        confidence: Its probability.
        tone: The likeliest.
        tone_confidence: Its probability.
        valences: The probability of each of `VALENCES`, float32 (3,): that of its tones together.
    """

    act: Act
    act_confidence: float
    topic: Topic | None
    confidence: float
    tone: Tone
    tone_confidence: float
    valences: Array


class TopicReader:
    """Reads topics and tones.

    Args:
        models_dir: The model folder.
        topics: Of which the head was taught.
        tones: The same.
        adapter: The adapter and the head.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
        ValueError: The head was taught others.
    """

    def __init__(
        self, models_dir: Path, topics: Sequence[Topic], tones: Sequence[Tone], adapter: Path = ADAPTER
    ) -> None:
        self._topics, self._tones = topics, learned(tones)
        with np.load(adapter) as trained:
            if str(trained["names"]) != digest_of_names(topics, tones):
                raise ValueError(f"{adapter.name} was taught other topics: train it anew with `training.topic_adapter`")
        self._encoder = Encoder(models_dir, adapter)
        self.digest = digest_of(models_dir / MODEL, adapter)
        self._irony = [tone.name for tone in self._tones].index(IRONY)
        self._acts = np.array([ACTS.index(topic.act) for topic in topics] + [ACTS.index(Act.TELLING)])
        self._valences = np.array([VALENCES.index(tone.valence) for tone in self._tones])

    def read(self, text: str, before: str = "") -> Reading:
        """Return the reading of a text; `before` is what the user said last. Blocks for some 20 ms.

        An act is as likely as its topics together; telling has those of no topic, too. The topic is the likeliest of
        the act. A message that is marked as irony is taken for it. Of a long text, the window that is surest of its
        tone counts.
        """
        plain = IRONY_MARK.sub("", text)
        topics, tones = self._probabilities(joined(plain, before))
        if plain != text:
            topics, tones = _only(len(topics) - 1, len(topics)), _only(self._irony, len(tones))
        tone = int(tones.argmax())
        valences = np.bincount(self._valences, tones, len(VALENCES)).astype(np.float32)
        acts = np.bincount(self._acts, topics, len(ACTS))
        act = int(acts.argmax())
        found = int(np.where(self._acts == act, topics, 0).argmax())
        topic = self._topics[found] if found < len(self._topics) else None
        does = Act.FACT if topic is None and self._tones[tone].name == QUESTION else ACTS[act]
        return Reading(
            does, float(acts[act]), topic, float(topics[found]), self._tones[tone], float(tones[tone]), valences
        )

    def _probabilities(self, text: str) -> tuple[Array, Array]:
        """Return the probability of each topic, the last that it is none of them, and of each tone."""
        end = len(self._topics) + 1
        windows = [
            (softmax(logits[:end]), softmax(logits[end : end + len(self._tones)]))
            for logits in self._encoder.read(with_names(text))
        ]
        return max(windows, key=lambda window: float(window[1].max()))


def digest_of_names(topics: Sequence[Topic], tones: Sequence[Tone]) -> str:
    """Return the digest of the names of all topics and tones that a head is taught, SHA-256 (hex)."""
    names = [[topic.name for topic in topics], [tone.name for tone in learned(tones)]]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _only(place: int, count: int) -> Array:
    """Return the probabilities of one that is certain, float32 (count,)."""
    result = np.zeros(count, np.float32)
    result[place] = 1
    return result
