"""Vectors of turns in a store: found, merged, erased, damaged."""

from dataclasses import replace

import numpy as np
import pytest

from services.common.errors import Damaged
from services.memory.vectors.block import Row, unit
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Wanted
from services.memory.vectors.tidying import ERASURE_KEPT_S
from tests.fake_store import FakeStore
from tests.vector_rows import DIMENSIONS, FOLDER, cosine, filled, holds, matches, query, replica, row, turns


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(5),
        Wanted(5, conversation="talk-1"),
        Wanted(5, labels=frozenset({"sad"})),
        Wanted(5, since_s=20, until_s=60),
        Wanted(5, without=frozenset(row(number).turn for number in range(0, 90, 2))),
        Wanted(100, conversation="talk-2", labels=frozenset({"happy"}), since_s=10),
        Wanted(5, conversation="unknown"),
    ],
)
def test_the_nearest_rows_that_match_are_found_nearest_first(wanted: Wanted) -> None:
    vectors = filled(FakeStore(), 90)
    vectors.compact(FOLDER)
    found = vectors.search(FOLDER, query(1), wanted)
    rows = sorted((one for one in map(row, range(90)) if matches(one, wanted)), key=lambda one: -cosine(one, query(1)))[
        : wanted.hits_max
    ]
    assert [hit.turn for hit in found] == [one.turn for one in rows]
    assert [hit.similarity for hit in found] == pytest.approx([cosine(one, query(1)) for one in rows], abs=2e-3)
    assert [(hit.said_at_s, hit.conversation, hit.label) for hit in found] == [
        (one.said_at_s, one.conversation, one.label) for one in rows
    ]


def test_rows_farther_than_the_caller_wants_are_left_out() -> None:
    vectors = filled(FakeStore(), 30)
    every = vectors.search(FOLDER, query(1), Wanted(30))
    near = vectors.search(FOLDER, query(1), Wanted(30, similarity_min=every[9].similarity))
    assert near == every[:10]


def test_nothing_is_found_in_another_folder() -> None:
    store = FakeStore()
    vectors = filled(store, 10)
    assert vectors.search("tenants/two/vectors/model/", query(1), Wanted(5)) == ()


def test_a_vector_without_direction_is_refused() -> None:
    vectors = replica(FakeStore())
    for bad in (np.zeros(DIMENSIONS, np.float32), np.full(DIMENSIONS, np.nan, np.float32)):
        with pytest.raises(ValueError, match="no direction"):
            vectors.add(FOLDER, [replace(row(1), vector=bad)])


def test_among_many_rows_nearly_all_of_the_nearest_are_found() -> None:
    random = np.random.default_rng(5)
    topics = random.normal(size=(50, 128))
    rows = (topics[random.integers(0, 50, 20_000)] * 0.7 + random.normal(size=(20_000, 128))).astype(np.float32)
    vectors = Vectors(FakeStore())
    vectors.add(FOLDER, [Row(str(number), 0.0, "talk", "sad", vector) for number, vector in enumerate(rows)])
    hit = 0
    for toward in rows[::1000] + random.normal(size=(20, 128)).astype(np.float32) * 0.1:
        exact = np.argsort(-(unit(rows) @ unit(toward)))[:8]
        found = vectors.search(FOLDER, toward, Wanted(8))
        hit += len({str(number) for number in exact} & {one.turn for one in found})
    assert hit >= 0.97 * 160


def test_doubles_and_turns_left_out_do_not_take_the_places_of_hits() -> None:
    store = FakeStore()
    vectors = Vectors(store)
    near = [replace(row(1), turn=f"near-{number}") for number in range(2500)]
    vectors.add(FOLDER, [*near, *map(row, range(10, 20))])
    vectors.add(FOLDER, near)
    wanted = Wanted(5, without=frozenset(one.turn for one in near[:-1]))
    found = vectors.search(FOLDER, row(1).vector, wanted)
    assert found[0].turn == "near-2499"
    assert len({hit.turn for hit in found}) == 5


def test_a_row_that_comes_twice_is_found_once_as_it_was_said_first() -> None:
    store = FakeStore()
    vectors = replica(store)
    vectors.add(FOLDER, [replace(row(1), said_at_s=7.0)])
    vectors.add(FOLDER, [replace(row(1), said_at_s=5.0)])
    assert [hit.said_at_s for hit in vectors.search(FOLDER, query(1), Wanted(5))] == [5.0]


