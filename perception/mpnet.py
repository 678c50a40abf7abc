"""Text encoder: all-mpnet-base-v2 with an adapter and a head of ours, in eight bits.

MPNet (Song et al., 2020), fine-tuned as a sentence embedding (Reimers & Gurevych, 2019), with a LoRA (Hu et al., 2021)
and a linear head on the mean of its states; behind what was said before, of those of the message alone. The weights are
rounded to eight bits when they are loaded: a quarter of the memory, and four times as fast.
"""

import json
import mmap
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

GRAPH = Path(__file__).with_suffix(".onnx")
MODEL, TOKENIZER = Path("mpnet", "model.safetensors"), Path("mpnet", "tokenizer.json")
"""In the model folder."""
LAYERS = 12
WINDOW_TOKENS, STRIDE_TOKENS = 96, 64
"""A long text is read in windows that overlap: in a page of everyday talk one sentence of danger would be lost."""
SEPARATOR = "</s></s>"
"""Between two texts that are read as one, as MPNet was taught pairs."""
SIGNS = re.compile(r"</?s>|<(?:pad|mask|unk)>|\[UNK\]")
SEPARATOR_ID = 2
"""Of each of its two tokens."""
ALONE_WORDS_MIN = 30
"""A message this long is read without what the user said before it."""
BEFORE_WORDS_MAX = 40
BUCKETS, BUCKET_DISTANCE_MAX = 32, 128
"""Of MPNet's relative positions, as of T5's (Raffel et al., 2020)."""
POSITION_FIRST = 2
WEIGHT_MAX, BLOCK = 127, 32
"""Largest rounded weight, and inputs that share a scale (`services.understanding.training.mpnet_graph.BLOCK`)."""

Array = NDArray[np.float32]


class Encoder:
    """Reads what an adapter was trained to find in a text.

    Args:
        models_dir: The model folder.
        adapter: The adapter and the head.
        graph: In place of the one that ends in the states of the last layer.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
    """

    def __init__(self, models_dir: Path, adapter: Path, graph: bytes = b"") -> None:
        model, tokenizer = models_dir / MODEL, models_dir / TOKENIZER
        for path in (model, tokenizer):
            if not path.is_file():
                raise FileNotFoundError(f"{path} is missing; `make models` puts it there")
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        tensors = _tensors(model)
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = tensors["embeddings.position_embeddings.weight"][POSITION_FIRST:]
        self._distances = np.ascontiguousarray(tensors["encoder.relative_attention_bias.weight"].T)
        with np.load(adapter) as trained:
            weights = _weights(tensors, trained)
            self._head: Array = trained["head.weight"].astype(np.float32)
            self._bias: Array = trained["head.bias"].astype(np.float32)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        values = {name: ort.OrtValue.ortvalue_from_numpy(value) for name, value in weights.items()}
        options.add_external_initializers(list(values), list(values.values()))
        self._session = ort.InferenceSession(graph or str(GRAPH), options, providers=["CPUExecutionProvider"])
        self.run(self.ids("Reads once, so that the first caller does not wait."))

    def read(self, text: str) -> Array:
        """Return the head's logits of each window of a text, float32 (windows, outputs); most texts are one window."""
        return self.logits(self.means(text))

    def logits(self, means: Array) -> Array:
        """Return the head's logits of means, float32 (windows, outputs)."""
        result: Array = means @ self._head.T + self._bias
        return result

    def means(self, text: str) -> Array:
        """Return the mean of the message's states in each window of a text, float32 (windows, 768)."""
        ids = self.ids(text)
        inner, own = ids[1:-1], message_start(ids)
        starts = range(0, max(1, len(inner) - (WINDOW_TOKENS - STRIDE_TOKENS)), STRIDE_TOKENS)
        # A window that ends before the message has nothing of it.
        kept = [start for start in starts if own <= start + WINDOW_TOKENS]
        windows = [([ids[0], *inner[start : start + WINDOW_TOKENS], ids[-1]], max(own - start, 0)) for start in kept]
        return np.stack([self.run(window)[first:].mean(axis=0) for window, first in windows])

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text, its begin and end among them."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def run(self, ids: list[int]) -> Array:
        """Return the states of tokens, float32 (tokens, 768)."""
        feeds = {
            "embedded": np.ascontiguousarray(self._words[ids] + self._positions[: len(ids)]),
            "distance": self._distances[:, buckets(len(ids))],
        }
        states: Array = self._session.run(None, feeds)[0]
        return states


