"""People of whom nothing is left but that they are known, since somebody was killed, are forgotten in time."""

from functools import partial

import pytest

from services.memory import keys
from services.memory.forgetting.erasing import CLOSED_AFTER_S, Eraser
from tests.sweeping import DAY_S, STEPS_MAX, House, die_at, steps
from tests.talking import TENANT, Clock, Killed, at_step, keys_of, once, turn


def sweep_often(house: House, count: int, days: float) -> None:
    """Sweeps by one replica, so many days before each sweep."""
    sweeper = house.sweeper(clock := Clock())
    for _ in range(count):
        house.pass_days(days)
        clock.now_s += days * DAY_S
        sweeper.run_once()


def only_known(kind: str) -> House:
    """The writer of a person's first turn was killed before it made something of that kind."""
    house = House()
    house.keep(turns_days=3)
    house.store.before = die_at("create", kind)
    with pytest.raises(Killed):
        house.memory.say(turn(1))
    house.store.before = lambda operation, key: None
    return house


def test_who_is_only_known_because_a_writer_was_killed_is_forgotten_in_time() -> None:
    def begun() -> House:
        house = House()
        house.keep(turns_days=3)
        return house

    def is_unknown(house: House, _: bool) -> None:
        sweep_often(house, 10, 1)
        assert keys_of(house.store, "p-ann") == []

    assert steps(begun, lambda house: house.memory.say(turn(1)), is_unknown) > 5


@pytest.mark.parametrize("kind", ["/persons-of/", "/turn-ids/"])
def test_who_is_known_since_yesterday_is_not_forgotten_yet(kind: str) -> None:
    house = only_known(kind)
    left = keys_of(house.store, "p-ann")
    house.pass_days(2.9)
    house.sweep()
    assert keys_of(house.store, "p-ann") == left != []
    house.pass_days(0.2)
    house.sweep()
    assert keys_of(house.store, "p-ann") == []


def test_who_talks_is_not_looked_for() -> None:
    house = House()
    house.keep(turns_days=3)
    house.memory.say(turn(1))
    house.pass_days(2)
    house.memory.say(turn(2))
    house.pass_days(1.1)
    house.sweep()
    asked: list[str] = []
    house.store.before = lambda operation, key: asked.append(key)
    house.sweep()
    assert keys.persons_of_all(TENANT) in asked
    assert keys.person(TENANT, "p-ann") not in asked


def test_who_has_words_with_an_identity_that_cannot_be_read_is_not_forgotten() -> None:
    house = House()
    house.keep(turns_days=3)
    house.memory.say(turn(1))
    before = keys_of(house.store, "p-ann")
    house.store.put(keys.head(TENANT, "ada"), b"broken")
    for gone in ("", keys.person(TENANT, "p-ann")):
        house.store.delete([gone] if gone else [])
        sweep_often(house, 3, 4)
        assert keys_of(house.store, "p-ann") == [key for key in before if key != gone]


def test_who_is_forgotten_is_forgotten_whole_though_the_sweep_is_killed_at_any_step() -> None:
    def begun() -> House:
        house = House()
        house.keep(turns_days=1)
        house.memory.say(turn(1))
        for _ in range(2):
            house.pass_days(1.1)
            house.sweep()
        assert keys_of(house.store, "p-ann")
        house.pass_days(1.1)
        return house

    def is_unknown(house: House, _: bool) -> None:
        sweep_often(house, 3, 1.1)
        assert keys_of(house.store, "p-ann") == []

    assert steps(begun, House.sweep, is_unknown) > 10


def test_who_comes_back_while_they_are_forgotten_keeps_what_they_say() -> None:
    """Between any two steps of a sweep that forgets somebody of whom only a head, or an index, is left."""
    for step in range(STEPS_MAX):
        for kind in ("/persons-of/", "/turn-ids/"):
            house = only_known(kind)
            house.pass_days(4)
            entered = at_step(house.store, step, partial(house.memory.say, turn(2)))
            house.sweep()
            house.store.before = lambda operation, key: None
            if entered:
                assert house.memory.last() == ["turn-2"]
                assert house.memory.talk().index in house.store.objects
        if not entered:
            assert step > 10
            return
    pytest.fail("it never ended")


def test_who_was_to_talk_with_an_identity_is_forgotten_with_it() -> None:
    house = only_known("/turn-ids/")
    house.memory.add("bob")
    house.memory.say(turn(1), person="")
    house.memory.say(turn(2), person="pat")
    house.memory.say(turn(2), person="pat", identity="bob")
    for _ in range(2):
        Eraser(house.store, 70, clock=house.time).identity(TENANT, "ada", "the test")
        house.time.now_s += CLOSED_AFTER_S + 1
        Eraser(house.store, 70, clock=house.time).resume()
        assert [key for key in keys_of(house.store, "ada") if "/audits/" not in key] == []
        assert keys_of(house.store, "p-ann") == keys_of(house.store, "c-talk") == []
        assert keys_of(house.store, keys.person(TENANT, "p-pat")) != []
        assert len(keys_of(house.store, "/persons-of/p-pat-")) == 1
        house.memory.add()


def test_an_index_of_somebody_who_is_being_forgotten_stays_when_they_are_given_back() -> None:
    house = only_known("/turn-ids/")
    index, head = house.memory.talk().index, keys.person(TENANT, "p-ann")
    content = house.store.objects.pop(head)
    house.pass_days(4)
    sweeper = house.sweeper(clock := Clock())
    sweeper.run_once()
    assert index in house.store.objects
    house.store.put(head, content)
    house.memory.say(turn(2))
    clock.now_s += DAY_S
    sweeper.run_once()
    assert (index in house.store.objects, house.memory.last()) == (True, ["turn-2"])


def test_the_mark_of_an_erasure_that_is_done_while_an_earlier_one_is_closed_stays() -> None:
    house = House()
    eraser = Eraser(house.store, 70, clock=house.time)
    eraser.identity(TENANT, "ada", "the test")
    house.memory.add()
    house.time.now_s += CLOSED_AFTER_S + 1
    indices = keys.persons_of_all(TENANT)
    entered = once(house.store, "list", indices, lambda: eraser.identity(TENANT, "ada", "another"))
    eraser.resume()
    assert entered
    mark = keys.erasing_identity(TENANT, "ada")
    assert b"another" in house.store.objects[mark]
    house.time.now_s += CLOSED_AFTER_S + 1
    eraser.resume()
    assert keys_of(house.store, mark) == []


def test_who_comes_back_after_another_replica_forgot_them_is_not_taken_for_who_they_were() -> None:
    """One replica stands still before each of its looks for words, while another forgets them and they come back."""
    for part in ("/persons-of/p-ann", "/people/p-ann"):
        house = only_known("/turn-ids/")
        house.pass_days(4)

        def come_back(house: House = house) -> None:
            house.store.before = lambda operation, key: None
            house.sweep()
            house.memory.say(turn(2))

        entered = once(house.store, "list", part, come_back)
        house.sweep()
        assert entered
        assert house.memory.last() == ["turn-2"]
