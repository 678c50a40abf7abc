"""A change makes the next version, whole or not at all."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import Damaged, FailedPrecondition, InvalidRequest, NotFound, NotReady, TooLarge
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Change, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.store import Store
from tests.avatars import (
    ADA,
    BIG,
    MODEL,
    added,
    change,
    derived,
    digest,
    film,
    grants,
    kept,
    named,
    portrait,
    read,
    reader_of,
    registry,
    voice,
)
from tests.fake_store import FakeStore
from tests.talking import TENANT, keys_of, killed_at


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return added(FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path))


@pytest.fixture
def fake() -> FakeStore:
    store = FakeStore()
    added(store)
    return store


def test_a_change_is_the_next_version_and_the_earlier_one_can_still_be_read(store: Store) -> None:
    (before,) = reader_of(store)
    after = change(store, BIG)
    assert (after.version, after.generation, after.emotion_bank) == (2, before.generation, "calm")
    assert (after.profile.name, {grant.use for grant in after.grants}) == (
        "Ada Lovelace",
        {Use.ANIMATE_FACE, Use.CLONE_VOICE},
    )
    assert [reference.digest for reference in after.references] == [
        digest(file) for file in (portrait(), voice("new"), film())
    ]
    assert reader_of(store) == (after, before)
    last = change(store, Change(2, profile=ADA.profile))
    assert reader_of(store) == (last, after, before)
    assert last == replace(after, profile=ADA.profile, version=3)
    for version in (4, -1):
        with pytest.raises(NotFound, match=f"'ada' has no version {version}; it is at 3"):
            registry(store).identity(TENANT, "ada", version)


def test_a_change_to_what_it_is_already_is_none(fake: FakeStore) -> None:
    (identity,) = reader_of(fake)
    before = dict(fake.objects)
    same = Change(1, identity.profile, identity.grants, identity.emotion_bank)
    assert registry(fake).change(TENANT, "ada", same) == identity
    assert fake.objects == before


def test_what_a_change_does_not_name_stays(store: Store) -> None:
    (before,) = reader_of(store)
    for number, one in enumerate(
        (Change(1, profile=BIG.profile), Change(2, grants=BIG.grants), Change(3, emotion_bank="calm")), 2
    ):
        change(store, one)
        assert derived(store, voice()) == voice().content[::-1]
        assert reader_of(store)[0].version == number
    after = reader_of(store)[0]
    assert after == replace(
        before, version=4, profile=BIG.profile or before.profile, grants=BIG.grants or (), emotion_bank="calm"
    )


def test_removed_files_go_with_what_was_derived_from_them_and_nothing_else_goes(store: Store) -> None:
    change(store, Change(1, added=(voice("two"), voice("three"))))
    for files in ([voice("two")], [voice(), voice("two"), voice("three")], [voice("two"), voice("three")]):
        registry(store).keep_derived(TENANT, "ada", [digest(file) for file in files], MODEL, b"x")
    after = change(store, Change(2, removed=(digest(voice()),)))
    assert kept(store, "/derived/") == named(after)
    scope = registry(store).found(TENANT, "ada").scope
    sources = {key.partition("/derived/")[2].partition("-")[0] for key in kept(store) if "/derived/" in key}
    pair = keys.source_of([digest(voice("two")), digest(voice("three"))])
    assert sources == {f"portrait/{digest(portrait())}", f"voice/{digest(voice('two'))}", f"voice/{pair}"}
    with pytest.raises(NotFound, match=digest(voice())):
        registry(store).reference(TENANT, "ada", digest(voice()))
    again = change(store, Change(3, added=(voice(),)))
    assert registry(store).reference(TENANT, "ada", digest(voice())) == voice().content
    assert scope.reference(digest(voice()), 4) in named(again)
    with pytest.raises(NotFound, match="derived nothing"):
        derived(store, voice())


def test_what_was_derived_does_not_outlive_the_permission_but_the_files_stay(store: Store) -> None:
    change(store, Change(1, added=(film(),)))
    registry(store).keep_derived(TENANT, "ada", [digest(film())], MODEL, b"x")
    change(store, Change(2, grants=grants([Use.ANIMATE_FACE])))
    assert sorted(key.split("/")[6] for key in kept(store) if "/derived/" in key) == ["film", "portrait"]
    ended = replace(grants([Use.CLONE_VOICE])[0], until="2026-02-01")
    after = change(store, Change(3, grants=(ended,)))
    assert kept(store) == named(after)
    for file in (portrait(), voice(), film()):
        with pytest.raises(FailedPrecondition, match=r"animate_face|clone_voice"):
            registry(store).reference(TENANT, "ada", digest(file))
    change(store, Change(4, grants=grants()))
    assert len(reader_of(store)[0].references) == 3
    with pytest.raises(NotFound, match="derived nothing"):
        derived(store, voice())
    assert change(store, Change(5, grants=())).grants == ()


def test_a_version_that_is_damaged_or_missing_is_named(store: Store) -> None:
    change(store, BIG)
    (key,) = (key for key in keys_of(store) if "/versions/" in key)
    content = read(store, key)
    store.put(key, content[:-1])
    with pytest.raises(Damaged, match=key):
        registry(store).identity(TENANT, "ada", 1)
    store.delete([key])
    with pytest.raises(Damaged, match=f"{key}.*missing"):
        registry(store).identity(TENANT, "ada", 1)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("header.profile.name", Change(1, profile=replace(ADA.profile, name=""))),
        ("header.grants[0].use", Change(1, grants=grants(["fly"]))),
        ("header.emotion_bank", Change(1, emotion_bank="nobodys")),
        ("header.emotion_bank", Change(1, emotion_bank="")),
        ("header.removed[0]", Change(1, removed=("x",))),
        ("header.removed[0]", Change(1, removed=(digest(film()),))),
        ("header.removed[1]", Change(1, removed=(digest(voice()),) * 2, added=(voice("new"),))),
        ("header.removed", Change(1, removed=(digest(voice()),), added=(film(),))),
        ("header.removed", Change(1, removed=(digest(portrait()),))),
        ("header.added[1]", Change(1, added=(film(), voice()))),
        ("header.added[1]", Change(1, added=(film(), film()))),
        ("header.added[0]", Change(1, removed=(digest(voice()),), added=(voice(),))),
        ("header.added[0]", Change(1, added=(replace(film(), content=b""),))),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_changed(fake: FakeStore, field: str, wrong: Change) -> None:
    before = dict(fake.objects)
    with pytest.raises(InvalidRequest, match=f"^{re.escape(field)}: "):
        change(fake, wrong)
    assert fake.objects == before


def test_all_files_together_have_a_limit_too(fake: FakeStore) -> None:
    change(fake, Change(1, added=tuple(voice(str(number)) for number in range(14))))
    before = dict(fake.objects)
    with pytest.raises(TooLarge, match=r"^header\.added: 17 files; an identity has at most 16"):
        change(fake, Change(2, added=(film(),)))
    assert fake.objects == before
    assert change(fake, Change(2, removed=(digest(voice("3")),), added=(film(),))).version == 3


# The end in the middle.


@pytest.mark.parametrize(
    "one", [Change(1, profile=BIG.profile), Change(1, added=(film(), voice("new"))), BIG], ids=["profile", "add", "all"]
)
def test_a_change_killed_at_any_step_is_made_or_not_and_the_next_one_leaves_nothing_behind(one: Change) -> None:
    made: list[bool] = []
    for step in range(100):
        store = FakeStore()
        added(store)
        (before,) = reader_of(store)
        killed = killed_at(store, step, lambda store=store: change(store, one))  # type: ignore[misc]
        now, *earlier = reader_of(store)
        made.append(now != before)
        assert earlier == [before] * made[-1]
        if not made[-1]:
            assert derived(store, voice()) == voice().content[::-1]
            now = change(store, one)
        for removed in one.removed:
            with pytest.raises(NotFound):
                registry(store).reference(TENANT, "ada", removed)
        another = replace(ADA.profile, about="She tidies up.")
        after = change(store, Change(2, profile=another))
        assert after == replace(now, version=3, profile=another)
        sources = {digest(file) for file in ADA.files} - set(one.removed)
        found = {key.rpartition("/")[2].partition("-")[0] for key in kept(store) if "/derived/" in key}
        assert (kept(store, "/derived/"), found) == (named(after), sources)
        if not killed:
            assert made == sorted(made)
            assert not made[0]
            return
    pytest.fail("the change never ended")


def test_what_a_change_killed_at_any_step_left_goes_when_the_identity_is_erased() -> None:
    for step in range(100):
        store = FakeStore()
        added(store)
        killed = killed_at(store, step, lambda store=store: change(store, BIG))  # type: ignore[misc]
        Eraser(store, 0.0).identity(TENANT, "ada", "the test")
        assert kept(store, keys.ERASING) == set()
        if not killed:
            assert step > 8
            return
    pytest.fail("the change never ended")


def test_a_store_that_fails_before_a_change_is_made_leaves_the_old_state(fake: FakeStore) -> None:
    (before,) = reader_of(fake)

    def fail(operation: str, key: str) -> None:
        if operation == "replace":
            raise NotReady("the store is away")

    fake.before = fail
    with pytest.raises(NotReady, match="away"):
        change(fake, BIG)
    fake.before = lambda operation, key: None
    assert reader_of(fake) == (before,)
    after = change(fake, Change(1, profile=BIG.profile))
    assert kept(fake, "/derived/") == named(after)
