"""With another sentence embedding all that was kept is found again, and the rows of the old one go at last."""

import logging
from functools import partial

import pytest

from services.common.errors import NotFound
from services.memory.domain import Retention, Sought
from services.memory.forgetting.expiring import Expiring
from services.memory.forgetting.retention import Retentions
from services.memory.talks.texts import SaidTexts
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.renewal import KEPT_S, LOOKED_EVERY_S, ROWS_A_CALL, Renewal
from tests.erasing import ERASE, eraser
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, OtherEmbedder, Replica, WordEmbedder, at_step, keys_of, killed_at, turn

OLD, NEW = WordEmbedder.digest, OtherEmbedder.digest
STEPS_MAX = 300


class House:
    """A store with a clock of its own, and replicas with two models."""

    def __init__(self, turns: int = 3) -> None:
        self.time = Clock()
        self.store = FakeStore(self.time)
        self.old = Replica(self.store, self.time)
        self.old.add()
        self.said = 0
        for _ in range(turns):
            self.say(self.old)

    def new(self) -> Replica:
        return Replica(self.store, self.time, OtherEmbedder())

    def say(self, memory: Replica) -> None:
        self.said += 1
        memory.say(turn(self.said))
        self.time.now_s += 60

    def all_of(self) -> set[str]:
        return {f"turn-{number}" for number in range(1, self.said + 1)}

    def expire(self) -> None:
        for step in Expiring(self.store, self.old.vectors).steps():
            assert step.failures == 0

    def models(self) -> set[str]:
        return {key.rpartition("/")[0].rpartition("/")[2] for key in keys_of(self.store, "/vectors/")}

    def folder(self, model: str) -> str:
        return self.old.talk().vectors(model)


def found(memory: Replica) -> set[str]:
    return {hit.turn.id for hit in memory.talks.search(TENANT, "ada", "ann", "", Sought("question", 32, -1))}


def later(memory: Replica) -> set[str]:
    """What is found when the replica looks again for what lacks."""
    memory.talks.drop_idle(0)
    return found(memory)


def test_turns_that_were_kept_with_another_model_are_found_with_the_present_one() -> None:
    house = House()
    new = house.new()
    assert found(new) == house.all_of()
    nearest, *_ = new.talks.search(TENANT, "ada", "ann", "", Sought("question 2", 32, -1))
    assert (nearest.turn.id, nearest.turn.conversation) == ("turn-2", "talk")
    assert nearest.similarity == pytest.approx(1, abs=1e-3)
    assert nearest.turn.said_at_s == house.old.talks.last(house.old.scope(), "ann", "talk", 2).turns[0].said_at_s


def test_with_each_turn_that_is_kept_some_rows_are_made_too() -> None:
    house = House(2 * ROWS_A_CALL + 3)
    new = house.new()
    for count in (ROWS_A_CALL + 1, 2 * ROWS_A_CALL + 2, 2 * ROWS_A_CALL + 3 + 3):
        house.say(new)
        assert len(new.rows()) == count


def test_a_search_makes_few_rows_those_of_the_newest_turns_first_and_each_but_once() -> None:
    house = House(2 * ROWS_A_CALL + 3)
    new = house.new()
    sizes = []
    for _ in range(5):
        found(new)
        names = sorted(int(name.rpartition("-")[2]) for name in new.rows())
        sizes.append(len(names))
        assert names == list(range(house.said - len(names) + 1, house.said + 1))
    assert sizes == [ROWS_A_CALL, 2 * ROWS_A_CALL, house.said, house.said, house.said]
    assert len([text for text in new.embedder.read if text != "question"[::-1]]) == house.said


def test_while_both_models_are_used_each_finds_what_was_said_to_the_other() -> None:
    house = House()
    new = house.new()
    for memory in (new, house.old) * 3:
        house.say(memory)
        assert later(new) == later(house.old) == house.all_of()
        house.time.now_s += KEPT_S / 2
    assert house.models() == {OLD, NEW}


def test_the_rows_of_another_model_go_a_day_after_their_last_use_and_not_before_all_are_made_anew() -> None:
    house = House(ROWS_A_CALL + 1)
    new = house.new()
    house.time.now_s += 100 * KEPT_S
    for _ in range(3):
        house.say(new)
        later(new)
    assert later(new) == house.all_of()
    assert house.models() == {OLD, NEW}
    house.time.now_s += KEPT_S
    assert later(new) == house.all_of()
    assert house.models() == {OLD, NEW}  # Nobody has said yet, by the clock of the store, that a day is over.
    house.say(new)
    assert later(new) == house.all_of()
    assert house.models() == {NEW}
    later(house.old)  # Who still has the old model makes its rows anew.
    assert later(house.old) == house.all_of()


@pytest.mark.parametrize("days", [0, 2])
def test_killed_at_any_step_of_making_or_removing_nothing_is_lost(days: int) -> None:
    for step in range(STEPS_MAX):
        house = House()
        new = house.new()
        if days:
            found(new)
            house.time.now_s += days * KEPT_S
            house.say(new)
        killed = killed_at(house.store, step, lambda new=new: later(new))  # type: ignore[misc]
        after = house.new()
        assert found(after) == house.all_of()
        assert {name.rpartition("/")[2].partition("-")[2] for name in after.rows()} == house.all_of()
        assert later(house.old) == house.all_of()
        house.time.now_s += 2 * KEPT_S
        house.say(after)
        assert later(after) == house.all_of()
        assert house.models() == {NEW}
        if not killed:
            assert step > 10
            return
    pytest.fail("it never ended")


