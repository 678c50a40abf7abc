"""Who has a handle is known everywhere, others in one conversation; an erasure meets no late writer."""

import pytest

from services.common.errors import InvalidRequest, NotFound, NotReady
from services.memory import keys
from services.memory.domain import ClipKind, Sought
from tests.fake_store import FakeStore
from tests.talking import TENANT, WAV, Replica, keys_of, once, turn


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def memory(store: FakeStore) -> Replica:
    made = Replica(store)
    made.add()
    return made


def erase_person(store: FakeStore, person: str = "p-ann") -> None:
    """As an erasure does it: the head first, then what its index names, then the index."""
    store.delete([keys.person(TENANT, person)])
    store.delete(keys_of(store, f"/people/{person}-"))
    store.delete(keys_of(store, f"/persons-of/{person}-"))


def erase_identity(store: FakeStore) -> None:
    store.delete([keys.head(TENANT, "ada")])
    store.delete(keys_of(store, "/kept/ada/"))
    store.delete(keys_of(store, "/persons-of/"))


def test_a_person_is_known_from_the_first_turn_and_everywhere(store: FakeStore, memory: Replica) -> None:
    assert memory.persons.talk(memory.scope(), "ann", "talk") is None
    memory.say(turn(1))
    memory.add("bob")
    memory.say(turn(2), identity="bob")
    ada, bob = memory.talk(), memory.talk(identity="bob")
    assert ada.generation == bob.generation
    assert keys_of(store, "/persons-of/") == [ada.index, bob.index]


def test_the_index_is_there_before_anything_below_the_talk(store: FakeStore, memory: Replica) -> None:
    written: list[str] = []
    store.before = lambda operation, key: written.append(key) if operation in ("create", "put") else None
    memory.say(turn(1))
    store.before = lambda operation, key: None
    talk = memory.talk()
    assert written[:2] == [keys.person(TENANT, "p-ann"), talk.index]
    assert ["/turn-ids/" in written[2], "/vectors/" in written[3], "/turns/" in written[4]] == [True] * 3
    assert len(written) == 5


def test_who_has_no_handle_is_known_in_one_conversation_only(memory: Replica) -> None:
    memory.say(turn(1), "one", person="")
    memory.say(turn(2), "two", person="")
    assert (memory.last("one", ""), memory.last("two", "")) == (["turn-1"], ["turn-2"])
    assert memory.last("one", "one") == []
    hits = memory.talks.search(TENANT, "ada", "", "one", Sought("question 2"))
    assert [hit.turn.id for hit in hits] == ["turn-1"]


def test_neither_person_nor_conversation_names_nobody(memory: Replica) -> None:
    for ask in (
        lambda: memory.persons.talk(memory.scope(), "", ""),
        lambda: memory.talks.search(TENANT, "ada", "", "", Sought("question")),
    ):
        with pytest.raises(InvalidRequest, match=r"^conversation: .*name one of them"):
            ask()


def test_of_many_who_make_a_person_one_wins(store: FakeStore, memory: Replica) -> None:
    entered = once(store, "create", "/persons/p-ann", lambda: Replica(store).say(turn(1)))
    memory.say(turn(2))
    assert entered
    assert memory.last() == ["turn-1", "turn-2"]
    assert len(keys_of(store, "/persons-of/")) == 1


@pytest.mark.parametrize("step", ["/turn-ids/", "/turns/", "/vectors/"])
@pytest.mark.parametrize("who", ["person", "identity"])
def test_a_turn_that_comes_during_an_erasure_is_not_kept(
    store: FakeStore, memory: Replica, who: str, step: str
) -> None:
    erase = erase_person if who == "person" else erase_identity
    memory.say(turn(1))
    entered = once(store, "put" if step == "/vectors/" else "create", step, lambda: erase(store))
    with pytest.raises(NotFound):
        memory.say(turn(2))
    assert entered
    assert keys_of(store, "/people/") == keys_of(store, "/persons-of/") == keys_of(store, "p-ann") == []


@pytest.mark.parametrize("who", ["person", "identity"])
def test_a_clip_that_comes_during_an_erasure_is_not_kept(store: FakeStore, memory: Replica, who: str) -> None:
    memory.say(turn(1))
    erase = erase_person if who == "person" else erase_identity
    entered = once(store, "put", "/clips/", lambda: erase(store))
    with pytest.raises(NotFound):
        memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)
    assert entered
    assert keys_of(store, "/people/") == keys_of(store, "/persons-of/") == []


def test_nothing_of_an_erased_person_is_in_the_next_of_that_name(store: FakeStore, memory: Replica) -> None:
    memory.say(turn(1))
    before = memory.talk()
    erase_person(store)
    assert memory.last() == []
    memory.say(turn(2))
    assert memory.last() == ["turn-2"]
    assert memory.talk().generation != before.generation


def test_an_erasure_between_head_and_index_makes_the_person_anew(store: FakeStore, memory: Replica) -> None:
    entered = once(store, "create", "/persons-of/", lambda: erase_person(store))
    memory.say(turn(1))
    assert entered
    assert keys_of(store, "/persons-of/") == [memory.talk().index]
    assert memory.last() == ["turn-1"]


def test_a_person_who_is_erased_all_the_time_is_given_up(store: FakeStore, memory: Replica) -> None:
    def erase(operation: str, key: str) -> None:
        if operation == "create" and "/persons-of/" in key:
            store.objects.pop(keys.person(TENANT, "p-ann"))

    store.before = erase
    with pytest.raises(NotReady, match="retry"):
        memory.say(turn(1))
    assert keys_of(store, "/persons-of/") == keys_of(store, "/people/") == []


def test_nothing_that_an_erased_identity_was_told_is_known_to_the_next_of_that_name(
    store: FakeStore, memory: Replica
) -> None:
    memory.say(turn(1))
    store.delete([keys.head(TENANT, "ada")])  # What is below it is left, as by an erasure that was cut short.
    memory.add()
    assert memory.last() == []
    assert memory.talks.search(TENANT, "ada", "ann", "", Sought("question 1")) == ()
