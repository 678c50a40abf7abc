"""What a person has not allowed, or no longer allows, is refused; and only whole permissions are kept."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from services.common.errors import FailedPrecondition, InvalidRequest, TooLarge
from services.memory.domain import Change, Grant, Use
from services.memory.registry.registry import Registry
from tests.avatars import ADA, digest, film, grants, portrait, voice
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock

FACE, VOICE = grants([Use.ANIMATE_FACE, Use.CLONE_VOICE])


def at(time: str) -> Clock:
    return Clock(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp())


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def replica(fake: FakeStore, *allowed: Grant, time: str = "2026-02-28T12:00:00") -> Registry:
    """Ada with these permissions, at that time."""
    registry = Registry(fake, at(time))
    registry.add(TENANT, replace(ADA, grants=allowed))
    return registry


@pytest.mark.parametrize("use", list(Use))
def test_each_use_needs_its_own_permission(fake: FakeStore, use: Use) -> None:
    registry = replica(fake, *grants([use]))
    assert registry.found(TENANT, "ada", [use]).identity.id == "ada"
    assert registry.found(TENANT, "ada").identity.id == "ada"
    for other in set(Use) - {use}:
        with pytest.raises(FailedPrecondition, match=f"no permission for {other} "):
            registry.found(TENANT, "ada", [use, other])


def test_a_refusal_names_what_is_missing_since_when_what_is_allowed_and_what_to_do(fake: FakeStore) -> None:
    ended = Grant(Use.KEEP_TURNS, "Ada's mother", "2026-01-01", "the play", until="2026-01-31")
    registry = replica(fake, FACE, ended)
    registry.change(TENANT, "ada", Change(1, profile=replace(ADA.profile, name="Augusta")))
    with pytest.raises(FailedPrecondition) as refusal:
        registry.found(TENANT, "ada", [Use.KEEP_TURNS, Use.ANIMATE_FACE, Use.CLONE_VOICE])
    assert str(refusal.value) == (
        "identity 'ada': there is no permission for clone_voice (version 2 of 2026-02-28); the permission for"
        " keep_turns by Ada's mother of 2026-01-01 ended with 2026-01-31; allowed is animate_face by the test since"
        " 2026-01-31; whoever may allow it does so with"
        " `e3rg identity change ada --grant clone_voice --grant keep_turns --granted-by NAME`"
    )
    registry.change(TENANT, "ada", Change(2, grants=()))
    with pytest.raises(FailedPrecondition, match=r"allowed is nothing; .*--grant animate_face --granted-by NAME`"):
        registry.found(TENANT, "ada", [Use.ANIMATE_FACE])


@pytest.mark.parametrize(
    ("time", "holds"),
    [
        ("2026-02-28T00:00:00", True),
        ("2026-03-01T23:59:59.999", True),
        ("2026-03-02T00:00:00", False),
        ("2030-01-01T00:00:00", False),
    ],
)
def test_a_permission_holds_to_the_end_of_its_last_day(fake: FakeStore, time: str, holds: bool) -> None:
    replica(fake, replace(VOICE, until="2026-03-01"))
    later = Registry(fake, at(time))
    if holds:
        assert later.found(TENANT, "ada", [Use.CLONE_VOICE])
        assert later.reference(TENANT, "ada", digest(voice())) == voice().content
        return
    for ask in (
        lambda: later.found(TENANT, "ada", [Use.CLONE_VOICE]),
        lambda: later.reference(TENANT, "ada", digest(voice())),
    ):
        with pytest.raises(FailedPrecondition, match=r"permission for clone_voice .* ended with 2026-03-01"):
            ask()


@pytest.mark.parametrize(
    ("time", "holds"),
    [("2026-02-27T09:59:59", False), ("2026-02-27T10:00:00", True), ("2026-02-28T12:00:00", True)],
)
def test_a_permission_holds_from_its_first_day_wherever_that_begins_first(
    fake: FakeStore, time: str, holds: bool
) -> None:
    replica(fake, replace(VOICE, granted_on="2026-02-28"))
    earlier = Registry(fake, at(time))
    if holds:
        assert earlier.found(TENANT, "ada", [Use.CLONE_VOICE])
        return
    with pytest.raises(FailedPrecondition, match=r"permission for clone_voice .* of 2026-02-28 has not begun"):
        earlier.found(TENANT, "ada", [Use.CLONE_VOICE])


def test_a_file_is_lent_for_what_is_allowed_only(fake: FakeStore) -> None:
    registry = replica(fake, FACE)
    registry.change(TENANT, "ada", Change(1, added=(film(),)))
    assert registry.reference(TENANT, "ada", digest(portrait())) == portrait().content
    assert registry.reference(TENANT, "ada", digest(film())) == film().content
    with pytest.raises(FailedPrecondition, match="clone_voice"):
        registry.reference(TENANT, "ada", digest(voice()))
    registry.change(TENANT, "ada", Change(2, grants=(VOICE,)))
    assert registry.reference(TENANT, "ada", digest(voice())) == voice().content
    for file in (portrait(), film()):
        with pytest.raises(FailedPrecondition, match="animate_face"):
            registry.reference(TENANT, "ada", digest(file))


def test_an_unknown_use_is_refused_before_anything_is_read(fake: FakeStore) -> None:
    registry = replica(fake, FACE)
    calls: list[str] = []
    fake.before = lambda operation, key: calls.append(key)
    with pytest.raises(InvalidRequest, match=r"^uses: 'fly' is unknown; use one of: animate_face, clone_voice, infer_"):
        registry.found(TENANT, "ada", ["animate_face", "fly"])
    assert calls == []


WRONG = [
    ("[0].use", [replace(FACE, use="fly")]),
    ("[0].use", [replace(FACE, use="")]),
    ("[0].use", [replace(FACE, use="Animate_face")]),
    ("[2].use", [FACE, VOICE, replace(FACE, granted_by="another")]),
    ("[1].granted_by", [FACE, replace(VOICE, granted_by=" ")]),
    ("[1].granted_by", [FACE, replace(VOICE, granted_by="x" * 101)]),
    ("[0].granted_by", [replace(FACE, granted_by="the test\nand nobody")]),
    ("[0].granted_on", [replace(FACE, granted_on="2026-02-30")]),
    ("[0].granted_on", [replace(FACE, granted_on="20260203")]),
    ("[0].granted_on", [replace(FACE, granted_on="2026-2-3")]),
    ("[0].granted_on", [replace(FACE, granted_on="")]),
    ("[0].granted_on", [replace(FACE, granted_on="2026-01-31\n")]),
    ("[0].granted_on", [replace(FACE, granted_on="２０２６-01-31")]),  # noqa: RUF001 - digits of another width
    ("[0].purpose", [replace(FACE, purpose="x" * 501)]),
    ("[1].until", [VOICE, replace(FACE, until="2026-01-30")]),
    ("[0].until", [replace(FACE, until="2026-13-01")]),
    ("[0].until", [replace(FACE, until="for ever")]),
]


@pytest.mark.parametrize(("field", "wrong"), WRONG)
def test_a_wrong_permission_is_named_by_its_place_and_nothing_is_kept(
    fake: FakeStore, field: str, wrong: list[Grant]
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(f'header.grants{field}')}: ") as refusal:
        Registry(fake).add(TENANT, replace(ADA, grants=tuple(wrong)))
    assert str(refusal.value).isascii()
    assert fake.objects == {}
    registry = replica(fake, FACE)
    before = dict(fake.objects)
    with pytest.raises(InvalidRequest, match=f"^{re.escape(f'header.grants{field}')}: "):
        registry.change(TENANT, "ada", Change(1, grants=tuple(wrong)))
    assert fake.objects == before


def test_somebody_has_to_allow_something(fake: FakeStore) -> None:
    with pytest.raises(InvalidRequest, match=r"^header\.grants: it is empty; allow at least one of: animate_face, "):
        Registry(fake).add(TENANT, replace(ADA, grants=()))
    with pytest.raises(TooLarge, match="granted_by: it has 101 characters; give at most 100"):
        Registry(fake).add(TENANT, replace(ADA, grants=(replace(FACE, granted_by="x" * 101),)))


def test_a_permission_for_one_day_is_one(fake: FakeStore) -> None:
    registry = replica(fake, replace(FACE, until=FACE.granted_on), time=f"{FACE.granted_on}T23:59:59")
    assert registry.found(TENANT, "ada", [Use.ANIMATE_FACE])