def test_two_replicas_that_make_the_same_rows_at_once_leave_each_once() -> None:
    for step in range(STEPS_MAX):
        house = House()
        first, second = house.new(), house.new()
        entered = at_step(house.store, step, lambda house=house, second=second: found(second))  # type: ignore[misc]
        assert found(first) == house.all_of()
        house.store.before = lambda operation, key: None
        assert later(second) == house.all_of()
        assert sorted(first.rows()) == sorted(set(first.rows()))
        if not entered:
            assert step > 10
            return
    pytest.fail("it never ended")


def test_two_models_that_each_take_the_other_for_gone_never_remove_both() -> None:
    removed: list[set[str]] = []
    for step in range(STEPS_MAX):
        house = House()
        new = house.new()
        found(new)
        house.time.now_s += 1.2 * KEPT_S
        house.old.vectors.touch(house.folder(OLD))
        house.time.now_s += 1.8 * KEPT_S

        def other_side(house: House = house, new: Replica = new) -> None:
            new.vectors.touch(house.folder(NEW))
            later(new)
            removed.append({OLD, NEW} - house.models())

        entered = at_step(house.store, step, other_side)
        later(house.old)
        house.store.before = lambda operation, key: None
        removed.append({OLD, NEW} - house.models())
        assert later(house.new()) == later(Replica(house.store, house.time)) == house.all_of()
        if not entered:
            assert all(each in removed for each in ({OLD}, {NEW}, set()))
            return
    pytest.fail("it never ended")


@pytest.mark.parametrize("what", sorted(ERASE))
def test_erased_at_any_step_no_row_remains(what: str) -> None:
    for step in range(STEPS_MAX):
        house = House()
        new = house.new()
        entered = at_step(house.store, step, lambda house=house: ERASE[what](eraser(house.store, house.time)))  # type: ignore[misc]
        if not erased_while(new, entered):
            assert step > 10
            return
        house.store.before = lambda operation, key: None
        assert keys_of(house.store, "/people/") == []
    pytest.fail("it never ended")


def erased_while(memory: Replica, entered: list[str]) -> bool:
    try:
        assert found(memory) <= {"turn-1", "turn-2", "turn-3"}
    except NotFound as error:
        assert "ada" in str(error) or "ann" in str(error)
    return bool(entered)


@pytest.mark.parametrize("comes_between", ["the sweep", "the search"])
def test_a_turn_that_gets_too_old_at_any_step_leaves_no_row(comes_between: str) -> None:
    for step in range(STEPS_MAX):
        house = House()
        house.time.now_s += 31 * KEPT_S
        house.say(house.old)
        Retentions(house.store).set(TENANT, Retention(turns_days=30))
        sweep, search = house.expire, partial(found, house.new())
        between, work = (sweep, search) if comes_between == "the sweep" else (search, sweep)
        entered = at_step(house.store, step, between)
        work()
        house.store.before = lambda operation, key: None
        if not entered:
            assert step > 10
            return
        new = house.new()
        assert found(new) == {"turn-4"}
        assert [name.rpartition("-")[2] for name in (*new.rows(), *house.old.rows())] == ["4", "4"]
    pytest.fail("it never ended")


def test_turns_without_meaning_do_not_hold_up_the_others_nor_keep_the_old_rows() -> None:
    house = House()
    for number in range(100, 100 + 2 * ROWS_A_CALL):
        house.old.say(turn(number))
    house.store.delete([key for key in keys_of(house.store, "/turns/") if "-turn-1" in key and key[-3:].isdigit()])
    new = house.new()
    assert found(new) == house.all_of()
    house.time.now_s += KEPT_S
    house.say(new)
    assert later(new) == house.all_of()
    assert house.models() == {NEW}


def test_a_damaged_turn_does_not_hold_up_the_others_and_is_found_when_it_is_repaired(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House()
    (key,) = [key for key in keys_of(house.store, "/turns/") if key.endswith("turn-2")]
    whole = house.store.objects[key]
    house.store.put(key, b"?")
    new = house.new()
    assert found(new) == {"turn-1", "turn-3"}
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, "a row of another model is not made anew")
    ]
    assert key in vars(caplog.records[0])["why"]
    house.time.now_s += 2 * KEPT_S
    house.say(new)
    later(new)
    assert house.models() == {OLD, NEW}
    house.store.put(key, whole)
    assert later(new) == house.all_of()


def test_a_damaged_row_of_the_old_model_stops_neither_turns_nor_searches(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    (key, *_) = keys_of(house.store, f"/vectors/{OLD}/")
    house.store.put(key, b"?")
    new = house.new()
    house.say(new)
    assert found(new) == {"turn-4"}
    assert [record.message for record in caplog.records] == ["vectors of another model are not made anew"] * 2
    assert all(key in vars(record)["why"] for record in caplog.records)


def test_where_nothing_lacks_it_is_looked_again_after_a_minute() -> None:
    house = House()
    new, clock = house.new(), Clock(0.0)
    embedding = Embedding(new.embedder)
    renewal = Renewal(house.store, new.vectors, embedding, clock)
    root, listed = new.talk().models, list[str]()
    texts = SaidTexts(house.store, new.talk())
    assert renewal.renew(root, texts)
    house.store.before = lambda operation, key: listed.append(key) if key == root else None
    for now_s, count in ((0.0, 0), (LOOKED_EVERY_S - 1, 0), (LOOKED_EVERY_S, 1), (LOOKED_EVERY_S + 1, 1)):
        clock.now_s = now_s
        assert not renewal.renew(root, texts)
        assert len(listed) == count
