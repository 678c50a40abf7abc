"""The sentence embedding, behind a bounded queue and a small cache."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray

from perception.text import SentenceReader
from services.common.inference import InferenceQueue
from services.common.weights import digest_of as digest_of_files
from services.memory.domain import digest_of

CACHED_MAX, AT_ONCE = 64, 16
"""Cached vectors: a text is searched by first, kept a moment later. Texts embedded before another caller's turn."""

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """A sentence embedding. One thread calls at a time.

    Attributes:
        model: Its name, for people.
        digest: SHA-256 (hex) of its weights. Vectors of one digest are comparable, others are not.
    """

    model: str
    digest: str

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 (n, dimensions): a row of length 1 for each text."""


class SentenceEmbedder:
    """MiniLM by `perception.text`: English, the first 256 tokens of a text."""

    model = "all-MiniLM-L6-v2, 8-bit"

    def __init__(self, models_dir: Path) -> None:
        folder = models_dir / "minilm"
        self.digest = digest_of_files(folder / "model.onnx", folder / "tokenizer.json")
        self._reader = SentenceReader(models_dir)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the embeddings; see the port."""
        return self._reader.embed(texts)


class Embedding:
    """Embeds texts for coroutines; vectors are cached for `keep_s` seconds."""

    def __init__(self, embedder: Embedder, queue: InferenceQueue, keep_s: float) -> None:
        self.model, self.digest = embedder.model, embedder.digest
        self._embedder, self._queue = embedder, queue
        # By the SHA-256 of the text: the vectors are needed again, the words are not.
        self.cache: TTLCache[str, Vectors | None] = TTLCache(CACHED_MAX, keep_s)

    async def of(self, text: str) -> Vectors | None:
        """Return the vector of a text, (dimensions,); None for one without words."""
        return (await self.of_all([text]))[0]

    async def of_all(self, texts: Sequence[str]) -> list[Vectors | None]:
        """Return the vector of each text; None for one without words, or whose vector has no direction."""
        names = [digest_of(text.encode()) for text in texts]
        found = {name: self.cache[name] for name in names if name in self.cache}
        missing = [(name, text) for name, text in zip(names, texts, strict=True) if name not in found]
        for start in range(0, len(missing), AT_ONCE):
            worded = [each for each in missing[start : start + AT_ONCE] if any(letter.isalnum() for letter in each[1])]
            embed = partial(self._embedder.embed, [text for _, text in worded])
            rows: Any = await self._queue.run(embed) if worded else []
            found |= {name: _unit(row) for (name, _), row in zip(worded, rows, strict=True)}
        self.cache.update({name: found.get(name) for name in names[-CACHED_MAX:]})
        return [found.get(name) for name in names]


def _unit(vector: Vectors) -> Vectors | None:
    length = float(np.linalg.norm(vector))
    return (vector / length).astype(np.float32) if np.isfinite(length) and length > 0 else None
