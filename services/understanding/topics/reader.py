"""Reads what a message does, is about and sounds like, by the text encoder with an adapter of its own."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perception.mpnet import MODEL, Array, Encoder, joined, sigmoid, softmax
from services.common.weights import digest_of
from services.understanding.spelling import with_names
from services.understanding.topics.store import Act, Tone, Topic

ADAPTER = Path(__file__).with_suffix(".npz")
ACTS = tuple(Act)
BEFORE = 2
"""Messages of the user that are read with the one that is answered."""
ACT_SURE, ACT_AGREES = 0.5, 0.15
"""Probability from which an act other than telling is believed, and that its tones must have together for it."""
BEST_WEIGHT = 0.2
"""Of the probability that no tone fits better, beside that it fits: of two that fit, the more particular is said."""
IRONY, DANGER = "irony", "danger"
"""Tones: of what means the opposite, and of what may be a danger."""
IRONY_MARK = re.compile(r"\s*(?:(?<!\S)/s(?:arcasm)?|#sarcasm|#irony|\u2e2e)\s*$", re.IGNORECASE)
"""At the end of a message, says that it is meant as irony, whatever it reads like."""


@dataclass(frozen=True)
class Heard:
    """A tone that a message may have.

    Attributes:
        tone: The tone.
        fit: Probability that its replies fit.
        best: Probability that none fits better.
    """

    tone: Tone
    fit: float
    best: float


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        act: That of the topic where it does more than tell, else that of the first tone.
        topic: The likeliest of the likeliest act; None where none of them is, or the tones deny the act.
        confidence: Its probability.
        heard: All tones, the best first.
    """

    act: Act
    topic: Topic | None
    confidence: float
    heard: tuple[Heard, ...]

    def fit(self, name: str) -> float:
        """Return the probability that the replies of a tone fit."""
        return next(each.fit for each in self.heard if each.tone.name == name)


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
        self._topics, self._tones = topics, tones
        with np.load(adapter) as trained:
            if str(trained["names"]) != digest_of_names(topics, tones):
                raise ValueError(f"{adapter.name} was taught other topics: train it anew with `training.topic_adapter`")
        self._encoder = Encoder(models_dir, adapter)
        self.digest = digest_of(models_dir / MODEL, adapter)
        names = [tone.name for tone in tones]
        self._irony, self._danger = names.index(IRONY), names.index(DANGER)

    def read(self, text: str, before: str = "") -> Reading:
        """Return the reading of a text; `before` is what the user said before it. Blocks for some 20 ms.

        A message that is marked as irony is taken for it. Of a long text, the window that is surest of its best tone
        counts.
        """
        plain = IRONY_MARK.sub("", text)
        if plain != text:
            certain = _only(self._irony, len(self._tones))
            return weighed(self._topics, self._tones, _only(len(self._topics), len(self._topics) + 1), certain, certain)
        surest = max(self._windows(joined(text, before)), key=lambda window: float(window[1].max()))
        return weighed(self._topics, self._tones, *surest)

    def danger(self, text: str, before: str = "") -> float:
        """Return the probability that a caring person would ask whether somebody is safe. Blocks for some 20 ms.

        Of a long text, the window that is surest of it counts.
        """
        plain = IRONY_MARK.sub("", text)
        return max(float(fit[self._danger]) for _, _, fit in self._windows(joined(plain, before)))

    def _windows(self, text: str) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the probability of each topic, the last that it is none, that each tone is best, and that it fits."""
        ends = np.cumsum([len(self._topics) + 1, len(self._tones), len(self._tones)])
        for logits in self._encoder.read(with_names(text)):
            topics, best, fit, _ = np.split(logits, ends)
            yield softmax(topics), softmax(best), sigmoid(fit)


def weighed(topics: Sequence[Topic], tones: Sequence[Tone], of_topics: Array, best: Array, fit: Array) -> Reading:
    """Return what probabilities of topics and tones amount to.

    Args:
        topics: All topics.
        tones: All tones.
        of_topics: Probability of each topic, the last that it is none of them, float32 (topics + 1,).
        best: Probability of each tone that none fits better, float32 (tones,).
        fit: That its replies fit, float32 (tones,).
    """
    told = [Heard(*each) for each in zip(tones, fit.tolist(), best.tolist(), strict=True)]
    heard = tuple(sorted(told, key=lambda each: each.fit + BEST_WEIGHT * each.best, reverse=True))
    acts = np.array([ACTS.index(topic.act) for topic in topics] + [ACTS.index(Act.TELLING)])
    likely = np.bincount(acts, of_topics, len(ACTS))
    agreed = np.bincount([ACTS.index(tone.act) for tone in tones], best, len(ACTS))
    agreed[ACTS.index(Act.ANSWER)] = agreed[ACTS.index(Act.TELLING)]  # To answer is to tell.
    act = int(likely.argmax())
    found = int(np.where(acts == act, of_topics, 0).argmax())
    is_telling = ACTS[act] is Act.TELLING
    if found == len(topics) or agreed[act] < ACT_AGREES or (likely[act] < ACT_SURE and not is_telling):
        return Reading(heard[0].tone.act, None, 0.0, heard)
    return Reading(heard[0].tone.act if is_telling else ACTS[act], topics[found], float(of_topics[found]), heard)


def digest_of_names(topics: Sequence[Topic], tones: Sequence[Tone]) -> str:
    """Return the digest of the names of all topics and tones that a head is taught, SHA-256 (hex)."""
    names = [[topic.name for topic in topics], [tone.name for tone in tones]]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _only(place: int, count: int) -> Array:
    """Return the probabilities of one that is certain, float32 (count,)."""
    result = np.zeros(count, np.float32)
    result[place] = 1
    return result
