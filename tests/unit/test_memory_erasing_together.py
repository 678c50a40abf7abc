"""Erasures that several do at once, and that others write into."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from services.common.errors import AlreadyExists, NotFound, NotReady
from services.memory import keys
from services.memory.domain import Audit
from services.memory.forgetting.audits import Audits
from services.memory.forgetting.erasing import CLOSED_AFTER_S, Eraser
from services.memory.forgetting.taking import TAKEN_UP_AFTER_S
from services.memory.keys import Scope
from services.memory.registry.registry import Registry
from tests.erasing import ERASE, eraser, head_of_an_addition, keys_of_marks, make, others, what_stays
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, Replica, keys_of, killed_at, new, once, turn


@pytest.fixture
def clock() -> Clock:
    return Clock()


# At once.


@pytest.mark.parametrize("what", list(ERASE))
def test_replicas_that_erase_at_once_make_one_record_and_count_once(what: str, clock: Clock) -> None:
    whole, _ = make(clock)
    counts = ERASE[what](eraser(whole, clock)).counts
    store, _ = make(clock)
    stays = what_stays(what, store)

    def ask(_: int) -> Audit | None:
        try:
            return ERASE[what](Eraser(store, 70, clock=clock))
        except NotFound:
            return None  # The others were done already.

    with ThreadPoolExecutor(4) as threads:
        audits = {audit for audit in threads.map(ask, range(4)) if audit}
    assert [audit.counts for audit in audits] == [counts]
    assert Audits(store).list(TENANT, 50)[0] == tuple(audits)
    assert others(store) == stays


@pytest.mark.parametrize("what", list(ERASE))
def test_an_erasure_that_another_replica_does_in_between_any_two_steps_is_the_same(what: str, clock: Clock) -> None:
    for step in range(200):
        store, _ = make(clock)
        stays = what_stays(what, store)
        left = [step]

        def come_between(operation: str, key: str, left: list[int] = left, store: FakeStore = store) -> None:
            left[0] -= 1
            if left[0] == -1 and keys_of_marks(store):
                with suppress(NotReady):  # The other one is taking the head away.
                    ERASE[what](eraser(store, clock))

        store.before = come_between
        first = ERASE[what](eraser(store, clock))
        store.before = lambda operation, key: None
        assert others(store) == stays
        assert first in Audits(store).list(TENANT, 50)[0]
        if left[0] >= 0:
            assert step > 20
            return
    pytest.fail("the erasure never ended")


# Others write.


@pytest.mark.parametrize("step", ["turn-ids", "vectors", "turns"])
@pytest.mark.parametrize("what", list(ERASE))
def test_a_turn_that_comes_during_the_erasure_is_not_kept(what: str, step: str, clock: Clock) -> None:
    store, memory = make(clock)
    stays = what_stays(what, store)
    operation = "put" if step == "vectors" else "create"
    entered = once(store, operation, f"/{step}/", lambda: ERASE[what](eraser(store, clock)))
    with pytest.raises(NotFound):
        memory.say(turn(3))
    assert entered
    assert others(store) == stays


@pytest.mark.parametrize("what", list(ERASE))
def test_what_a_writer_left_that_died_after_the_erasure_goes_with_a_sweep(what: str, clock: Clock) -> None:
    store, memory = make(clock)
    stays = what_stays(what, store)
    talk = memory.talk()
    ERASE[what](eraser(store, clock))
    late = talk.turn("talk", "9999999990-late")
    for _ in range(3):
        store.objects[late] = store.objects[talk.index] = b"late"
        clock.now_s += CLOSED_AFTER_S / 4
        eraser(store, clock).resume()
        assert others(store) == stays
    clock.now_s += CLOSED_AFTER_S / 4 + 1
    eraser(store, clock).resume()
    assert others(store) == stays
    assert keys_of(store, keys.ERASING) == []
    store.objects[late] = b"nobody can write so late"
    eraser(store, clock).resume()
    assert late in store.objects


@pytest.mark.parametrize("what", list(ERASE))
def test_every_replica_forgets_what_one_has_erased(what: str, clock: Clock) -> None:
    store, memory = make(clock)
    forgotten: list[str] = []
    folder = memory.talk().folder
    ERASE[what](eraser(store, clock))
    Eraser(store, 70, forget=forgotten.append, clock=clock).resume()
    assert any(folder.startswith(each) for each in forgotten)


def test_an_identity_is_added_again_as_soon_as_its_erasure_is_done_and_no_earlier(clock: Clock) -> None:
    store, memory = make(clock)
    refused: list[str] = []

    def add(operation: str, key: str) -> None:
        if keys_of_marks(store) and operation != "list" and not refused:
            store.before = lambda operation, key: None
            with pytest.raises(AlreadyExists, match="being erased"):
                memory.add()
            refused.append(key)

    store.before = add
    ERASE["identity"](eraser(store, clock))
    assert refused
    memory.add()
    kept = others(store)
    assert len(kept) == 3
    for _ in range(4):
        clock.now_s += CLOSED_AFTER_S / 3
        eraser(store, clock).resume()
    assert others(store) == kept


def test_an_identity_that_is_added_after_a_faster_erasure_is_not_touched_by_a_slower_one(clock: Clock) -> None:
    for step in range(200):
        store, memory = make(clock)
        left = [step]
        came: list[str] = []

        def come_between(  # Erases faster, and adds again.
            operation: str,
            key: str,
            left: list[int] = left,
            came: list[str] = came,
            store: FakeStore = store,
            memory: Replica = memory,
        ) -> None:
            left[0] -= 1
            if left[0] == -1 and keys_of_marks(store):
                with suppress(NotReady):  # The slower one is taking the head away.
                    ERASE["identity"](eraser(store, clock))
                    memory.add()
                    came.append(key)

        store.before = come_between
        ERASE["identity"](eraser(store, clock))
        store.before = lambda operation, key: None
        assert len(others(store)) == (3 if came else 0), step
        clock.now_s += 60
        eraser(store, clock).resume()
        assert Registry(store).is_there(TENANT, "ada") == bool(came)
        assert len(others(store)) == (3 if came else 0)
        if left[0] >= 0:
            assert step > 20
            return
    pytest.fail("the erasure never ended")


def test_who_has_slept_over_an_erasure_does_not_touch_what_was_added_since(clock: Clock) -> None:
    store, memory = make(clock)
    awake: list[str] = []

    def sleep(operation: str, key: str) -> None:
        if (operation, key) == ("get", keys.head(TENANT, "ada")) and keys_of_marks(store) and not awake:
            awake.append(key)
            clock.now_s += TAKEN_UP_AFTER_S
            ERASE["identity"](eraser(store, clock))
            memory.add()

    store.before = sleep
    ERASE["identity"](eraser(store, clock))
    assert awake
    assert Registry(store).is_there(TENANT, "ada")
    assert len(others(store)) == 3


@pytest.mark.parametrize(("operation", "part"), [("list", "kept/ada/"), ("delete", "/persons-of/")])
def test_an_addition_that_dies_after_its_head_while_an_erasure_runs_goes_with_it(
    operation: str, part: str, clock: Clock
) -> None:
    store, memory = make(clock)
    late = {
        keys.head(TENANT, "ada"): head_of_an_addition(memory, "f" * 32),
        Scope(TENANT, "ada", "f" * 32).reference("0" * 64): b"x",
    }
    entered = once(store, operation, part, lambda: store.objects.update(late))
    ERASE["identity"](eraser(store, clock))
    assert entered
    assert others(store) == []


def test_an_addition_whose_files_were_erased_and_that_dies_after_its_head_goes_with_a_sweep(clock: Clock) -> None:
    store, memory = make(clock)
    late = head_of_an_addition(memory, "f" * 32)
    store.objects[Scope(TENANT, "ada", "f" * 32).reference("0" * 64)] = b"x"
    ERASE["identity"](eraser(store, clock))
    store.objects[keys.head(TENANT, "ada")] = late
    eraser(store, clock).resume()
    assert others(store) == []


def test_a_person_who_comes_back_while_their_erasure_is_cut_short_keeps_what_is_new(clock: Clock) -> None:
    came = 0
    for step in range(200):
        store, memory = make(clock)
        if not killed_at(store, step, partial(ERASE["person"], eraser(store, clock))):
            assert came > 10
            return
        is_new = keys.person(TENANT, "p-ann") not in store.objects
        memory.say(turn(9))
        marked = keys_of_marks(store)
        clock.now_s += TAKEN_UP_AFTER_S
        eraser(store, clock).resume()
        assert memory.last() == (["turn-9"] if is_new else [] if marked else ["turn-1", "turn-9"])
        came += is_new
    pytest.fail("the erasure never ended")


def test_an_erasure_after_an_erasure_still_looks_for_what_is_late_for_the_first(clock: Clock) -> None:
    store, memory = make(clock)
    first = memory.talk()
    ERASE["identity"](eraser(store, clock))
    memory.add()
    second = memory.scope()
    ERASE["identity"](eraser(store, clock))
    for folder in (first.folder, second.folder):
        store.objects[f"{folder}turns/talk/9999999990-late"] = b"late"
    eraser(store, clock).resume()
    assert others(store) == []
    assert len(Audits(store).list(TENANT, 50)[0]) == 2


def test_a_damaged_head_that_came_after_the_erasure_is_left_to_whoever_erases_it(clock: Clock) -> None:
    store, _ = make(clock)
    ERASE["identity"](eraser(store, clock))
    store.put(keys.head(TENANT, "ada"), b"damaged")
    eraser(store, clock).resume()
    assert others(store) == [keys.head(TENANT, "ada")]
    ERASE["identity"](eraser(store, clock))
    assert others(store) == []


def test_a_person_who_turns_to_another_identity_at_that_moment_stays_known(clock: Clock) -> None:
    store, memory = make(clock)
    memory.add("bob")
    head = keys.person(TENANT, "p-ann")
    entered = once(store, "delete", head, lambda: memory.say(turn(5), identity="bob"))
    ERASE["identity"](eraser(store, clock))
    assert entered
    memory.say(turn(6), identity="bob")
    page = memory.talks.turns(TENANT, "bob", "ann", "talk", 50, "").turns
    assert [each.id for each in page] == ["turn-6", "turn-5"]
    ERASE["person"](eraser(store, clock))
    assert [key for key in others(store) if "p-ann" in key] == []


def test_an_addition_that_an_erasure_elsewhere_meets_is_whole_or_gone(clock: Clock) -> None:
    for step in range(100):
        store = FakeStore(clock)
        left = [step]
        erased: list[Audit] = []

        def come_between(
            operation: str, key: str, left: list[int] = left, store: FakeStore = store, erased: list[Audit] = erased
        ) -> None:
            left[0] -= 1
            if left[0] == -1 and any(name.startswith(keys.TENANTS) for name in store.objects):
                erased.append(ERASE["identity"](eraser(store, clock)))

        store.before = come_between
        try:
            Registry(store, clock).add(TENANT, new())
        except AlreadyExists:
            assert erased
        store.before = lambda operation, key: None
        eraser(store, clock).resume()
        there = others(store)
        assert there == [] or (len(there) == 3 and Registry(store).is_there(TENANT, "ada"))
        if left[0] >= 0:
            assert step > 5
            return
    pytest.fail("the addition never ended")
