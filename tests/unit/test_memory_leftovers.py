"""What killed processes leave of what was said goes with its time, and outlives no retention."""

import pytest

from services.memory import keys
from services.memory.forgetting.erasing import Eraser
from services.memory.forgetting.store_time import LEFT_AFTER_S
from services.memory.talks.conversation import PLACES, Place
from services.memory.talks.texts import SaidTexts
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from services.memory.vectors.renewal import Renewal
from tests.sweeping import House, die_at, steps
from tests.talking import TENANT, Killed, OtherEmbedder, keys_of, turn

DOOMED = turn(99, "words that nobody shall keep")


def test_every_sweep_lets_the_store_delete_what_killed_writers_left() -> None:
    house, asked = House(), list[str]()
    house.store.before = lambda operation, key: asked.append(operation)
    house.sweep()
    assert asked.count("sweep") == 1


def talk_for_days(house: House, days: int) -> None:
    """The person goes on talking, a turn a day, and the store is swept."""
    for number in range(days):
        house.pass_days(1)
        house.memory.say(turn(number))
        house.sweep()


def traces_of_doomed(house: House) -> list[str]:
    """The objects that tell of the turn: by its id, or by a row that is its own."""
    return [key for key, content in house.store.objects.items() if "turn-99" in key or b"turn-99" in content]


def half_said() -> House:
    """A turn has got a place and a row, and its writer was killed then."""
    house = House()
    house.keep(turns_days=3)
    house.memory.say(turn(1000))
    house.store.before = die_at("create", "/turns/")
    with pytest.raises(Killed):
        house.memory.say(DOOMED)
    house.store.before = lambda operation, key: None
    assert [row for row in house.memory.rows() if row.endswith("turn-99")]
    return house


def test_of_a_turn_whose_writer_was_killed_at_any_step_nothing_is_left_when_its_time_is_over() -> None:
    def begun() -> House:
        house = House()
        house.keep(turns_days=3)
        house.memory.say(turn(1000))
        return house

    def is_gone(house: House, _: bool) -> None:
        talk_for_days(house, 8)
        assert traces_of_doomed(house) == []
        assert house.memory.last() == ["turn-4", "turn-5", "turn-6", "turn-7"]

    assert steps(begun, lambda house: house.memory.say(DOOMED), is_gone) > 5


def test_its_row_goes_though_the_sweep_is_killed_at_any_step_too() -> None:
    def begun() -> House:
        house = half_said()
        house.pass_days(2)
        house.memory.say(turn(1))
        house.pass_days(1.1)
        return house

    def is_gone(house: House, _: bool) -> None:
        house.sweep()
        assert house.memory.rows() == ["talk/9999999998-turn-1"]
        assert house.memory.last() == ["turn-1"]

    assert steps(begun, House.sweep, is_gone) > 10


def test_before_its_time_is_over_the_turn_can_still_be_said() -> None:
    house = half_said()
    house.pass_days(2.9)
    house.sweep()
    house.memory.say(DOOMED)
    assert house.memory.last() == ["turn-1000", "turn-99"]
    assert [row for row in house.memory.rows() if row.endswith("turn-99")]


def test_a_row_that_was_made_anew_while_its_turn_went_goes_with_what_was_left_of_the_id() -> None:
    """By a replica with another model that was killed before it looked whether the turn still was there."""
    house = House()
    house.keep(turns_days=3)
    house.memory.say(DOOMED)
    house.pass_days(2)
    house.memory.say(turn(1), "walk")
    house.pass_days(1.1)
    talk = house.memory.talk()
    vectors = Vectors(house.store)
    renewal = Renewal(house.store, vectors, Embedding(OtherEmbedder()))
    folder = talk.vectors(OtherEmbedder.digest)

    def before(operation: str, key: str) -> None:
        if operation == "put" and key.startswith(folder):
            house.store.before = lambda operation, key: None
            house.sweep()
            house.store.before = die_at("list", folder)

    house.store.before = before
    with pytest.raises(Killed):
        renewal.renew(talk.models, SaidTexts(house.store, talk))
    house.store.before = lambda operation, key: None
    (left,) = [key for key in traces_of_doomed(house) if "/vectors/" in key]
    assert left.startswith(folder)
    key = talk.turn_id("talk", DOOMED.id)
    assert PLACES.decode(key, house.store.objects[key]) == Place(0, 0.0)
    talk_for_days(house, 4)
    assert traces_of_doomed(house) == []


def test_what_tells_the_time_of_the_store_goes_though_its_writer_was_killed() -> None:
    house = House()
    house.keep(turns_days=1)
    house.store.before = die_at("delete", "probe/")
    with pytest.raises(Killed):
        house.sweep()
    house.store.before = lambda operation, key: None
    house.time.now_s += LEFT_AFTER_S - 1
    house.sweep()
    assert len(keys_of(house.store, "probe/")) == 1
    house.time.now_s += 2
    house.sweep()
    assert keys_of(house.store, "probe/") == []


def test_an_erasure_of_a_person_whose_writer_was_killed_leaves_nothing_of_them() -> None:
    def is_gone(house: House, _: bool) -> None:
        if keys_of(house.store, "p-ann"):
            Eraser(house.store, 70, clock=house.time).person(TENANT, "ann", "", "the test")
        left = {key for key in keys_of(house.store, "p-ann") if "/audits/" not in key}
        assert left <= {keys.erasing_person(TENANT, "p-ann")}
        assert traces_of_doomed(house) == []

    assert steps(House, lambda house: house.memory.say(DOOMED), is_gone) > 5


def test_what_told_the_time_while_the_clock_was_ahead_does_not_tell_it_later() -> None:
    house = House()
    house.keep(turns_days=30)
    house.pass_days(365)
    house.store.put("probe/left", b"")
    house.pass_days(-365)
    house.memory.say(turn(1))
    house.sweep()
    assert house.memory.last() == ["turn-1"]
    assert keys_of(house.store, "probe/") == []
