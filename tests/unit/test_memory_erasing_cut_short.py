"""An erasure that ends in the middle has happened or not, and is ended by whoever finds it."""

import logging
from dataclasses import replace
from functools import partial

import pytest

from services.common.errors import NotFound, NotReady
from services.memory import keys
from services.memory.forgetting.audits import Audits
from services.memory.forgetting.taking import TAKEN_UP_AFTER_S
from services.memory.registry.registry import Registry
from tests.erasing import ERASE, eraser, make, others, what_stays
from tests.talking import TENANT, Clock, keys_of, killed_at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("what", list(ERASE))
def test_an_erasure_killed_at_any_step_has_happened_or_not_and_any_replica_ends_it(what: str, clock: Clock) -> None:
    whole, _ = make(clock)
    counts = ERASE[what](eraser(whole, clock)).counts
    for step in range(200):
        store, memory = make(clock)
        before, stays = others(store), what_stays(what, store)
        killed = killed_at(store, step, partial(ERASE[what], eraser(store, clock)))
        begun = keys_of(store, keys.ERASING)
        if what == "identity":
            assert Registry(store).is_there(TENANT, "ada") or begun
        clock.now_s += TAKEN_UP_AFTER_S
        eraser(store, clock).resume()
        assert others(store) == (stays if begun else before)
        audits, _ = Audits(store).list(TENANT, 50)
        assert [audit.counts for audit in audits] == ([counts] if begun else [])
        assert all(audit.done_at_s >= audit.begun_at_s > 0 for audit in audits)
        if not begun:
            assert memory.last() == ["turn-1"]
        if not killed:
            assert step > 20
            return
    pytest.fail("the erasure never ended")


@pytest.mark.parametrize("what", list(ERASE))
def test_asking_again_ends_what_was_cut_short_and_returns_its_record(what: str, clock: Clock) -> None:
    ended = at_the_head = 0
    for step in range(200):
        store, _ = make(clock)
        stays = what_stays(what, store)
        killed = killed_at(store, step, partial(ERASE[what], eraser(store, clock)))
        if not killed:
            assert ended > 20
            assert 0 < at_the_head < 5
            return
        begun = [audit.id for audit in Audits(store).list(TENANT, 50)[0]]
        marked = keys_of(store, keys.ERASING)
        try:
            audit = ERASE[what](eraser(store, clock))
        except NotFound:
            assert others(store) == stays  # The last step was done, but not said.
            continue
        except NotReady:
            clock.now_s += TAKEN_UP_AFTER_S
            audit = ERASE[what](eraser(store, clock))
            at_the_head += 1
        assert begun in ([], [audit.id])
        assert others(store) == stays
        assert Audits(store).list(TENANT, 50)[0] == (audit,)
        ended += len(marked)
    pytest.fail("the erasure never ended")


def test_an_erasure_that_has_just_begun_is_left_to_who_began_it(clock: Clock) -> None:
    store, _ = make(clock)
    assert killed_at(store, 5, lambda: ERASE["identity"](eraser(store, clock)))
    assert keys_of(store, keys.ERASING)
    before = others(store)
    eraser(store, clock).resume()
    assert others(store) == before
    clock.now_s += TAKEN_UP_AFTER_S
    eraser(store, clock).resume()
    assert others(store) == []


def test_a_store_that_goes_away_in_the_middle_says_so_and_the_rest_is_done_later(clock: Clock) -> None:
    store, memory = make(clock)

    def fail(operation: str, key: str) -> None:
        if operation == "delete" and "/turns/" in key:
            raise NotReady("the store is away")

    store.before = fail
    with pytest.raises(NotReady, match="away"):
        ERASE["identity"](eraser(store, clock))
    with pytest.raises(NotFound):
        memory.last()
    (unfinished,), _ = Audits(store).list(TENANT, 50)
    assert unfinished.done_at_s == 0
    store.before = lambda operation, key: None
    assert replace(ERASE["identity"](eraser(store, clock)), done_at_s=0, caches_gone_by_s=0) == replace(
        unfinished, counts=Audits(store).list(TENANT, 50)[0][0].counts
    )
    assert others(store) == []


def test_a_damaged_mark_does_not_stop_the_others(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    store, memory = make(clock)
    assert killed_at(store, 5, lambda: ERASE["identity"](eraser(store, clock)))
    store.put(keys.erasing_identity("a", "broken"), b"no mark")
    clock.now_s += TAKEN_UP_AFTER_S
    with caplog.at_level(logging.ERROR):
        eraser(store, clock).resume()
    assert others(store) == []
    assert [record.mark for record in caplog.records] == ["erasing/a/i-broken"]  # type: ignore[attr-defined]
    assert memory.store is store
