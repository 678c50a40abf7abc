"""Turns are kept once, in one order, for one person with one identity."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import FailedPrecondition, InvalidRequest, NotFound, NotReady
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Use
from services.memory.store import Store
from services.memory.talks import conversation
from services.memory.talks.conversation import PLACES, Place, Turns
from services.memory.talks.talks import tidies_up
from tests.fake_store import FakeStore
from tests.talking import TENANT, Replica, keys_of, killed_at, once, turn


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def replica(store: Store) -> Replica:
    made = Replica(store)
    made.add()
    return made


def test_the_last_turns_are_recalled_oldest_first(store: Store) -> None:
    memory = replica(store)
    for number in range(1, 13):
        memory.say(turn(number))
    memory.say(turn(99), "other")
    assert memory.last(turns_max=3) == ["turn-10", "turn-11", "turn-12"]
    assert memory.last() == [f"turn-{number}" for number in range(1, 13)]
    assert memory.last(turns_max=0) == memory.last("") == memory.last("never") == memory.last(person="bob") == []


def test_a_turn_is_recalled_as_it_was_said_but_for_its_vote_record_and_timings(store: Store) -> None:
    memory = replica(store)
    said = replace(
        turn(1), user_intensity=0.5, vote_record="00ff", variants={"mllm": "a"}, timings_s={"vote": 0.25}, said_at_s=7.0
    )
    memory.say(replace(said, conversation="another", clips=()))
    kept = replace(said, said_at_s=memory.clock.now_s, conversation="talk")
    recalled = replace(kept, vote_record="", timings_s={})
    assert memory.talks.last(memory.scope(), "ann", "talk", 4) == Turns(
        (recalled,), person_generation=memory.talk().generation
    )
    assert memory.talks.turns(TENANT, "ada", "ann", "talk", 50, "") == Turns((kept,))


def test_recalling_asks_for_the_person_one_listing_and_each_turn(fake: FakeStore) -> None:
    memory = replica(fake)
    for number in range(50):
        memory.say(turn(number))
    scope = memory.scope()
    asked: list[str] = []
    fake.before = lambda operation, key: asked.append(f"{operation} {key}")
    assert len(memory.talks.last(scope, "ann", "talk", 3).turns) == 3
    fake.before = lambda operation, key: None
    person, listing, *turns = asked
    assert person == f"get {keys.person(TENANT, 'p-ann')}"
    assert listing == f"list {memory.talk().turns('talk')}"
    assert len([each for each in turns if "/turns/talk/" in each]) == len(turns) == 3


def test_long_turns_are_recalled_only_as_far_as_one_message_holds_them(fake: FakeStore) -> None:
    memory = replica(fake)
    for number in range(30):
        memory.say(replace(turn(number), user_text="x " * 16_000, reply_text="y" * 32_000, vote_record="00" * 65_536))
    recalled = memory.last(turns_max=30)
    assert recalled == [f"turn-{number}" for number in range(30 - len(recalled), 30)]
    assert 10 < len(recalled) < conversation.BYTES_MAX / 64_000


def test_keeping_the_same_turn_id_again_changes_nothing(store: Store) -> None:
    memory = replica(store)
    memory.say(turn(1))
    memory.say(turn(2))
    objects = store.list("")
    memory.clock.now_s += 60
    memory.say(turn(1))
    memory.say(replace(turn(1), user_text="something else"))
    assert store.list("") == objects
    assert memory.last() == ["turn-1", "turn-2"]


def test_a_turn_has_the_time_of_the_memory_and_no_order_depends_on_it(store: Store) -> None:
    memory = replica(store)
    for number in range(6):
        memory.clock.now_s -= 1000 * (number % 3)
        memory.say(replace(turn(number), said_at_s=1.0))
    turns = memory.talks.last(memory.scope(), "ann", "talk", 10).turns
    assert [each.id for each in turns] == [f"turn-{number}" for number in range(6)]
    ages_s = [1_800_000_000.0 - each.said_at_s for each in turns]
    assert ages_s == [0, 1000, 3000, 3000, 4000, 6000]
    page = memory.talks.turns(TENANT, "ada", "ann", "talk", 2, "").turns
    assert [each.id for each in page] == ["turn-5", "turn-4"]


def test_writers_at_once_lose_nothing_and_every_reader_sees_one_order(store: Store) -> None:
    replicas = [replica(store), *(Replica(store) for _ in range(3))]

    def write(number: int) -> None:
        for each in range(8):
            replicas[number].say(turn(100 * number + each))
            replicas[number].say(turn(9999))  # All of them, many times, the same.

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    (names,) = {tuple(memory.last()) for memory in (*replicas, Replica(store))}
    own = [[f"turn-{100 * number + each}" for each in range(8)] for number in range(4)]
    assert sorted(names) == sorted([*itertools.chain(*own), "turn-9999"])
    for written in own:
        assert [name for name in names if name in written] == written
    rows = {name.rpartition("/")[2].partition("-")[2] for name in replicas[0].rows()}
    assert rows == set(names)


def test_a_writer_between_the_steps_of_another_gets_the_same_place_and_the_id_decides(fake: FakeStore) -> None:
    memory = replica(fake)
    memory.say(turn(1))
    entered = once(fake, "create", "/turn-ids/", lambda: memory.say(turn(3)))
    memory.say(turn(2))
    assert entered
    assert memory.last() == Replica(fake).last()
    assert memory.last()[0] == "turn-1"
    assert set(memory.last()) == {"turn-1", "turn-2", "turn-3"}


def test_the_same_turn_id_from_two_writers_at_once_is_one_turn(fake: FakeStore) -> None:
    memory = replica(fake)

    def others() -> None:
        memory.say(turn(2))
        memory.say(turn(1))

    entered = once(fake, "create", "/turn-ids/", others)
    memory.say(replace(turn(1), reply_text="the slower one"))
    assert entered
    turns = memory.talks.last(memory.scope(), "ann", "talk", 4).turns
    assert [(each.id, each.reply_text) for each in turns] == [("turn-2", "answer 2"), ("turn-1", "answer 1")]
    assert len(memory.rows()) == 2


def test_a_turn_killed_at_any_step_is_kept_or_not_and_once_with_one_row_when_it_is_sent_again() -> None:
    for step in range(100):
        store = FakeStore()
        memory = replica(store)
        memory.say(turn(1))
        killed = killed_at(store, step, lambda memory=memory: memory.say(turn(2)))  # type: ignore[misc]
        after = Replica(store)
        after.clock.now_s += 100
        assert after.last() in (["turn-1"], ["turn-1", "turn-2"])
        after.say(turn(2))
        after.say(turn(3))
        assert after.last() == ["turn-1", "turn-2", "turn-3"]
        assert [row.rpartition("-")[2] for row in sorted(after.rows(), reverse=True)] == ["1", "2", "3"]
        assert len(keys_of(store, "/turn-ids/")) == 3
        if not killed:
            assert step > 8
            return
    pytest.fail("the turn was never kept")


def test_a_turn_is_kept_though_its_rows_cannot_be_merged_now(fake: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    memory = replica(fake)
    said = next(each for each in map(turn, range(200)) if not tidies_up(each.id))
    merging = next(each for each in map(turn, range(200)) if tidies_up(each.id))

    def away(operation: str, key: str) -> None:
        if operation == "list" and "/vectors/" in key:
            raise NotReady("the store is away")

    fake.before = away
    memory.say(said)
    assert [record.message for record in caplog.records] == ["vectors of another model are not made anew"]
    caplog.clear()
    memory.say(merging)
    assert [record.message for record in caplog.records][:1] == ["vectors are not merged"]
    assert memory.last() == [said.id, merging.id]


def test_many_turns_leave_few_blocks(fake: FakeStore) -> None:
    memory = replica(fake)
    for number in range(200):
        memory.say(turn(number))
    assert len(memory.rows()) == 200
    assert len(keys_of(fake, "/vectors/")) < 64 + 2 * 16


@pytest.mark.parametrize("text", ["...", "😀 !", "nowhere"])
def test_what_has_no_meaning_is_kept_without_a_row(fake: FakeStore, text: str) -> None:
    memory = replica(fake)
    memory.say(turn(1, text))
    assert memory.last() == ["turn-1"]
    assert keys_of(fake, "/vectors/") == []


def test_without_the_permission_no_turn_is_kept(fake: FakeStore) -> None:
    memory = Replica(fake)
    memory.add(uses=(Use.ANIMATE_FACE, Use.CLONE_VOICE, Use.INFER_EMOTION))
    objects = dict(fake.objects)
    with pytest.raises(FailedPrecondition, match="keep_turns"):
        memory.say(turn(1))
    assert fake.objects == objects


def test_a_turn_of_an_unknown_identity_is_not_found(fake: FakeStore) -> None:
    with pytest.raises(NotFound, match="'bob'"):
        replica(fake).say(turn(1), identity="bob")


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "é", "a" * 64, "a_b", "a\n"])
def test_a_name_that_is_not_allowed_is_refused(fake: FakeStore, name: str) -> None:
    memory = replica(fake)
    objects = dict(fake.objects)
    for field, ask in (
        ("conversation", lambda: memory.say(turn(1), name)),
        ("person", lambda: memory.say(turn(1), person=name)),
        ("turn.id", lambda: memory.say(replace(turn(1), id=name))),
        ("conversation", lambda: memory.last(name)),
        ("person", lambda: memory.last(person=name)),
    ):
        with pytest.raises(InvalidRequest, match=f"^{field}: .*use 1 to 63 letters"):
            ask()
    assert fake.objects == objects


@pytest.mark.parametrize("name", ["a", "-", "A-1", "x" * 63])
def test_every_allowed_name_works(store: Store, name: str) -> None:
    memory = replica(store)
    memory.say(replace(turn(1), id=name), name, name)
    assert memory.last(name, name) == [name]


def test_a_turn_whose_time_is_over_is_not_kept_again(fake: FakeStore) -> None:
    memory = replica(fake)
    memory.say(turn(1))
    fake.delete(keys_of(fake, "/turns/"))
    fake.put(memory.talk().turn_id("talk", "turn-1"), PLACES.encode(Place(0, 0.0)))
    memory.say(turn(1))
    assert memory.last() == []


def test_turns_of_an_archive_are_restored_at_their_places_and_found(fake: FakeStore) -> None:
    memory = replica(fake)
    memory.say(turn(1))
    memory.say(turn(2, "the dog barks"))
    page = memory.talks.turns(TENANT, "ada", "ann", "talk", 50, "").turns
    placed = [key.rpartition("/")[2] for key in keys_of(fake, "/turns/")]
    other = Replica(FakeStore())
    other.add()
    talk = other.persons.made(other.scope(), "ann", "talk")
    other.talks.restore(talk, "talk", list(zip(placed, page, strict=True)))
    assert other.talks.turns(TENANT, "ada", "ann", "talk", 50, "") == Turns(page)
    assert other.embedder.read == ["the dog barks", "question 1"]
    assert sorted(other.rows()) == sorted(f"talk/{each}" for each in placed)
    other.say(turn(2))
    assert other.last() == ["turn-1", "turn-2"]
    with pytest.raises(InvalidRequest, match="is no place of turn 'turn-3'"):
        other.talks.restore(talk, "talk", [(placed[0], turn(3))])
