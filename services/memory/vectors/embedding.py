"""Texts' places in meaning space, for any thread: the sentence embedding behind a lock, with a short memory."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.memory.records import digest_of
from services.memory.vectors.embedder import Embedder

KEPT_MAX = 64
"""So many vectors are remembered: what a turn is searched by is kept a moment later."""

AT_ONCE = 16
"""Of many texts so many are read before another caller has a turn."""


class Embedding:
    """Gives texts their places in meaning space. Any thread may call.

    Args:
        embedder: The model.
        clock: Monotonic, in seconds.
    """

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self.model = embedder.model
        self.digest = embedder.digest
        self._embedder = embedder
        self._clock = clock
        # By the SHA-256 of the text: the vectors are needed again, the words are not.
        self._kept: OrderedDict[str, tuple[float, NDArray[np.float32]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, text: str) -> NDArray[np.float32] | None:
        """Returns the vector of `text`, (dimensions,); None when there is nothing in it to find it by."""
        return self.of_all([text])[0]

    def of_all(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """Returns the vector of each text; None for one without words, or of which the vector has no direction."""
        found: list[NDArray[np.float32] | None] = []
        for start in range(0, len(texts), AT_ONCE):
            found += self._of_some(texts[start : start + AT_ONCE])
        return found

    def drop_idle(self, idle_s: float) -> None:
        """Forgets the vectors that nobody asked for in so many seconds."""
        with self._lock:
            before_s = self._clock() - idle_s
            for name in [name for name, (used_s, _) in self._kept.items() if used_s <= before_s]:
                del self._kept[name]

    def _of_some(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        names = [digest_of(text.encode()) if _has_words(text) else "" for text in texts]
        with self._lock:
            now_s = self._clock()
            known = {name: self._kept[name][1] for name in names if name in self._kept}
            new = {name: text for name, text in zip(names, texts, strict=True) if name and name not in known}
            if new:
                known.update(zip(new, self._embedder.embed(list(new.values())), strict=True))
            for name, vector in known.items():
                self._kept[name] = now_s, vector
                self._kept.move_to_end(name)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return [known[name] if name and _has_direction(known[name]) else None for name in names]


def _has_words(text: str) -> bool:
    return any(letter.isalnum() for letter in text)


def _has_direction(vector: NDArray[np.float32]) -> bool:
    return bool(np.all(np.isfinite(vector)) and np.any(vector))
