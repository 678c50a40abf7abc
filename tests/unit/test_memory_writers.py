"""Changes at the same time: one wins, the others are told, and no file is lost or left."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from services.common.errors import Conflict, NotFound
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Change
from services.memory.forgetting.erasing import Eraser
from services.memory.store import Store
from tests.avatars import ADA, BIG, HEAD, added, change, digest, film, kept, named, reader_of, registry, voice
from tests.fake_store import FakeStore
from tests.talking import TENANT, once


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return added(FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path))


@pytest.fixture
def fake() -> FakeStore:
    store = FakeStore()
    added(store)
    return store


def test_a_change_of_a_version_that_is_gone_is_refused_and_names_both(store: Store) -> None:
    change(store, BIG)
    before = store.list("")
    for if_version in (0, 1, 3):
        with pytest.raises(Conflict, match=f"'ada' is at version 2, not {if_version}; read it again"):
            change(store, replace(BIG, if_version=if_version))
    assert store.list("") == before


def test_of_many_who_change_a_version_at_once_one_wins_and_nothing_of_the_others_stays(store: Store) -> None:
    def attempt(number: int) -> bool:
        # All bring the same film, and each a voice of its own.
        try:
            change(store, Change(1, added=(film(), voice(str(number)))))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        won = list(threads.map(attempt, range(6)))
    assert won.count(True) == 1
    now, _ = reader_of(store)
    assert now.references[-1].digest == digest(voice(str(won.index(True))))
    assert kept(store, "/derived/") == named(now)


def test_writers_that_read_again_after_a_conflict_lose_no_change(store: Store) -> None:
    def add(number: int) -> None:
        while True:
            version = registry(store).identity(TENANT, "ada").version
            try:
                change(store, Change(version, added=(voice(str(number)),)))
            except Conflict:
                continue
            return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(8)))
    now, *earlier = reader_of(store)
    assert now.version == 9
    assert {reference.digest for reference in now.references[2:]} == {digest(voice(str(n))) for n in range(8)}
    assert [len(identity.references) for identity in earlier] == list(range(9, 1, -1))
    assert kept(store, "/derived/") == named(now)


@pytest.mark.parametrize(("operation", "part"), [("put", "/references/"), ("put", "/versions/"), ("replace", HEAD)])
def test_a_change_that_another_overtakes_takes_its_files_back_but_not_those_of_the_winner(
    fake: FakeStore, operation: str, part: str
) -> None:
    entered = once(fake, operation, part, lambda: change(fake, Change(1, added=(film(), voice("winner")))))
    with pytest.raises(Conflict):
        change(fake, Change(1, added=(voice("loser"), film())))
    assert entered
    now, _ = reader_of(fake)
    assert kept(fake, "/derived/") == named(now)


def test_a_loser_that_is_late_does_not_delete_what_a_third_one_brings_again(fake: FakeStore) -> None:
    def third() -> None:
        assert change(fake, Change(2, added=(film(),))).version == 3

    def winner() -> None:
        change(fake, Change(1, profile=BIG.profile))
        late.append(once(fake, "delete", digest(film()), third))

    late: list[list[str]] = []
    once(fake, "replace", HEAD, winner)
    with pytest.raises(Conflict, match="version 2"):
        change(fake, Change(1, added=(film(),)))
    assert late[0]
    assert len(reader_of(fake)) == 3
    assert registry(fake).reference(TENANT, "ada", digest(film())) == film().content


def test_a_remover_that_is_late_does_not_delete_a_file_that_has_come_again(fake: FakeStore) -> None:
    change(fake, Change(1, added=(film(),)))
    entered = once(fake, "delete", "/references/", lambda: change(fake, Change(3, added=(film(),))))
    change(fake, Change(2, removed=(digest(film()),)))
    assert entered
    now = reader_of(fake)[0]
    assert (now.version, now.references[-1].digest) == (4, digest(film()))
    assert kept(fake, "/derived/") == named(now)


def test_a_winner_that_tidies_up_leaves_what_the_next_one_is_bringing(fake: FakeStore) -> None:
    """The next one has put its file, but its head is not there yet."""
    once(fake, "replace", HEAD, lambda: change(fake, Change(1, profile=BIG.profile)))
    with pytest.raises(Conflict):
        change(fake, Change(1, added=(film(),)))
    waiting: list[str] = []

    def next_one_has_put() -> None:
        scope = registry(fake).found(TENANT, "ada").scope
        waiting.append(scope.reference(digest(film()), 4))
        fake.put(waiting[0], film().content)

    once(fake, "list", "/references/", next_one_has_put)
    assert change(fake, Change(2, profile=ADA.profile)).version == 3
    assert waiting[0] in fake.objects


@pytest.mark.parametrize(("operation", "part"), [("put", "/references/"), ("put", "/versions/"), ("replace", HEAD)])
@pytest.mark.parametrize("added_again", [False, True])
def test_a_change_that_meets_an_erasure_is_not_kept(
    fake: FakeStore, operation: str, part: str, added_again: bool
) -> None:
    def erase() -> None:
        Eraser(fake, 0.0).identity(TENANT, "ada", "the test")
        if added_again:
            registry(fake).add(TENANT, ADA)

    entered = once(fake, operation, part, erase)
    with pytest.raises(NotFound, match="'ada'"):
        change(fake, BIG)
    assert entered
    assert kept(fake, keys.ERASING) == set(chain(*(named(identity) for identity in reader_of(fake))))


def test_a_change_and_an_erasure_at_once_leave_nothing(store: Store) -> None:
    for number in range(8):
        if number:
            registry(store).add(TENANT, ADA)

        def run(what: int) -> None:
            try:
                Eraser(store, 0.0).identity(TENANT, "ada", "the test") if what else change(store, BIG)
            except NotFound:
                assert not what

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(run, (number % 2, 1 - number % 2)))
        assert kept(store, keys.ERASING) == set()
