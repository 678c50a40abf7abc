"""Rows of vectors for tests, small enough that few of them go through all sizes of blocks."""

import numpy as np
from numpy.typing import NDArray

from services.memory.store import Store
from services.memory.vectors.block import Row, unit
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Wanted
from tests.fake_store import FakeStore

FOLDER = "tenants/one/vectors/model/"
STEPS = (4, 16, 64)
"""Small blocks, so that few rows go through all sizes."""
DIMENSIONS = 24


def row(number: int) -> Row:
    vector = np.random.default_rng(number).normal(size=DIMENSIONS).astype(np.float32)
    return Row(
        f"talk-{number % 3}/{number:04d}", float(number), f"talk-{number % 3}", ("sad", "happy")[number % 2], vector
    )


def query(number: int) -> NDArray[np.float32]:
    return np.random.default_rng(10_000 + number).normal(size=DIMENSIONS).astype(np.float32)


def replica(store: Store, bytes_max: int = 2**20) -> Vectors:
    return Vectors(store, bytes_max, STEPS)


def filled(store: Store, count: int) -> Vectors:
    """A replica that has added so many rows, one by one."""
    vectors = replica(store)
    for number in range(count):
        vectors.add(FOLDER, [row(number)])
    return vectors


def matches(one: Row, wanted: Wanted) -> bool:
    return (
        wanted.conversation in ("", one.conversation)
        and (not wanted.labels or one.label in wanted.labels)
        and wanted.since_s <= one.said_at_s <= wanted.until_s
        and one.turn not in wanted.without
    )


def cosine(one: Row, toward: NDArray[np.float32]) -> float:
    return float(unit(one.vector) @ unit(toward))


def turns(store: Store) -> list[str]:
    """All turns that a new replica finds."""
    return sorted(found.turn for found in replica(store).search(FOLDER, query(0), Wanted(10_000)))


def bytes_of(one: Row) -> bytes:
    return unit(one.vector).astype("<f2").tobytes()


def holds(store: FakeStore, one: Row) -> bool:
    return any(bytes_of(one) in content for content in store.objects.values())
