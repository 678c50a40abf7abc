"""Which sentence embedding the memory finds turns by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from perception.text import SentenceReader
from services.common.weights import digest_of


class Embedder(Protocol):
    """Gives texts their places in meaning space. One thread calls at a time.

    Attributes:
        model: What it is, for people.
        digest: SHA-256 (hex) of the weights. Vectors of one digest are comparable, others are not.
    """

    model: str
    digest: str

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns float32 (n, dimensions): a row of length 1 for each text, in the same order."""


class SentenceEmbedder:
    """MiniLM by `perception.text`: English, and of a long text the first 256 tokens.

    Args:
        models_dir: Folder that holds `minilm/model.onnx` and `minilm/tokenizer.json`.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
    """

    model = "all-MiniLM-L6-v2, 8-bit"

    def __init__(self, models_dir: Path) -> None:
        folder = models_dir / "minilm"
        self.digest = digest_of(folder / "model.onnx", folder / "tokenizer.json")
        self._reader = SentenceReader(models_dir)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the embeddings of `texts`; see the port."""
        return self._reader.embed(texts)
