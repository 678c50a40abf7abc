"""An addition that ends in the middle, or meets an erasure, is whole or nothing."""

import threading
from pathlib import Path

import pytest

from services.common.errors import AlreadyExists, NotFound, NotReady
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.forgetting.erasing import Eraser
from services.memory.keys import Scope
from services.memory.registry.additions import KILLED_AFTER_S, Additions
from services.memory.store import Store
from tests.avatars import ADA, digest, named, reader_of, registry
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, keys_of, killed_at, once

HEAD = keys.head(TENANT, "ada")
MARK = keys.erasing_identity(TENANT, "ada")
LATER = Clock(Clock().now_s + 10_000)


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def erase(store: Store, *ready: str) -> None:
    Eraser(store, 0.0, ready).identity(TENANT, "ada", "the test")


def kept(store: Store) -> set[str]:
    """All that is there but what erasures say of themselves."""
    marks = (keys.ERASING, keys.ADDING)
    return {key for key in keys_of(store) if "/audits/" not in key and not key.startswith(marks)}


def test_an_addition_killed_at_any_step_is_there_whole_or_not_at_all_and_can_be_made_again() -> None:
    for step in range(100):
        store = FakeStore()
        killed = killed_at(store, step, lambda store=store: registry(store).add(TENANT, ADA))  # type: ignore[misc]
        was_there = bool(reader_of(store))
        if not was_there:
            registry(store).add(TENANT, ADA)
        (identity,) = reader_of(store)
        assert kept(store) == named(identity)
        if not killed:
            assert was_there
            assert step > 5
            return
    pytest.fail("the addition never ended")


def test_what_killed_additions_left_can_be_erased(fake: FakeStore) -> None:
    for step in (4, 5):
        assert killed_at(fake, step, lambda: registry(fake).add(TENANT, ADA))
    assert {key.split("/")[2] for key in kept(fake)} == {"kept"}
    assert len(kept(fake)) == 3
    erase(fake)
    assert kept(fake) == set()


def test_what_killed_additions_left_goes_with_a_sweep_though_nobody_names_the_id_again() -> None:
    for step in range(100):
        now_s = 1e9
        store = FakeStore(lambda: now_s)  # noqa: B023 - the store of this step
        killed = killed_at(store, step, lambda store=store: registry(store).add(TENANT, ADA))  # type: ignore[misc]
        left = dict(store.objects)
        now_s += KILLED_AFTER_S - 1
        Additions(store).resume()
        assert store.objects == left  # It could be under way.
        now_s += 1
        Additions(store).resume()
        there = reader_of(store)
        assert keys_of(store) == (sorted(named(there[0])) if there else [])
        if not killed:
            assert there
            return
    pytest.fail("the addition never ended")


def test_of_an_addition_whose_head_is_damaged_nothing_goes_and_the_others_are_swept(
    fake: FakeStore, caplog: pytest.LogCaptureFixture
) -> None:
    identity = registry(fake).add(TENANT, ADA)
    scope = Scope(TENANT, "ada", identity.generation)
    before = {**fake.objects, HEAD: b"torn"}
    fake.objects = {**before, keys.adding(scope): b"", keys.adding(Scope("z", "bob", "0" * 32)): b""}
    fake.objects[Scope("z", "bob", "0" * 32).reference("1" * 64)] = b"left"
    Additions(fake).resume(killed_after_s=0)
    assert fake.objects == {**before, keys.adding(scope): b""}
    assert "what an addition left stays" in caplog.text


@pytest.mark.parametrize("operation", ["put", "create"])
def test_a_store_that_fails_in_the_middle_of_an_addition_leaves_nothing(fake: FakeStore, operation: str) -> None:
    failed = 0

    def fail(done: str, key: str) -> None:
        nonlocal failed
        if done == operation and (operation == "create" or len(fake.objects) == 1):
            failed += 1
            raise NotReady("the store is away")

    fake.before = fail
    with pytest.raises(NotReady, match="away"):
        registry(fake).add(TENANT, ADA)
    assert failed == 1
    assert fake.objects == {}


def test_an_addition_whose_answer_got_lost_is_taken_back() -> None:
    class Losing(FakeStore):
        def create(self, key: str, content: bytes) -> str | None:
            super().create(key, content)
            raise NotReady("the answer got lost")

    losing = Losing()
    with pytest.raises(NotReady, match="lost"):
        registry(losing).add(TENANT, ADA)
    assert losing.objects == {}


# Erasures.


def test_an_id_is_free_again_when_its_erasure_is_done_and_nothing_of_the_old_one_is_in_the_new_one(
    store: Store,
) -> None:
    old = registry(store).add(TENANT, ADA)
    erase(store)
    assert kept(store) == set()
    new = registry(store).add(TENANT, ADA)
    assert new.generation != old.generation
    assert kept(store) == named(new)
    Eraser(store, 0.0, clock=LATER).resume()
    assert kept(store) == named(new)
    assert reader_of(store) == (new,)


