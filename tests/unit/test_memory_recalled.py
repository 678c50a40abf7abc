"""A turn for which somebody was recalled is kept with them or not at all, whoever has their name by then."""

import pytest

from services.common.errors import FailedPrecondition, NotFound
from services.memory.domain import Change, ClipKind, Grant, Recalled, Use
from services.memory.forgetting.erasing import Eraser
from tests.fake_store import FakeStore
from tests.talking import MP4, TENANT, WAV, Replica, keys_of, once, turn


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def memory(store: FakeStore) -> Replica:
    made = Replica(store)
    made.add()
    made.say(turn(1))
    return made


def recalled(memory: Replica) -> Recalled:
    return Recalled(memory.scope().generation, memory.talk().generation)


def remember(memory: Replica, whom: Recalled, number: int = 2) -> None:
    memory.talks.remember(TENANT, "ada", "ann", "talk", turn(number), whom)


def test_it_is_kept_with_those_who_were_recalled(memory: Replica) -> None:
    remember(memory, recalled(memory))
    assert memory.last() == ["turn-1", "turn-2"]


def test_it_is_not_kept_with_another_identity_of_that_id(memory: Replica, store: FakeStore) -> None:
    before = recalled(memory)
    Eraser(store, 70).identity(TENANT, "ada", "the test")
    memory.add()
    there = keys_of(store)
    with pytest.raises(NotFound, match="identity 'ada' was erased since it was recalled"):
        remember(memory, before)
    assert keys_of(store) == there


@pytest.mark.parametrize("came_back", [False, True])
def test_it_is_not_kept_with_a_person_who_was_erased(memory: Replica, store: FakeStore, came_back: bool) -> None:
    before = recalled(memory)
    Eraser(store, 70).person(TENANT, "ann", "", "the test")
    if came_back:
        memory.say(turn(7))
    there = keys_of(store)
    with pytest.raises(NotFound, match="person 'ann' was erased meanwhile"):
        remember(memory, before)
    assert keys_of(store) == there


def test_an_erasure_at_the_moment_of_keeping_leaves_nothing(memory: Replica, store: FakeStore) -> None:
    entered = once(store, "create", "/persons-of/", lambda: Eraser(store, 70).person(TENANT, "ann", "", "the test"))
    with pytest.raises(NotFound, match="person 'ann' was erased meanwhile"):
        remember(memory, recalled(memory))
    assert entered
    assert keys_of(store, "/people/") == keys_of(store, "/persons-of/") == keys_of(store, "/persons/") == []


def test_whoever_was_not_known_yet_becomes_known(memory: Replica) -> None:
    scope = memory.scope()
    memory.talks.remember(TENANT, "ada", "bob", "talk", turn(1), Recalled(scope.generation, ""))
    assert memory.last(person="bob") == ["turn-1"]


@pytest.mark.parametrize(
    ("left", "handed_out"),
    [
        ({Use.KEEP_TURNS}, set()),
        ({Use.KEEP_TURNS, Use.CLONE_VOICE}, {ClipKind.SPEECH}),
        ({Use.KEEP_TURNS, Use.ANIMATE_FACE}, set()),
        ({Use.CLONE_VOICE, Use.ANIMATE_FACE}, {ClipKind.SPEECH, ClipKind.VIDEO}),
    ],
)
def test_a_clip_is_handed_out_while_its_likeness_is_allowed(
    memory: Replica, left: set[Use], handed_out: set[ClipKind]
) -> None:
    clips = {ClipKind.SPEECH: WAV, ClipKind.VIDEO: MP4}
    for kind, content in clips.items():
        memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", kind, content)
    grants = tuple(Grant(use, "the test", "2026-01-31") for use in sorted(left))
    memory.registry.change(TENANT, "ada", Change(1, grants=grants))
    for kind, content in clips.items():
        if kind in handed_out:
            assert memory.talks.clip(TENANT, "ada", "ann", "talk", "turn-1", kind) == content
            continue
        with pytest.raises(FailedPrecondition, match=r"clone_voice|animate_face"):
            memory.talks.clip(TENANT, "ada", "ann", "talk", "turn-1", kind)
