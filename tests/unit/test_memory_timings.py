"""How long the stages of a turn took, which is known when the turn has long been kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import FailedPrecondition, InvalidRequest, NotFound
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Sought, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.store import Store
from services.memory.talks import conversation
from tests.archiving import OTHER, House
from tests.erasing import ERASE
from tests.fake_store import FakeStore
from tests.talking import TENANT, Replica, keys_of, killed_at, once, turn

FIRST, LAST = {"vote": 0.25}, {"vote": 0.25, "speech": 1.5, "turn": 2.0}


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def replica(store: Store) -> Replica:
    memory = Replica(store)
    memory.add()
    for number in (1, 2):
        memory.say(replace(turn(number), timings_s=FIRST))
    return memory


def put(memory: Replica, timings_s: dict[str, float] = LAST, turn_id: str = "turn-1", person: str = "ann") -> None:
    memory.talks.put_timings(TENANT, "ada", person, "talk", turn_id, timings_s)


def listed(memory: Replica) -> dict[str, dict[str, float]]:
    page = memory.talks.turns(TENANT, "ada", "ann", "talk", 50, "").turns
    return {each.id: each.timings_s for each in page}


def test_they_take_the_place_of_those_that_came_with_the_turn(store: Store) -> None:
    memory = replica(store)
    put(memory)
    assert listed(memory) == listed(Replica(store)) == {"turn-1": LAST, "turn-2": FIRST}


def test_those_that_came_first_stay(store: Store) -> None:
    memory = replica(store)
    put(memory)
    put(memory, {"turn": 9.0})
    assert listed(memory)["turn-1"] == LAST
    assert len(keys_of(store, "/timings/")) == 1


def test_they_are_listed_and_neither_recalled_nor_found(store: Store) -> None:
    memory = replica(store)
    put(memory)
    assert [each.timings_s for each in memory.talks.last(memory.scope(), "ann", "talk", 9).turns] == [{}, {}]
    hits = memory.talks.search(TENANT, "ada", "ann", "talk", Sought("question"))
    assert [(hit.turn.timings_s, hit.turn.vote_record) for hit in hits] == [({}, "")] * 2


def test_a_page_asks_once_which_turns_have_some(fake: FakeStore) -> None:
    memory = Replica(fake)
    memory.add()
    for number in range(30):
        memory.say(replace(turn(number), timings_s=FIRST))
        if number % 3:
            put(memory, LAST, f"turn-{number}")
    asked: list[str] = []
    fake.before = lambda operation, key: asked.append(operation) if "/timings/" in key else None
    listed = memory.talks.turns(TENANT, "ada", "ann", "talk", 20, "")
    page, following = listed.turns, listed.following
    rest = memory.talks.turns(TENANT, "ada", "ann", "talk", 20, following).turns
    assert {each.id: each.timings_s for each in (*page, *rest)} == {
        f"turn-{number}": LAST if number % 3 else FIRST for number in range(30)
    }
    assert (asked.count("list"), asked.count("get")) == (2, 20)


def test_times_of_turns_that_are_gone_do_not_hide_those_of_others(fake: FakeStore) -> None:
    memory = replica(fake)
    for number in range(3, 20):
        memory.say(turn(number))
        put(memory, turn_id=f"turn-{number}")
    put(memory)
    fake.delete([key for key in keys_of(fake, "/turns/") if key[-1] in "3456789"])
    assert {name for name, timings_s in listed(memory).items() if timings_s == LAST} == {
        "turn-1",
        *(f"turn-{number}" for number in (10, 11, 12)),
    }
    page = memory.talks.turns(TENANT, "ada", "ann", "talk", 5, "").turns
    assert page[-1].timings_s == LAST


def test_without_turn_identity_or_permission_none_are_kept(fake: FakeStore) -> None:
    memory = replica(fake)
    memory.add("bob", uses=(Use.CLONE_VOICE,))
    asked: dict[str, tuple[type[Exception], Callable[[], None]]] = {
        "turn 'turn-3' is unknown": (NotFound, lambda: put(memory, turn_id="turn-3")),
        "turn 'turn-1' is unknown": (NotFound, lambda: put(memory, person="eve")),
        "'eve' is unknown": (
            NotFound,
            lambda: memory.talks.put_timings(TENANT, "eve", "ann", "talk", "turn-1", LAST),
        ),
        "keep_turns": (
            FailedPrecondition,
            lambda: memory.talks.put_timings(TENANT, "bob", "ann", "talk", "turn-1", LAST),
        ),
    }
    for said, (error, ask) in asked.items():
        with pytest.raises(error, match=said):
            ask()
    assert keys_of(fake, "/timings/") == []


@pytest.mark.parametrize(
    ("timings_s", "said"),
    [
        ({}, r"^timings_s: it is empty"),
        ({"vote": -1.0}, r"^timings_s\['vote'\]: -1.0 is not allowed"),
        ({"vote": float("nan")}, r"^timings_s\['vote'\]: nan"),
        ({str(number): 1.0 for number in range(33)}, r"^timings_s: it has 33 entries; give at most 32"),
        ({"x" * 101: 1.0}, r"^timings_s: name"),
    ],
)
def test_what_cannot_be_times_is_refused(fake: FakeStore, timings_s: dict[str, float], said: str) -> None:
    memory = replica(fake)
    with pytest.raises(InvalidRequest, match=said):
        put(memory, timings_s)
    assert listed(memory)["turn-1"] == FIRST


def test_killed_at_any_step_they_are_the_old_ones_or_the_new_ones() -> None:
    seen = []
    for step in range(50):
        store = FakeStore()
        memory = replica(store)
        killed = killed_at(store, step, lambda memory=memory: put(memory))  # type: ignore[misc]
        seen.append(listed(Replica(store))["turn-1"])
        if not killed:
            break
    assert seen == [FIRST] * seen.count(FIRST) + [LAST] * seen.count(LAST)
    assert seen[0] == FIRST
    assert seen[-1] == LAST


@pytest.mark.parametrize("what", list(ERASE))
def test_those_that_come_during_an_erasure_are_not_kept(fake: FakeStore, what: str) -> None:
    memory = replica(fake)
    entered = once(fake, "create", "/timings/", lambda: ERASE[what](Eraser(fake, 70)))
    with pytest.raises(NotFound):
        put(memory)
    assert entered
    assert keys_of(fake, "/people/") == []


@pytest.mark.parametrize("what", list(ERASE))
def test_they_go_with_an_erasure_which_counts_them(fake: FakeStore, what: str) -> None:
    memory = replica(fake)
    put(memory)
    audit = ERASE[what](Eraser(fake, 70))
    assert {row.kind: row.objects for row in audit.counts}["timings"] == 1
    assert keys_of(fake, "/timings/") == []


def test_an_archive_has_the_last_ones() -> None:
    house = House()
    house.fill()
    house.memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-1", LAST)
    content = house.content()
    house.imported(house.exported())
    assert house.content(OTHER) == content
    page = house.memory.talks.turns(OTHER, "ada", "ann", "talk", 50, "").turns
    assert {each.id: each.timings_s for each in page}["turn-1"] == LAST


def test_a_page_counts_them_into_what_a_message_holds(monkeypatch: pytest.MonkeyPatch, fake: FakeStore) -> None:
    memory = replica(fake)
    for number in (1, 2):
        put(memory, {f"{stage:0100}": 1e-9 for stage in range(32)}, f"turn-{number}")
    monkeypatch.setattr(conversation, "BYTES_MAX", 6000)
    listed = memory.talks.turns(TENANT, "ada", "ann", "talk", 50, "")
    page, following = listed.turns, listed.following
    assert ([each.id for each in page], bool(following)) == (["turn-2"], True)