def test_an_id_is_not_free_while_its_erasure_runs(fake: FakeStore) -> None:
    registry(fake).add(TENANT, ADA)
    refused: list[AlreadyExists] = []

    def add() -> None:
        with pytest.raises(AlreadyExists, match="'ada' is still being erased") as refusal:
            registry(fake).add(TENANT, ADA)
        refused.append(refusal.value)

    once(fake, "delete", "/references/", add)
    erase(fake)
    assert refused
    assert kept(fake) == set()


@pytest.mark.parametrize(
    ("operation", "key"),
    [("put", "/references/"), ("create", HEAD), ("get", MARK), ("list", "/kept/ada/")],
)
def test_an_addition_that_a_whole_erasure_comes_into_is_whole_or_gone(
    fake: FakeStore, operation: str, key: str
) -> None:
    entered: list[str] = []

    def come_between(done: str, at: str) -> None:
        begun = any("/references/" in name for name in fake.objects)
        if begun and done == operation and key in at and not entered:
            entered.append(at)
            erase(fake)

    fake.before = come_between
    with pytest.raises(AlreadyExists, match="erased while it was being added"):
        registry(fake).add(TENANT, ADA)
    assert entered
    assert kept(fake) == set()


def test_an_addition_that_was_erased_leaves_the_files_of_the_next_one_alone(fake: FakeStore) -> None:
    """The next one has put its files when the erased one looks what is there, and appears right after that."""
    arrived, may_appear, steps = threading.Event(), threading.Event(), ["add"]
    next_one = threading.Thread(target=lambda: registry(fake).add(TENANT, ADA))

    def before(operation: str, key: str) -> None:
        if threading.current_thread() is next_one:
            if (operation, key) == ("create", HEAD):
                arrived.set()
                assert may_appear.wait(10)
        elif steps[-1] == "add" and (operation, key) == ("get", MARK) and HEAD in fake.objects:
            steps.append("erase")
            erase(fake)
            next_one.start()
            assert arrived.wait(10)
            steps.append("look")
        elif steps[-1] == "look" and operation == "list":
            steps.append("looked")
        elif steps[-1] == "looked":
            steps.append("go on")
            may_appear.set()
            next_one.join(10)

    fake.before = before
    with pytest.raises(AlreadyExists, match="erased while it was being added"):
        registry(fake).add(TENANT, ADA)
    assert steps == ["add", "erase", "look", "looked", "go on"]
    assert kept(fake) == named(*reader_of(fake))


def test_a_reader_that_meets_an_addition_about_to_be_taken_back_finds_nobody(fake: FakeStore) -> None:
    refused: list[NotFound] = []

    def read() -> None:
        assert HEAD in fake.objects
        with pytest.raises(NotFound, match="'ada' is unknown") as refusal:
            registry(fake).reference(TENANT, "ada", digest(ADA.files[0]))
        refused.append(refusal.value)

    def come_between(operation: str, key: str) -> None:
        if (operation, key) == ("create", HEAD):
            erase(fake)
            once(fake, "list", "/kept/", read)

    fake.before = come_between
    with pytest.raises(AlreadyExists):
        registry(fake).add(TENANT, ADA)
    assert refused


class SlowErasure:
    """An erasure by another process that stops before its first deletion of a file, until it may go on."""

    def __init__(self, store: FakeStore) -> None:
        store.objects[Scope(TENANT, "ada", "0" * 32).reference("0" * 64)] = b"of a killed addition"
        self._stopped = threading.Event()
        self._may_go_on = threading.Event()
        self._thread = threading.Thread(target=erase, args=[store])

    def __call__(self, operation: str, key: str) -> None:
        if threading.current_thread() is self._thread and operation == "delete" and "/references/" in key:
            self._stopped.set()
            assert self._may_go_on.wait(10)

    def start(self) -> None:
        self._thread.start()
        assert self._stopped.wait(10)

    def finish(self) -> None:
        self._may_go_on.set()
        self._thread.join(10)


def test_an_addition_is_taken_back_when_an_erasure_elsewhere_is_about_to_delete_its_files(fake: FakeStore) -> None:
    erasure = SlowErasure(fake)

    def before(operation: str, key: str) -> None:
        erasure(operation, key)
        if (operation, key) == ("create", HEAD):
            erasure.start()

    fake.before = before
    with pytest.raises(AlreadyExists, match="erased while it was being added"):
        registry(fake).add(TENANT, ADA)
    erasure.finish()
    assert kept(fake) == set()


def test_a_write_below_an_erased_identity_is_taken_back(fake: FakeStore) -> None:
    registry(fake).add(TENANT, ADA)
    scope = registry(fake).found(TENANT, "ada").scope
    erase(fake)
    for again in (False, True):
        if again:
            registry(fake).add(TENANT, ADA)
        fake.put(scope.reference("e" * 64), b"late")
        with pytest.raises(NotFound, match="'ada'"):
            registry(fake).check_still(scope)
        assert not any(scope.generation in key for key in kept(fake))
    assert len(reader_of(fake)) == 1
