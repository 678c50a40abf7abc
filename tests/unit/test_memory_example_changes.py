"""Examples that are put or removed by somebody who is killed: no row is left without its example."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from services.common.errors import NotReady
from services.memory import keys
from services.memory.domain import Exemplar
from services.memory.registry.example_changes import KILLED_AFTER_S
from services.memory.registry.exemplars import Exemplars
from services.memory.registry.registry import Registry
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from tests.fake_store import FakeStore
from tests.sweeping import STEPS_MAX, House, die_at, steps
from tests.talking import TENANT, Killed, OtherEmbedder, WordEmbedder, keys_of, killed_at, once

DOG = Exemplar("my dog is ill", "sad", "Poor thing.")
JOB = Exemplar("they let me go", "disappointed", "That is a hard blow.")


def replica(store: FakeStore, embedder: WordEmbedder | None = None) -> Exemplars:
    return Exemplars(store, Registry(store), Vectors(store), Embedding(embedder or WordEmbedder()))


def with_dog(owner: str) -> Callable[[], House]:
    """Somebody who has the examples DOG and JOB, and rows of two models of them."""

    def begun() -> House:
        house = House()
        replica(house.store).put(TENANT, owner, [DOG, JOB])
        replica(house.store, OtherEmbedder()).search(TENANT, owner, DOG.user_text, 4)
        return house

    return begun


def rows_of(house: House, owner: str) -> tuple[set[str], set[str]]:
    """The ids that have a row of the first model, and those that have one of the other."""
    examples = keys.Examples(house.memory.scope().folder if owner else keys.tenant_folder(TENANT))
    vectors = Vectors(house.store)
    blocks = [vectors.blocks(examples.vectors(model.digest))[0] for model in (WordEmbedder, OtherEmbedder)]
    first, other = ({row for block in each for row in block.turns} for each in blocks)
    return first, other


def there(house: House, owner: str) -> dict[str, str]:
    """The ids of the examples, and their messages."""
    return {one.id: one.user_text for one in replica(house.store).list(TENANT, owner, 50, "")[0]}


def dog(house: House, owner: str) -> list[str]:
    return [name for name, text in there(house, owner).items() if text == DOG.user_text]


@pytest.mark.parametrize("owner", ["ada", ""])
def test_a_removal_that_was_killed_at_any_step_is_ended_by_the_next(owner: str) -> None:
    names: list[str] = []

    def begun() -> House:
        house = with_dog(owner)()
        names[:] = dog(house, owner)
        return house

    def is_ended(house: House, killed: bool) -> None:
        if killed:
            replica(house.store).remove(TENANT, owner, names)
        else:
            assert keys_of(house.store, keys.CHANGING) == []
        left = there(house, owner)
        assert list(left.values()) == [JOB.user_text]
        assert rows_of(house, owner) == (set(left), set(left))

    assert steps(begun, lambda house: replica(house.store).remove(TENANT, owner, names), is_ended) > 10


@pytest.mark.parametrize("owner", ["ada", ""])
def test_of_a_removal_that_was_killed_at_any_step_a_sweep_takes_the_rows_of_what_is_not_there(owner: str) -> None:
    def remove(house: House) -> None:
        replica(house.store).remove(TENANT, owner, dog(house, owner))

    assert steps(with_dog(owner), remove, lambda house, _: is_whole_after_a_sweep(house, owner)) > 10


@pytest.mark.parametrize("owner", ["ada", ""])
def test_of_a_put_that_was_killed_at_any_step_a_sweep_takes_the_rows_of_what_is_not_there(owner: str) -> None:
    def put(house: House) -> None:
        replica(house.store).put(TENANT, owner, [replace(DOG, user_text="the cat came home"), JOB])

    def is_whole(house: House, killed: bool) -> None:
        assert killed or keys_of(house.store, keys.CHANGING) == []
        is_whole_after_a_sweep(house, owner)
        put(house)
        assert len(there(house, owner)) == 3
        assert replica(house.store).search(TENANT, owner, "the cat came home", 1)[0].similarity > 0.99

    assert steps(with_dog(owner), put, is_whole) > 8


def is_whole_after_a_sweep(house: House, owner: str) -> None:
    before = there(house, owner)
    house.time.now_s += KILLED_AFTER_S + 1
    house.sweep()
    assert there(house, owner) == before
    assert keys_of(house.store, keys.CHANGING) == []
    first, other = rows_of(house, owner)
    assert first == set(before)
    assert other <= set(before)


def test_a_sweep_that_is_killed_while_it_takes_such_rows_is_ended_by_the_next() -> None:
    def begun() -> House:
        house = with_dog("ada")()
        names = dog(house, "ada")
        for step in range(STEPS_MAX):
            killed_at(house.store, step, lambda: replica(house.store).remove(TENANT, "ada", names))
            if not dog(house, "ada"):
                break
        house.time.now_s += KILLED_AFTER_S + 1
        return house

    assert steps(begun, House.sweep, lambda house, _: is_whole_after_a_sweep(house, "ada")) > 10


def test_what_is_under_way_is_left_alone() -> None:
    house = House()

    def sweep(operation: str, key: str) -> None:
        if operation == "put" and "/items/" in key:
            house.store.before = lambda operation, key: None
            house.time.now_s += KILLED_AFTER_S - 1
            house.sweep()

    house.store.before = sweep
    replica(house.store).put(TENANT, "ada", [DOG])
    (hit,) = replica(house.store).search(TENANT, "ada", DOG.user_text, 4)
    assert hit.exemplar.user_text == DOG.user_text


def test_a_put_that_failed_and_one_that_changes_nothing_leave_no_row_and_no_mark_for_good() -> None:
    house = House()
    exemplars = replica(house.store)
    ids = exemplars.put(TENANT, "", [DOG])
    before = dict(house.store.objects)
    assert exemplars.put(TENANT, "", [DOG]) == ids
    assert house.store.objects == before

    def fail(operation: str, key: str) -> None:
        if operation == "put" and "/items/" in key:
            raise NotReady("the store is away")

    house.store.before = fail
    with pytest.raises(NotReady):
        exemplars.put(TENANT, "", [JOB])
    house.store.before = lambda operation, key: None
    assert len(rows_of(house, "")[0]) == 2
    is_whole_after_a_sweep(house, "")


def test_a_mark_that_is_damaged_is_named_and_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    house = with_dog("ada")()
    names = dog(house, "ada")
    house.store.before = die_at("list", "/exemplars/vectors/")
    with pytest.raises(Killed):
        replica(house.store).remove(TENANT, "ada", names)
    house.store.before = lambda operation, key: None
    broken = f"{keys.CHANGING}{'0' * 32}"
    house.store.put(broken, b"broken")
    house.time.now_s += KILLED_AFTER_S + 1
    with caplog.at_level(logging.ERROR):
        house.sweep()
    assert keys_of(house.store, keys.CHANGING) == [broken]
    assert broken in str(caplog.records[-1].why)  # type: ignore[attr-defined]
    left = set(there(house, "ada"))
    assert rows_of(house, "ada") == (left, left)


def test_a_put_that_stood_still_until_a_sweep_ended_it_is_to_be_repeated() -> None:
    def passed(house: House) -> None:
        house.store.before = lambda operation, key: None
        house.pass_days(2 * KILLED_AFTER_S / 86_400)
        house.sweep()

    for part in ("/vectors/", "/items/"):
        house = House()
        once(house.store, "put", part, partial(passed, house))
        with pytest.raises(NotReady, match="retry"):
            replica(house.store).put(TENANT, "", [DOG])
        assert there(house, "") == {}
        replica(house.store).put(TENANT, "", [DOG])
        assert replica(house.store).search(TENANT, "", DOG.user_text, 1)
