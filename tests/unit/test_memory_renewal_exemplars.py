"""With another sentence embedding the examples of answers are found again, and none comes back that was removed."""

from collections.abc import Callable

import pytest

from services.common.errors import NotFound
from services.memory.domain import Exemplar
from services.memory.registry.exemplars import Exemplars
from services.memory.registry.registry import Registry
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from services.memory.vectors.renewal import KEPT_S
from tests.erasing import eraser
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, OtherEmbedder, WordEmbedder, at_step, keys_of, killed_at, new

DOG = Exemplar("my dog is ill", "sad", "Poor thing.")
JOB = Exemplar("they let me go", "disappointed", "That is a hard blow.")
WON = Exemplar("we won", "joyful", "You did it!")
STEPS_MAX = 300


class House:
    """Examples of an identity and of its tenant, kept with one model."""

    def __init__(self) -> None:
        self.time = Clock()
        self.store = FakeStore(self.time)
        Registry(self.store).add(TENANT, new())
        self.old = self.replica(WordEmbedder())
        self.ids = self.old.put(TENANT, "ada", [DOG, JOB])
        self.old.put(TENANT, "", [WON])

    def replica(self, embedder: WordEmbedder) -> Exemplars:
        return Exemplars(self.store, Registry(self.store), Vectors(self.store), Embedding(embedder), self.time)

    def new(self) -> Exemplars:
        return self.replica(OtherEmbedder())

    def remove(self) -> None:
        """Takes DOG away."""
        assert self.replica(WordEmbedder()).remove(TENANT, "ada", self.ids[:1]) == 1

    def erase(self) -> None:
        eraser(self.store, self.time).identity(TENANT, "ada", "the test")


def found(exemplars: Exemplars) -> list[str]:
    return [hit.exemplar.user_text for hit in exemplars.search(TENANT, "ada", DOG.user_text, 10)]


def traces_of(store: FakeStore, name: str) -> list[str]:
    blocks = [key for key in keys_of(store, "/exemplars/vectors/") if "/erased-" not in key]
    return [key for key in (*blocks, *keys_of(store, "/items/")) if name in key or name.encode() in store.objects[key]]


def steps(work: Callable[[House, Exemplars], Callable[[], object]], then: Callable[[House, Exemplars], object]) -> int:
    """Lets something come between at each step of the first search with another model; returns how many there are."""
    for step in range(STEPS_MAX):
        house = House()
        later = house.new()
        entered = at_step(house.store, step, work(house, later))
        try:
            found(later)
        except NotFound as error:
            assert "ada" in str(error)
        house.store.before = lambda operation, key: None
        if not entered:
            return step
        then(house, later)
    pytest.fail("it never ended")


def test_examples_of_an_identity_and_its_tenant_are_found_with_another_model_and_the_old_rows_go() -> None:
    house = House()
    later = house.new()
    assert found(later)[0] == DOG.user_text
    assert set(found(later)) == {DOG.user_text, JOB.user_text, WON.user_text}
    house.time.now_s += KEPT_S
    for owner in ("ada", ""):
        later.put(TENANT, owner, [Exemplar("again", "sad", "Oh.")])
    later.drop_idle(0)
    assert set(found(later)) == {DOG.user_text, JOB.user_text, WON.user_text, "again"}
    assert keys_of(house.store, f"/vectors/{WordEmbedder.digest}/") == []


def test_killed_at_any_step_the_next_search_finds_them_all() -> None:
    for step in range(STEPS_MAX):
        house = House()
        killed = killed_at(house.store, step, lambda house=house: found(house.new()))  # type: ignore[misc]
        assert set(found(house.new())) == {DOG.user_text, JOB.user_text, WON.user_text}
        if not killed:
            assert step > 10
            return
    pytest.fail("it never ended")


def test_an_example_that_is_removed_at_any_step_is_gone_with_the_rows_of_both_models() -> None:
    def is_gone(house: House, later: Exemplars) -> None:
        assert set(found(later)) == set(found(house.old)) == {JOB.user_text, WON.user_text}
        assert traces_of(house.store, house.ids[0]) == []

    assert steps(lambda house, _: house.remove, is_gone) > 10


def test_of_an_identity_that_is_erased_at_any_step_no_row_remains() -> None:
    def is_gone(house: House, _: Exemplars) -> None:
        assert keys_of(house.store, "/kept/ada/") == []

    assert steps(lambda house, _: house.erase, is_gone) > 10
