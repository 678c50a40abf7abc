"""Vectors of turns while many add, merge, erase and search at once, and are killed; against a dictionary."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from services.memory.store import Entry
from services.memory.vectors.block import Row
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Wanted
from services.memory.vectors.shelf import Shelf
from services.memory.vectors.tidying import MERGING_S_MAX, Tidying
from tests.fake_store import FakeStore
from tests.vector_rows import FOLDER, STEPS, bytes_of, cosine, filled, holds, matches, query, replica, row, turns


class Killed(BaseException):
    """What a process that is killed does next: nothing."""


def killed_at_each_step(full: FakeStore, act: Callable[[Vectors], object]) -> Iterator[FakeStore]:
    """Yields the store as a process leaves it that is killed before its first call, its second, and so on."""
    for step in range(10_000):
        store = FakeStore()
        store.objects.update(full.objects)
        calls = iter(range(step))

        def before(operation: str, key: str, calls: Iterator[int] = calls) -> None:
            if next(calls, None) is None:
                raise Killed

        store.before = before
        try:
            act(replica(store))
        except Killed:
            store.before = lambda operation, key: None
            yield store
        else:
            assert step > 0
            return


def test_a_merge_killed_at_any_step_loses_no_row_and_a_later_one_removes_its_doubles() -> None:
    full = FakeStore()
    vectors = filled(full, 6)
    for first in range(6, 70, 8):
        vectors.add(FOLDER, [row(number) for number in range(first, first + 8)])
    for store in killed_at_each_step(full, lambda vectors: vectors.compact(FOLDER)):
        assert turns(store) == sorted(row(number).turn for number in range(70))
        later = replica(store)
        later.add(FOLDER, [row(number) for number in range(70, 70 + STEPS[-1] - 1)])
        later.add(FOLDER, [row(200)])
        later.compact(FOLDER)
        assert turns(store) == sorted(row(number).turn for number in (*range(70 + STEPS[-1] - 1), 200))
        assert [sum(bytes_of(row(n)) in content for content in store.objects.values()) for n in range(70)] == [1] * 70


def test_an_erasure_killed_at_any_step_is_ended_by_the_next_merge_or_erasure() -> None:
    def act(vectors: Vectors) -> None:
        vectors.compact(FOLDER)
        vectors.erase(FOLDER, {row(5).turn})

    full = FakeStore()
    filled(full, 18)
    for store in killed_at_each_step(full, act):
        before = turns(store)
        assert set(before) >= {row(number).turn for number in range(18) if number != 5}
        begun = any("erased-" in key for key in store.objects)
        assert (row(5).turn in before) is not begun
        replica(store).compact(FOLDER)
        assert holds(store, row(5)) is not begun
        replica(store).erase(FOLDER, {row(5).turn})
        assert not holds(store, row(5))
        assert turns(store) == sorted(row(number).turn for number in range(18) if number != 5)


def test_a_merge_that_read_a_row_before_it_was_erased_does_not_bring_it_back() -> None:
    store = FakeStore()
    filled(store, 4)
    eraser = replica(store)

    def erase_first(operation: str, key: str) -> None:
        if operation == "put":  # The merge has read, and is about to write.
            store.before = lambda operation, key: None
            assert eraser.erase(FOLDER, {row(2).turn}) == 1

    store.before = erase_first
    replica(store).compact(FOLDER)
    assert not holds(store, row(2))
    assert turns(store) == sorted(row(number).turn for number in (0, 1, 3))


def test_merging_a_block_with_doubles_of_its_own_rows_keeps_it() -> None:
    store = FakeStore()
    vectors = replica(store)
    vectors.add(FOLDER, [row(1), row(2), row(3)])
    vectors.add(FOLDER, [row(1)])
    vectors.compact(FOLDER)
    assert turns(store) == sorted(row(number).turn for number in (1, 2, 3))
    assert len(store.objects) == 1


def test_a_merge_that_comes_second_leaves_what_the_first_made() -> None:
    store = FakeStore()
    filled(store, 4)

    def merge_first(operation: str, key: str) -> None:
        if operation == "get":
            store.before = lambda operation, key: None
            replica(store).compact(FOLDER)

    store.before = merge_first
    assert replica(store).compact(FOLDER) == 0
    assert turns(store) == sorted(row(number).turn for number in range(4))


def test_a_merge_that_took_too_long_is_not_written() -> None:
    store = FakeStore()
    filled(store, 4)
    before = dict(store.objects)
    slow = itertools.count(0, int(MERGING_S_MAX) + 1)
    assert Tidying(Shelf(store, 2**20), STEPS, lambda: next(slow)).compact(FOLDER) == 0
    assert store.objects == before


class TornStore(FakeStore):
    """A store in which things happen while a listing is made: what comes and what goes meanwhile is not in it."""

    during: Callable[[], object] | None = None

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        during, self.during = self.during, None
        entries = super().list(folder, limit, after)
        if during:
            during()
        return tuple(entry for entry in entries if entry.key in self.objects)


@pytest.mark.parametrize("searched_before", [False, True])
def test_rows_that_are_merged_while_a_listing_is_made_are_found(searched_before: bool) -> None:
    store = TornStore()
    filled(store, 3)
    searching = replica(store)
    if searched_before:
        searching.search(FOLDER, query(1), Wanted(10))
    filled(store, 4)
    store.during = lambda: replica(store).compact(FOLDER)
    assert len(searching.search(FOLDER, query(1), Wanted(10))) == 4


def test_blocks_that_others_replaced_are_held_no_longer() -> None:
    store = FakeStore()
    filled(store, 30)
    searching, other = replica(store), replica(store)
    searching.search(FOLDER, query(1), Wanted(5))
    other.compact(FOLDER)
    other.erase(FOLDER, {row(7).turn})
    searching.search(FOLDER, query(1), Wanted(5))
    fresh = replica(store)
    fresh.search(FOLDER, query(1), Wanted(5))
    assert searching.held_bytes == fresh.held_bytes > 0


def interleaved(store: FakeStore, actors: list[Callable[[], None]], random: Random) -> None:
    """Runs the actors one call to the store at a time, in an order that `random` draws."""
    gates = [threading.Semaphore(0) for _ in actors]
    back = threading.Semaphore(0)
    own = threading.local()

    def pause(operation: str, key: str) -> None:
        back.release()
        own.gate.acquire()

    def run(actor: Callable[[], None], gate: threading.Semaphore) -> None:
        own.gate = gate
        gate.acquire()
        try:
            actor()
        finally:
            running.remove(gate)
            back.release()

    running = list(gates)
    store.before = pause
    with ThreadPoolExecutor(len(actors)) as pool:
        ended = [pool.submit(run, actor, gate) for actor, gate in zip(actors, gates, strict=True)]
        while running:
            random.choice(running).release()
            back.acquire()
    store.before = lambda operation, key: None
    for one in ended:
        one.result()


class World:
    """What a search may and must find, in a dictionary."""

    def __init__(self) -> None:
        self.begun: dict[str, Row] = {}
        self.added: dict[str, Row] = {}
        self.erasing: set[str] = set()
        self.erased: set[str] = set()

    def add(self, vectors: Vectors, one: Row) -> None:
        self.begun[one.turn] = one
        vectors.add(FOLDER, [one])
        self.added[one.turn] = one

    def erase(self, vectors: Vectors, gone: set[str]) -> None:
        self.erasing |= gone
        vectors.erase(FOLDER, gone)
        self.erased |= gone

    def search(self, vectors: Vectors, toward: NDArray[np.float32], wanted: Wanted) -> None:
        added, erased = dict(self.added), set(self.erased)
        found = {hit.turn: hit.similarity for hit in vectors.search(FOLDER, toward, wanted)}
        may = {turn for turn, one in self.begun.items() if matches(one, wanted)} - erased
        assert found.keys() <= may
        farthest = min(found.values()) if len(found) == wanted.hits_max else -1.0
        must = {turn for turn, one in added.items() if matches(one, wanted) and cosine(one, toward) > farthest + 2e-3}
        assert must - self.erasing <= found.keys()


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_of_calls_searches_find_what_brute_force_finds(seed: int) -> None:
    random, store, world = Random(seed), FakeStore(), World()

    def add(first: int) -> None:
        vectors = replica(store)
        for number in range(first, first + 40):
            world.add(vectors, row(number))
            if random.random() < 0.1 and row(number).turn not in world.erasing:
                world.add(vectors, row(number))  # The answer to the first was lost.

    def compact() -> None:
        vectors = replica(store)
        for _ in range(12):
            vectors.compact(FOLDER)

    def erase() -> None:
        vectors = replica(store)
        for _ in range(6):
            there = sorted(world.added)
            world.erase(vectors, set(random.sample(there, min(len(there), 2))))

    def search() -> None:
        vectors = replica(store, random.choice((1, 2**20)))
        for number in range(25):
            wanted = random.choice(
                [Wanted(5), Wanted(100), Wanted(3, conversation="talk-1"), Wanted(4, since_s=20, until_s=60)]
            )
            world.search(vectors, query(number), wanted)

    interleaved(store, [lambda: add(0), lambda: add(40), compact, compact, erase, search, search], random)
    replica(store).compact(FOLDER)
    assert turns(store) == sorted(world.added.keys() - world.erased)
    assert [turn for turn in world.erased if holds(store, world.added[turn])] == []
