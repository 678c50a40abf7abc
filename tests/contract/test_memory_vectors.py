"""Vectors of turns over the real stores."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.memory.backends.filesystem import FilesystemBackend
from services.memory.store import Store, content_of
from services.memory.vectors.block import Row
from services.memory.vectors.nearest import Wanted
from tests.vector_rows import FOLDER, bytes_of, query, replica, row, turns


@pytest.fixture(params=["filesystem", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each of them, empty."""
    if request.param == "filesystem":
        return FilesystemBackend(tmp_path)
    s3_store: Store = request.getfixturevalue("s3_store")
    return s3_store


def test_no_search_misses_a_row_while_others_merge(store: Store) -> None:
    added: list[Row] = []
    done = threading.Event()

    def add() -> None:
        vectors = replica(store)
        for number in range(40):
            vectors.add(FOLDER, [row(number)])
            added.append(row(number))
        done.set()

    def compact() -> None:
        vectors = replica(store)
        while not done.is_set():
            vectors.compact(FOLDER)

    def search() -> None:
        vectors = replica(store)
        while not done.is_set():
            before = {one.turn for one in tuple(added)}
            assert before <= {hit.turn for hit in vectors.search(FOLDER, query(1), Wanted(100))}

    with ThreadPoolExecutor() as pool:
        for ended in [pool.submit(act) for act in (compact, compact, search, add)]:
            ended.result()
    assert turns(store) == sorted(row(number).turn for number in range(40))
    contents = [content_of(store.get(entry.key)) or b"" for entry in store.list(FOLDER)]
    assert all(any(bytes_of(one) in content for content in contents) for one in added)


def test_an_erased_turn_is_in_no_object_of_the_store(store: Store) -> None:
    vectors = replica(store)
    vectors.add(FOLDER, [row(number) for number in range(100)])
    vectors.add(FOLDER, [row(number) for number in range(100, 110)])
    vectors.compact(FOLDER)
    assert vectors.erase(FOLDER, {row(5).turn, row(105).turn}) == 2
    contents = [content_of(store.get(entry.key)) or b"" for entry in store.list("")]
    left = [n for n in range(110) if any(bytes_of(row(n)) in content for content in contents)]
    assert left == [n for n in range(110) if n not in {5, 105}]
