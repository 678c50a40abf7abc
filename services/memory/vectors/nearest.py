"""The rows nearest to a query: first by the signs of the vectors, which is a rough angle, then by the exact one.

The share of signs that differ estimates the angle between two vectors (Charikar, "Similarity Estimation Techniques
from Rounding Algorithms", 2002). It picks candidates only; what is returned is ordered by the true cosine. A search
among no more rows than there are candidates is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from services.memory.vectors.block import Block, signs, trace, unit

CANDIDATES = 2048
"""So many rows at least are compared exactly; `python -m benchmarks.memory` prints what share that finds."""

CANDIDATES_PER_HIT = 64
"""Whoever wants many hits gets as many more candidates."""

_FAR = np.uint16(np.iinfo(np.uint16).max)


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    Attributes:
        hits_max: At most so many rows.
        similarity_min: Cosine of the farthest.
        conversation: Only of this conversation; empty: of any.
        labels: Only of these emotions; empty: of any.
        since_s: Said at this time or later, Unix time.
        until_s: Said at this time or earlier.
        without: Turns that are left out.
    """

    hits_max: int
    similarity_min: float = -1.0
    conversation: str = ""
    labels: frozenset[str] = frozenset()
    since_s: float = -inf
    until_s: float = inf
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Found:
    """A row that was found; `similarity` is the cosine of its vector and the query's."""

    turn: str
    similarity: float
    said_at_s: float
    conversation: str
    label: str


def nearest(
    blocks: Sequence[Block], query: NDArray[np.float32], wanted: Wanted, gone: frozenset[str]
) -> tuple[Found, ...]:
    """Returns the rows nearest to `query` (dimensions,), nearest first; each turn once, though blocks share rows.

    Args:
        blocks: Where to look.
        query: Of any length but zero.
        wanted: What is looked for.
        gone: Traces of turns that must not be found.
    """
    toward = unit(np.asarray(query, np.float32))
    bits = signs(toward[None])
    distances = [_distances(block, bits, wanted) for block in blocks]
    if not distances:
        return ()
    together = np.concatenate(distances)
    matching = int(np.count_nonzero(together != _FAR))
    count = max(CANDIDATES, CANDIDATES_PER_HIT * wanted.hits_max)
    while True:
        farthest = _farthest(together, count) if count < matching else _FAR - np.uint16(1)
        found = _compared(blocks, distances, farthest, toward)
        hits, enough = _first(found, wanted, gone)
        if enough or count >= matching:
            return hits
        count *= 4  # Doubles and turns left out took the places.


def _distances(block: Block, bits: NDArray[np.uint64], wanted: Wanted) -> NDArray[np.uint16]:
    """Returns how many signs of each row differ, `_FAR` for a row that is not wanted."""
    distances = np.zeros(len(block), np.uint16)
    for word, of_query in zip(block.bits, bits, strict=True):
        distances += np.bitwise_count(word ^ of_query)
    for unwanted in _unwanted(block, wanted):
        distances[unwanted] = _FAR
    return distances


def _unwanted(block: Block, wanted: Wanted) -> Iterator[NDArray[np.bool_]]:
    if wanted.conversation:
        yield ~block.conversations.among({wanted.conversation})
    if wanted.labels:
        yield ~block.labels.among(wanted.labels)
    if wanted.since_s > -inf:
        yield block.said_at_s < wanted.since_s
    if wanted.until_s < inf:
        yield block.said_at_s > wanted.until_s


def _farthest(distances: NDArray[np.uint16], count: int) -> np.uint16:
    """Returns the distance within which `count` rows are; which ones, then does not depend on their order."""
    within = np.cumsum(np.bincount(distances[distances != _FAR]))
    return np.uint16(np.searchsorted(within, count))


def _compared(
    blocks: Sequence[Block], distances: Sequence[NDArray[np.uint16]], farthest: np.uint16, toward: NDArray[np.float32]
) -> Iterator[Found]:
    """Yields the candidates, nearest first."""
    near = [np.flatnonzero(of_block <= farthest) for of_block in distances]
    similarities = np.concatenate(
        [block.vectors[rows].astype(np.float32) @ toward for block, rows in zip(blocks, near, strict=True)]
    )
    places = [(block, row) for block, rows in zip(blocks, near, strict=True) for row in rows.tolist()]
    for index in np.argsort(-similarities, kind="stable").tolist():
        block, row = places[index]
        yield Found(
            turn=block.turns[row],
            similarity=float(similarities[index]),
            said_at_s=float(block.said_at_s[row]),
            conversation=block.conversations.names[block.conversations.codes[row]],
            label=block.labels.names[block.labels.codes[row]],
        )


def _first(found: Iterator[Found], wanted: Wanted, gone: frozenset[str]) -> tuple[tuple[Found, ...], bool]:
    """Returns the hits, and whether candidates were enough for them."""
    hits: dict[str, Found] = {}
    for row in found:
        if len(hits) == wanted.hits_max or row.similarity < wanted.similarity_min:
            return tuple(hits.values()), True
        if row.turn not in wanted.without and row.turn not in hits and not (gone and trace(row.turn) in gone):
            hits[row.turn] = row
    return tuple(hits.values()), len(hits) == wanted.hits_max
