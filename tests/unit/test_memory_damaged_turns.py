"""A damaged turn is never served and always named, and hides no other."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import Damaged
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Sought
from services.memory.records import damaged
from services.memory.store import Store, content_of
from services.memory.talks import conversation
from services.memory.talks.conversation import TURNS_MAX, Turns
from services.memory.talks.talks import PAGE_MAX
from tests.archiving import House
from tests.fake_store import FakeStore
from tests.memory_service import memory_over
from tests.talking import TENANT, Replica, keys_of, turn

WRONG = "is damaged: its SHA-256 does not match"


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def replica(store: Store, turns: int) -> Replica:
    """A memory in which turns were said, the first one of number 1."""
    made = Replica(store)
    made.add()
    for number in range(1, turns + 1):
        made.say(turn(number))
    return made


def damage(store: Store, *numbers: int, kind: str = "turns") -> list[str]:
    """Flips a bit of these turns, or of their timings; returns how what is told of each begins."""
    found = []
    for number in numbers:
        (key,) = (key for key in keys_of(store, f"/{kind}/talk/") if key.endswith(f"-turn-{number}"))
        content = content_of(store.get(key)) or b""
        store.put(key, content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        found.append(f"stored object {key!r} {WRONG}")
    return found


def page(memory: Replica, size: int = 50, after: str = "") -> Turns:
    return memory.talks.turns(TENANT, "ada", "ann", "talk", size, after)


def ids(turns: Turns) -> list[str]:
    return [each.id for each in turns.turns]


def told(turns: Turns, begin: list[str]) -> bool:
    """Whether just that is told which begins so."""
    pairs = zip(turns.damaged, begin, strict=True)
    return all(problem.startswith(expected) for problem, expected in pairs)


def test_the_last_turns_are_recalled_but_damaged_ones_which_are_named(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    memory = replica(store, 5)
    wrong = damage(store, 5, 2)
    last = memory.talks.last(memory.scope(), "ann", "talk", 1000)
    assert (ids(last), told(last, wrong)) == (["turn-1", "turn-3", "turn-4"], True)
    assert [said.message for said in caplog.records] == ["a turn is damaged"] * 2
    assert tuple(said.why for said in caplog.records) == last.damaged  # type: ignore[attr-defined]
    last = memory.talks.last(memory.scope(), "ann", "talk", 2)
    assert (ids(last), told(last, wrong[:1])) == (["turn-4"], True)


def test_how_it_felt_is_told_of_the_turns_that_can_be_read(fake: FakeStore) -> None:
    memory = replica(fake, 0)
    for number, emotion in enumerate(("sad", "angry", "sad"), start=1):
        memory.say(replace(turn(number), user_emotion=emotion, user_intensity=1.0))
    damage(fake, 2)
    recalled = memory_over(fake).recall(TENANT, "ada", "ann", "talk", 1)
    assert dict(recalled.trajectory.weights) == {"sad": 1.0}
    assert ([each.id for each in recalled.turns], len(recalled.damaged)) == (["turn-3"], 1)


def test_as_many_turns_are_recalled_as_were_asked_for_though_the_last_is_damaged(fake: FakeStore) -> None:
    replica(fake, 6)
    wrong = damage(fake, 6)
    recalled = memory_over(fake).recall(TENANT, "ada", "ann", "talk", 2)
    assert [each.id for each in recalled.turns] == ["turn-4", "turn-5"]
    assert told(Turns(damaged=recalled.damaged), wrong)


def test_a_damaged_turn_that_is_repaired_is_recalled_at_once(fake: FakeStore) -> None:
    replica(fake, 2)
    whole = dict(fake.objects)
    damage(fake, 1)
    memory = memory_over(fake)
    for _ in range(2):
        assert len(memory.recall(TENANT, "ada", "ann", "talk", 4).damaged) == 1
    fake.objects.update(whole)
    recalled = memory.recall(TENANT, "ada", "ann", "talk", 4)
    assert ([each.id for each in recalled.turns], recalled.damaged) == (["turn-1", "turn-2"], ())


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_pages_go_past_damaged_turns_and_name_each_once(store: Store, size: int) -> None:
    memory = replica(store, 5)
    wrong = damage(store, 5, 3, 2)
    names: list[str] = []
    problems: list[str] = []
    after = ""
    while True:
        read = page(memory, size, after)
        assert len(read.turns) + len(read.damaged) == min(size, 5 - len(names) - len(problems))
        names += ids(read)
        problems += read.damaged
        if not (after := read.following):
            break
    assert (names, told(Turns(damaged=tuple(problems)), wrong)) == (["turn-4", "turn-1"], True)


def test_a_turn_whose_last_timings_are_damaged_has_its_first_ones(store: Store) -> None:
    memory = replica(store, 0)
    for number in (1, 2):
        memory.say(replace(turn(number), timings_s={"vote": 0.25}))
        memory.talks.put_timings(TENANT, "ada", "ann", "talk", f"turn-{number}", {"turn": 2.0})
    wrong = damage(store, 2, kind="timings")
    read = page(memory)
    assert [each.timings_s for each in read.turns] == [{"vote": 0.25}, {"turn": 2.0}]
    assert told(read, wrong)
    assert memory.talks.last(memory.scope(), "ann", "talk", 9).damaged == ()  # it tells no timings


def test_damage_is_told_on_the_page_of_its_turn_only(fake: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = replica(fake, 3)
    for number in (1, 2, 3):
        memory.talks.put_timings(TENANT, "ada", "ann", "talk", f"turn-{number}", {"turn": 2.0})
    wrong = damage(fake, 3, 2, 1, kind="timings")
    monkeypatch.setattr(conversation, "BYTES_MAX", 400)  # one turn
    pages = [read := page(memory)]
    while read.following:
        pages.append(read := page(memory, after=read.following))
    assert [ids(read) for read in pages] == [["turn-3"], ["turn-2"], ["turn-1"]]
    assert all(told(read, [problem]) for read, problem in zip(pages, wrong, strict=True))


def test_a_turn_that_the_store_itself_says_is_damaged_hides_no_other(fake: FakeStore) -> None:
    memory = replica(fake, 2)
    (key,) = (key for key in keys_of(fake, "/turns/") if key.endswith("-turn-1"))

    def check(operation: str, asked: str) -> None:
        if (operation, asked) == ("get", key):
            raise damaged(key, "what arrived is not what the store says it holds")

    fake.before = check
    for read in (page(memory), memory.talks.last(memory.scope(), "ann", "talk", 9)):
        assert (ids(read), len(read.damaged)) == (["turn-2"], 1)
        assert "what arrived is not" in read.damaged[0]


def test_a_search_passes_over_a_damaged_turn(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    memory = replica(store, 3)
    (wrong,) = damage(store, 2)
    hits = memory.talks.search(TENANT, "ada", "ann", "", Sought("question 2", 2, -1, here="talk"))
    assert {(hit.turn.id, hit.turns_ago) for hit in hits} == {("turn-1", 3), ("turn-3", 1)}
    (said,) = caplog.records
    assert said.why.startswith(wrong)  # type: ignore[attr-defined]


def test_as_many_damaged_turns_as_can_be_asked_for_fit_into_a_message(fake: FakeStore) -> None:
    memory = replica(fake, 0)
    name = "x" * 63
    memory.say(replace(turn(1), id=name), name, name)
    talk = memory.talk(name, name)
    for number in range(TURNS_MAX):
        fake.put(talk.turn(name, f"{number:010d}-{name}"), b"")
    last = memory.talks.last(memory.scope(), name, name, TURNS_MAX)
    assert (len(last.damaged), sum(map(len, last.damaged)) < 2**20 / 2) == (TURNS_MAX, True)
    read = memory.talks.turns(TENANT, "ada", name, name, PAGE_MAX, "")
    assert (read.turns, len(read.damaged), read.following) == ((), PAGE_MAX, f"{PAGE_MAX - 1:010d}-{name}")


@pytest.mark.parametrize("kind", ["turns", "timings"])
def test_an_archive_is_whole_or_an_error_that_names_what_is_damaged(kind: str) -> None:
    house = House()
    house.fill()
    house.memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-1", {"turn": 2.0})
    key = next(key for key in keys_of(house.store, f"/{kind}/talk/") if key.endswith("-turn-1") and "/p-ann" in key)
    house.store.put(key, b"")
    with pytest.raises(Damaged, match=re.escape(key)):
        house.exported()
