"""Picks the solved examples of a question out of the exemplar store."""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.common.caches import LastUsed
from services.mllm.domain import Message, Shot
from services.mllm.reply.exemplars import SITUATIONS, Embedder, Exemplars

DUPLICATE_SIMILARITY_MIN = 0.95
"""From this cosine similarity on, an example says the same as an utterance of the dialogue in nearly the same words."""
CONTAINED_WORDS_MIN = 4
"""An utterance of fewer words ("I see.") may occur in an example by chance."""
UTTERANCES_KEPT = 512
"""Embeddings that are kept: a conversation sends its history again with every turn."""
UTTERANCES_KEEP_S = 60.0
"""And for how long after their last use."""


@dataclass(frozen=True)
class Example:
    """A solved example: the message, and what is recorded of it."""

    message: str
    shot: Shot


class Shots:
    """Picks examples by similarity; `count` of them, fewer where the store has no more that may be shown."""

    def __init__(self, exemplars: Exemplars, embedder: Embedder, count: int) -> None:
        self._exemplars, self._embedder, self._count = exemplars, embedder, count
        self._labels = tuple(label for label in exemplars.general if label not in SITUATIONS)
        self._normal = {pair.message: _normal(pair.message) for pair in exemplars.pairs}
        self._rows = {(pair.label, pair.message): row for row, pair in enumerate(exemplars.pairs)}
        self._ids: list[str] = []
        numbers: Counter[str] = Counter()
        for pair in exemplars.pairs:
            numbers[pair.label] += 1
            self._ids.append(f"{pair.label}/{numbers[pair.label]}")
        self._vectors: LastUsed[str, NDArray[np.float32]] = LastUsed(UTTERANCES_KEPT, keep_s=UTTERANCES_KEEP_S)

    def pick(self, message: Message) -> tuple[Example, ...]:
        """Returns the examples for a message, in the order in which they are shown.

        The nearest to the message's text are taken, or to what the user said last where there is none; with no word
        of the user there is nothing to be near to, and no example. `message.seed` decides between equally near ones,
        and the order: a model leans to the label of the example that stands last (Zhao et al. 2021, "Calibrate Before
        Use"), and the nearest one must not always profit from that.

        None is taken that occurs in the dialogue, word for word, or nearly so in words or meaning: the store has no
        marks of conversations, so this is how an example is never from the one that is judged.
        """
        said = [one.text for one in message.history if one.text.strip()]
        asked = [one.text for one in message.history if one.speaker == "user"] + [message.text]
        end = next((text for text in reversed(asked) if text.strip()), "")
        if not (self._count and end):
            return ()
        draw = random.Random(message.seed)
        near = self._exemplars.nearest(self._vector(end), self._labels)
        near.sort(key=lambda match: (-round(match.similarity, 4), draw.random()))
        dialogue = tuple(dict.fromkeys((*said, end)))
        normal = [_normal(text) for text in dialogue]
        vectors = np.stack([self._vector(text) for text in dialogue])
        picked: list[Example] = []
        for match in near:
            if len(picked) == self._count:
                break
            label, text = match.exemplar.label, match.exemplar.message
            row = self._rows[label, text]
            alike = float((vectors @ self._exemplars.vectors[row]).max())
            if alike < DUPLICATE_SIMILARITY_MIN and not _occurs(self._normal[text], normal):
                picked.append(Example(text, Shot(self._ids[row], label, match.similarity)))
        draw.shuffle(picked)
        return tuple(picked)

    def _vector(self, text: str) -> NDArray[np.float32]:
        def embed() -> NDArray[np.float32]:
            vector: NDArray[np.float32] = self._embedder.embed([text])[0]
            return vector

        return self._vectors.get(text, embed)


def _occurs(example: str, said: Sequence[str]) -> bool:
    for utterance in said:
        is_long = len(utterance.split()) >= CONTAINED_WORDS_MIN
        if example in utterance or (is_long and utterance in example):
            return True
    return False


def _normal(text: str) -> str:
    """The words of `text` without case, punctuation and kinds of space, with a space around each."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("\u2019", ""))
    return f" {' '.join(words)} "