def plain(text: str) -> str:
    """Return a text without what the tokenizer would take for its own signs, which nobody may forge."""
    return SIGNS.sub(" ", text)


def joined(text: str, before: str) -> str:
    """Return a message behind what the user said before it, as the adapters are taught; a long one stands alone."""
    text, before = plain(text), plain(before)
    if not before or len(text.split()) >= ALONE_WORDS_MIN:
        return text
    return f"{' '.join(before.split()[-BEFORE_WORDS_MAX:])} {SEPARATOR} {text}"


def message_start(ids: list[int]) -> int:
    """Return the place of the first token of the message; 0 where nothing was said before it."""
    ends = (place for place in range(1, len(ids) - 2) if ids[place] == ids[place + 1] == SEPARATOR_ID)
    return next(ends, -2) + 2


def buckets(length: int) -> NDArray[np.int64]:
    """Return the bucket of the distance from each token to each, int64 (length, length)."""
    place = np.arange(length)
    away = place[:, None] - place[None, :]
    half = BUCKETS // 2
    exact = half // 2
    far = np.maximum(np.abs(away), 1) / exact
    large = exact + (np.log(far) / np.log(BUCKET_DISTANCE_MAX / exact) * (half - exact)).astype(np.int64)
    near: NDArray[np.int64] = np.where(np.abs(away) < exact, np.abs(away), np.minimum(large, half - 1))
    near += (away < 0) * half
    return near


def _tensors(path: Path) -> dict[str, Array]:
    """Return the float32 tensors of a safetensors file, mapped and not read."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            mapped, np.float32, int(np.prod(entry["shape"])), 8 + size + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if entry["dtype"] == "F32"
    }


def _weights(
    tensors: Mapping[str, Array], trained: Mapping[str, NDArray[np.float16]]
) -> dict[str, NDArray[np.generic]]:
    """Return the graph's weights: the model's with the adapter added, in eight bits."""
    weights: dict[str, NDArray[np.generic]] = {**_norm(tensors, "embeddings.LayerNorm", "embeddings")}
    for layer in range(LAYERS):
        of = f"encoder.layer.{layer}"
        parts = {part: f"{of}.attention.attn.{part}" for part in "qkvo"}
        parts |= {"up": f"{of}.intermediate.dense", "down": f"{of}.output.dense"}
        for part, name in parts.items():
            weight = tensors[f"{name}.weight"]
            if f"{layer}.{part}.a" in trained:
                down, up = (trained[f"{layer}.{part}.{side}"].astype(np.float32) for side in "ab")
                weight = weight + up @ down
            weights[f"{layer}.{part}.q"], weights[f"{layer}.{part}.scale"] = _rounded(weight)
            weights[f"{layer}.{part}.bias"] = tensors[f"{name}.bias"].copy()
        weights |= _norm(tensors, f"{of}.attention.LayerNorm", f"{layer}.attention")
        weights |= _norm(tensors, f"{of}.output.LayerNorm", f"{layer}.output")
    return weights


def _rounded(weight: Array) -> tuple[NDArray[np.uint8], Array]:
    """Return a weight (outputs, inputs) in eight bits around 128, by blocks, and the scale of each block."""
    blocks = weight.reshape(len(weight), -1, BLOCK)
    scale = np.maximum(np.abs(blocks).max(axis=2), 1e-12) / WEIGHT_MAX
    rounded = np.rint(blocks / scale[:, :, None]) + 128
    return rounded.astype(np.uint8), np.ascontiguousarray(scale.reshape(-1), np.float32)


def _norm(tensors: Mapping[str, Array], name: str, target: str) -> dict[str, Array]:
    return {f"{target}.{part}": tensors[f"{name}.{part}"].copy() for part in ("weight", "bias")}


def softmax(logits: Array) -> Array:
    """Return probabilities."""
    raised = np.exp(logits - logits.max())
    result: Array = raised / raised.sum()
    return result


def sigmoid(logits: Array) -> Array:
    """Return the probability of each."""
    result: Array = np.reciprocal(1 + np.exp(-logits))
    return result