def test_a_block_is_read_once_as_long_as_there_is_room() -> None:
    store = FakeStore()
    filled(store, 60).compact(FOLDER)
    reads: list[str] = []
    store.before = lambda operation, key: reads.append(key) if operation == "get" else None
    for room, again in ((2**20, False), (1, True)):
        vectors = replica(store, room)
        first = vectors.search(FOLDER, query(1), Wanted(5))
        reads.clear()
        assert vectors.search(FOLDER, query(1), Wanted(5)) == first
        assert bool(reads) is again


def test_a_folder_that_is_forgotten_is_read_again() -> None:
    store = FakeStore()
    vectors = filled(store, 60)
    vectors.compact(FOLDER)
    vectors.search(FOLDER, query(1), Wanted(5))
    reads: list[str] = []
    store.before = lambda operation, key: reads.append(key) if operation == "get" else None
    vectors.forget("tenants/one/")
    assert vectors.held_bytes == 0
    vectors.search(FOLDER, query(1), Wanted(5))
    assert reads


def test_when_the_folder_is_deleted_nothing_is_found_and_no_vector_is_left() -> None:
    store = FakeStore()
    vectors = filled(store, 30)
    vectors.compact(FOLDER)
    vectors.erase(FOLDER, {row(3).turn})
    assert holds(store, row(4))
    store.delete([entry.key for entry in store.list(FOLDER)])
    assert vectors.search(FOLDER, query(1), Wanted(5)) == ()
    assert vectors.compact(FOLDER) == 0
    assert vectors.erase(FOLDER, {row(4).turn}) == 0
    assert store.objects == {}


def test_merging_leaves_few_blocks_and_all_rows() -> None:
    store = FakeStore()
    filled(store, 90).compact(FOLDER)
    assert turns(store) == sorted(row(number).turn for number in range(90))
    assert len(store.objects) < 3 + 3 + 2


def test_compactors_of_the_same_rows_make_the_same_object() -> None:
    store = FakeStore()
    filled(store, 5)
    copy = FakeStore()
    copy.objects.update(store.objects)
    replica(store).compact(FOLDER)
    replica(copy).compact(FOLDER)
    assert store.objects == copy.objects


@pytest.mark.parametrize("which", ["0", "erased-"])
def test_a_damaged_object_is_named_and_not_served(which: str) -> None:
    store = FakeStore()
    vectors = filled(store, 10)
    vectors.compact(FOLDER)
    vectors.erase(FOLDER, {row(3).turn})
    key = next(key for key in store.objects if key.startswith(FOLDER + which))
    store.objects[key] = store.objects[key][:-1] + bytes([store.objects[key][-1] ^ 1])
    with pytest.raises(Damaged, match=key):
        replica(store).search(FOLDER, query(1), Wanted(5))


def test_an_object_that_is_no_block_is_named() -> None:
    store = FakeStore()
    vectors = filled(store, 2)
    store.put(FOLDER + "something", b"else")
    with pytest.raises(Damaged, match=FOLDER + "something"):
        vectors.search(FOLDER, query(1), Wanted(5))


def test_an_erased_turn_is_in_no_object_and_stays_away() -> None:
    store = FakeStore()
    vectors = filled(store, 90)
    vectors.compact(FOLDER)
    gone = {row(number).turn for number in (3, 50, 89)}
    assert vectors.erase(FOLDER, {*gone, "never-there"}) == 3
    assert [number for number in range(90) if not holds(store, row(number))] == [3, 50, 89]
    vectors.add(FOLDER, [row(50)])  # late
    assert turns(store) == sorted(row(number).turn for number in range(90) if number not in {3, 50, 89})
    vectors.compact(FOLDER)
    assert not holds(store, row(50))


def test_an_erasure_ends_when_nothing_can_undo_it_by_the_clock_of_the_store() -> None:
    now_s = [1000.0]
    store = FakeStore(lambda: now_s[0])
    vectors = filled(store, 10)
    vectors.erase(FOLDER, {row(3).turn})
    for later_s, left in ((ERASURE_KEPT_S - 1, 1), (ERASURE_KEPT_S + 1, 0)):
        now_s[0] = 1000.0 + later_s
        vectors.add(FOLDER, [row(20)])
        vectors.compact(FOLDER)
        assert sum("erased-" in key for key in store.objects) == left
    assert row(3).turn not in turns(store)
