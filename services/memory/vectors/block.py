"""Rows of vectors as one object: what it holds, as bytes and back. The same rows are the same bytes."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """What is kept of a turn so that it can be found.

    Attributes:
        turn: Where the turn is; no two turns of a folder share it, and it is not given again after an erasure.
        said_at_s: When it was said, Unix time.
        conversation: Its conversation.
        label: Its emotion.
        vector: Its place in meaning space, (dimensions,); of any length but zero.
    """

    turn: str
    said_at_s: float
    conversation: str
    label: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Names:
    """A column of few different names: row `i` has `names[codes[i]]`."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, column: Sequence[str]) -> Self:
        """Returns the column with these names."""
        names = sorted(set(column))
        code = {name: index for index, name in enumerate(names)}
        return cls(tuple(names), np.array([code[name] for name in column], np.int32))

    def column(self) -> list[str]:
        """Returns the name of each row."""
        return [self.names[code] for code in self.codes.tolist()]

    def among(self, wanted: Collection[str]) -> NDArray[np.bool_]:
        """Returns of each row whether its name is wanted."""
        return np.array([name in wanted for name in self.names], np.bool_)[self.codes]


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of which each turn has one, ascending by turn.

    Attributes:
        turns: (n,).
        said_at_s: float64 (n,).
        conversations: n names.
        labels: n names.
        vectors: float16 (n, dimensions), each of length 1 up to rounding.
    """

    turns: tuple[str, ...]
    said_at_s: NDArray[np.float64]
    conversations: Names
    labels: Names
    vectors: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.turns)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Returns the block of `rows` (at least one).

        Raises:
            ValueError: A vector has no direction, or they are not of one size.
        """
        vectors = np.stack([np.asarray(row.vector, np.float32) for row in rows])
        return cls.merged(
            [
                cls(
                    tuple(row.turn for row in rows),
                    np.array([row.said_at_s for row in rows], np.float64),
                    Names.of([row.conversation for row in rows]),
                    Names.of([row.label for row in rows]),
                    unit(vectors).astype(np.float16),
                )
            ]
        )

    @classmethod
    def merged(cls, blocks: Sequence["Block"]) -> Self:
        """Returns one block of the rows of all. Of several rows of a turn the one that was said first stays."""
        turns = [turn for block in blocks for turn in block.turns]
        said_at_s = np.concatenate([block.said_at_s for block in blocks])
        order: dict[str, int] = {}
        for index in sorted(range(len(turns)), key=lambda index: (turns[index], said_at_s[index])):
            order.setdefault(turns[index], index)
        whole = cls(
            tuple(turns),
            said_at_s,
            Names.of([name for block in blocks for name in block.conversations.column()]),
            Names.of([name for block in blocks for name in block.labels.column()]),
            np.concatenate([block.vectors for block in blocks]),
        )
        return whole._take(list(order.values()))

    def rows(self) -> Iterator[Row]:
        """Yields the rows; their vectors are float16."""
        columns = (self.said_at_s.tolist(), self.conversations.column(), self.labels.column(), self.vectors)
        for turn, said_at_s, conversation, label, vector in zip(self.turns, *columns, strict=True):
            yield Row(turn, said_at_s, conversation, label, vector.astype(np.float32))

    def without(self, gone: Collection[str]) -> Self:
        """Returns the block without the rows of these turns."""
        return self._take([index for index, turn in enumerate(self.turns) if turn not in gone])

    def _take(self, indices: list[int]) -> Self:
        conversations, labels = self.conversations.column(), self.labels.column()
        return type(self)(
            tuple(self.turns[index] for index in indices),
            self.said_at_s[indices],
            Names.of([conversations[index] for index in indices]),
            Names.of([labels[index] for index in indices]),
            self.vectors[indices],
        )

    @cached_property
    def bits(self) -> NDArray[np.uint64]:
        """The signs of the vectors, one bit each: (words, n), so that a whole word of all rows lies together."""
        return signs(self.vectors)

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, about: a Python string of a turn takes 57 bytes beside its letters."""
        arrays = (self.vectors, self.bits, self.said_at_s, self.conversations.codes, self.labels.codes)
        return sum(array.nbytes for array in arrays) + sum(len(turn) + 57 for turn in self.turns)

    def encode(self) -> bytes:
        """Returns the block as bytes: a line of JSON, then the vectors, little-endian."""
        head = {
            "dimensions": self.vectors.shape[1],
            "turns": self.turns,
            "said_at_s": self.said_at_s.tolist(),
            "conversations": self.conversations.names,
            "conversation_of": self.conversations.codes.tolist(),
            "labels": self.labels.names,
            "label_of": self.labels.codes.tolist(),
        }
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + self.vectors.astype("<f2").tobytes()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Returns the block that `content` holds; it must be what `encode` gave."""
        line, _, body = content.partition(b"\n")
        head: dict[str, Any] = json.loads(line)
        return cls(
            tuple(head["turns"]),
            np.array(head["said_at_s"], np.float64),
            Names(tuple(head["conversations"]), np.array(head["conversation_of"], np.int32)),
            Names(tuple(head["labels"]), np.array(head["label_of"], np.int32)),
            np.frombuffer(body, "<f2").astype(np.float16, copy=False).reshape(-1, head["dimensions"]),
        )


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns vectors (n, dimensions) of the same directions and of length 1.

    Raises:
        ValueError: One has no direction.
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is zero or not finite, so it has no direction; give a sentence's embedding")
    scaled: NDArray[np.float32] = vectors / lengths
    return scaled


def signs(vectors: NDArray[np.floating[Any]]) -> NDArray[np.uint64]:
    """Returns one bit per number of `vectors` (n, dimensions): (words, n)."""
    packed = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def trace(turn: str) -> str:
    """Returns what an erasure keeps of a turn: by it the turn can be told, but not be read."""
    return hashlib.sha256(turn.encode()).hexdigest()[:32]


def traces(turns: Iterable[str]) -> frozenset[str]:
    """Returns the traces of turns."""
    return frozenset(map(trace, turns))
