"""The stored replies: what is in `exemplars.toml`, and which of them lie nearest to a message."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from services.mllm.reply.small_talk import ABOUT_AVATAR, GREETING

SITUATIONS = (GREETING, ABOUT_AVATAR)
"""Groups that answer a kind of message, not an emotion."""
STORE = Path(__file__).parent.with_name("exemplars.toml")
VECTORS = STORE.with_suffix(".npz")

Rows = NDArray[np.float32]


class Embedder(Protocol):
    """Turns sentences into vectors."""

    def embed(self, texts: Sequence[str]) -> Rows:
        """Returns float32 (n, 384), each row of length 1."""


@dataclass(frozen=True)
class Exemplar:
    """A message and a good reply to it. `label` is the user's emotion."""

    label: str
    message: str
    reply: str


@dataclass(frozen=True)
class Match:
    """An exemplar with the cosine similarity of its message to the one that was asked about."""

    exemplar: Exemplar
    similarity: float


class Exemplars:
    """The store. `general` holds, by label, replies that fit whatever was said with that feeling.

    `vectors` is float32 (pairs, 384), the embeddings of the messages.

    Raises:
        ValueError: The shipped vectors are of another text than `exemplars.toml`.
    """

    def __init__(self) -> None:
        content = _read()
        self.version: str = content.pop("version")
        self.general = {label: tuple(group.get("general", ())) for label, group in content.items()}
        self.pairs = _pairs(content)
        self._all_replies = _replies(content)
        with np.load(VECTORS) as stored:
            if str(stored["digest"]) != _digest(content):
                raise ValueError(f"{VECTORS.name} is stale: run `python -m services.mllm.training.exemplar_vectors`")
            self.vectors: Rows = stored["messages"].astype(np.float32)

    def replies(self) -> Iterator[tuple[str, str]]:
        """Yields every stored reply to an emotion with its label."""
        yield from ((label, reply) for label, reply in self._all_replies if label not in SITUATIONS)

    def nearest(self, vector: Rows, labels: Sequence[str]) -> list[Match]:
        """Returns the exemplars of `labels`, the most similar message first. `vector`: float32 (384,), of length 1."""
        similarity = self.vectors @ vector
        rows = [row for row, pair in enumerate(self.pairs) if pair.label in labels]
        rows.sort(key=lambda row: -similarity[row])
        return [Match(self.pairs[row], float(similarity[row])) for row in rows]


def embed_store(embedder: Embedder) -> int:
    """Embeds the store's messages and writes them beside it; returns the number of pairs."""
    content = _read()
    content.pop("version")
    pairs = _pairs(content)
    messages = embedder.embed([pair.message for pair in pairs]).astype(np.float16)
    np.savez_compressed(VECTORS, digest=_digest(content), messages=messages)
    return len(pairs)


def _read() -> dict[str, Any]:
    return tomllib.loads(STORE.read_text("utf-8"))


def _pairs(content: dict[str, Any]) -> tuple[Exemplar, ...]:
    return tuple(
        Exemplar(label, message, reply) for label, group in content.items() for message, reply in group.get("pairs", ())
    )


def _replies(content: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (label, reply)
        for label, group in content.items()
        for reply in (*(reply for _, reply in group.get("pairs", ())), *group.get("general", ()))
    )


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
