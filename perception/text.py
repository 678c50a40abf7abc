"""Reads sentences: a point in meaning space for each, so that near points mean near things.

Model: all-MiniLM-L6-v2 (Wang et al., 2020, "MiniLM"; Reimers & Gurevych, 2019, "Sentence-BERT"), 8-bit ONNX.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

DIMENSIONS = 384
"""Length of an embedding."""

TOKENS_MAX = 256
"""Tokens of a text that are read, the two markers included; the model was trained with no more."""

BATCH = 16
"""Texts that run together; more costs memory and is not faster on one thread."""


class SentenceReader:
    """Turns sentences into unit vectors whose dot product is how alike they are in meaning.

    Args:
        models_dir: Folder that holds `minilm/model.onnx` and `minilm/tokenizer.json`.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
    """

    def __init__(self, models_dir: Path) -> None:
        model, tokenizer = models_dir / "minilm" / "model.onnx", models_dir / "minilm" / "tokenizer.json"
        for path in (model, tokenizer):
            if not path.is_file():
                raise FileNotFoundError(f"{path} is missing; `make models` puts it there")
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(TOKENS_MAX)
        # The file asks for padding to a fixed length; padding to the longest of a batch is many times cheaper.
        self._tokenizer.no_padding()
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._inputs = {given.name for given in self._session.get_inputs()}
        self.embed(["Reads once, so that the first caller does not wait."])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the embeddings of `texts`: float32 (n, `DIMENSIONS`), each row of length 1, in the same order.

        Rows do not depend on what else is in `texts`, up to rounding. An empty text has a row too, a meaningless one.
        """
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        # Texts of like length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            rows[batch] = self._embed_tokens([tokens[index] for index in batch])
        return rows

    def _embed_tokens(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        longest = max(len(ids) for ids in tokens)
        ids = np.zeros((len(tokens), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, sentence in enumerate(tokens):
            ids[row, : len(sentence)] = sentence
            mask[row, : len(sentence)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self._session.run(None, {name: feeds[name] for name in self._inputs})[0]
        weights = mask[:, :, None].astype(np.float32)
        mean = (states * weights).sum(axis=1) / weights.sum(axis=1)
        unit: NDArray[np.float32] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return unit.astype(np.float32)
