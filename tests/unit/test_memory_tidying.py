"""A memory that tidies up holds nothing any longer that nobody used of late: copies, rows, vectors of texts."""

from services.memory.domain import Exemplar, Sought
from services.memory.memory import CACHE_KEEP_S, Memory
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, OtherEmbedder, WordEmbedder, new, turn

DOG = Exemplar("my dog is ill", "sad", "Poor thing.")
WON = Exemplar("we won", "joyful", "You did it!")


def remember(memory: Memory, number: int) -> None:
    memory.talks.remember(TENANT, "ada", "ann", "talk", turn(number))


def found(memory: Memory, number: int) -> list[str]:
    hits = memory.talks.search(TENANT, "ada", "ann", "", Sought(turn(number).user_text, similarity_min=0.99))
    return [hit.turn.id for hit in hits]


def found_examples(memory: Memory) -> set[str]:
    return {hit.exemplar.user_text for hit in memory.exemplars.search(TENANT, "", "who", 4)}


def test_copies_of_objects_go_when_nobody_used_them_for_so_long() -> None:
    memory, clock = Memory(FakeStore(), WordEmbedder()), Clock()
    memory._cached._held._clock = clock
    memory.registry.add(TENANT, new())
    assert memory._cached.held_bytes > 0
    clock.now_s += CACHE_KEEP_S - 1
    memory.tidy()
    assert memory._cached.held_bytes > 0
    clock.now_s += 1
    memory.tidy()
    assert memory._cached.held_bytes == 0


def test_rows_and_the_vectors_of_what_was_said_go() -> None:
    embedder = WordEmbedder()
    memory = Memory(FakeStore(), embedder, cache_keep_s=0)
    memory.registry.add(TENANT, new())
    remember(memory, 1)
    assert found(memory, 1) == ["turn-1"]
    assert len(embedder.read) == 1
    assert memory._vectors.held_bytes > 0
    memory.tidy()
    assert memory._vectors.held_bytes == 0
    assert found(memory, 1) == ["turn-1"]
    assert len(embedder.read) == 2


def test_that_no_row_of_another_model_lacked_is_held_for_no_longer() -> None:
    store = FakeStore()
    memory = Memory(store, WordEmbedder(), cache_keep_s=0)
    other = Memory(store, OtherEmbedder())
    memory.registry.add(TENANT, new())
    remember(memory, 1)
    remember(other, 2)
    assert found(memory, 2) == []
    memory.tidy()
    assert found(memory, 2) == ["turn-2"]


def test_that_no_row_of_an_example_lacked_is_held_for_no_longer() -> None:
    store = FakeStore()
    memory = Memory(store, WordEmbedder(), cache_keep_s=0)
    other = Memory(store, OtherEmbedder())
    memory.exemplars.put(TENANT, "", [DOG])
    assert found_examples(memory) == {DOG.user_text}
    other.exemplars.put(TENANT, "", [WON])
    assert found_examples(memory) == {DOG.user_text}
    memory.tidy()
    assert found_examples(memory) == {DOG.user_text, WON.user_text}
