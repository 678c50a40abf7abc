"""Emotional references: the identity's own before its tenant's, of emotions that the wheel has."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import emotions
from services.common.errors import Damaged, FailedPrecondition, InvalidRequest, NotFound, TooLarge
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Change, EmotionReference, Generator, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.records import digest_of
from services.memory.registry import emotion_references
from services.memory.registry.emotion_references import EmotionReferences
from services.memory.store import Store
from tests.avatars import ADA, change, grants, read, registry
from tests.fake_store import FakeStore
from tests.talking import TENANT, keys_of, killed_at, once

VOICE, FACE = Generator.VOICE, Generator.FACE


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    store = FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)
    registry(store).add(TENANT, ADA)
    return store


@pytest.fixture
def fake() -> FakeStore:
    store = FakeStore()
    registry(store).add(TENANT, ADA)
    return store


def references(store: Store) -> EmotionReferences:
    return EmotionReferences(store, registry(store))


def put(
    store: Store, identity: str, content: bytes, name: str = "sad", generator: Generator = VOICE
) -> EmotionReference:
    return references(store).put(TENANT, identity, generator, name, "audio/wav", content)


def get(store: Store, identity: str, name: str = "sad", generator: Generator = VOICE) -> bytes:
    return references(store).get(TENANT, identity, generator, name)[1]


def test_a_reference_is_there_as_it_was_put(store: Store) -> None:
    content = b"first line\nsecond\x00line\n"
    reference = references(store).put(TENANT, "", FACE, "happy", "application/x-prior", content)
    assert reference == EmotionReference(FACE, "happy", digest_of(content), 23, "application/x-prior", own=False)
    assert references(store).get(TENANT, "", FACE, "happy") == (reference, content)
    assert references(store).list(TENANT, "") == (reference,)
    assert keys_of(store, "/emotions/") == [f"tenants/{TENANT}/emotions/face/happy"]
    put(store, "", b"another", "happy", FACE)
    assert get(store, "", "happy", FACE) == b"another"


def test_the_own_one_comes_before_that_of_the_tenant(store: Store) -> None:
    put(store, "", b"of all", "sad")
    put(store, "", b"of all", "angry")
    assert get(store, "ada") == b"of all"
    own = put(store, "ada", b"her own")
    assert own.own
    assert (get(store, "ada"), get(store, ""), get(store, "ada", "angry")) == (b"her own", b"of all", b"of all")
    put(store, "ada", b"her face", "happy", FACE)
    found = references(store).list(TENANT, "ada")
    assert [(row.generator, row.name, row.own) for row in found] == [
        (FACE, "happy", True),
        (VOICE, "angry", False),
        (VOICE, "sad", True),
    ]
    assert found[2] == own
    assert [row.name for row in references(store).list(TENANT, "")] == ["angry", "sad"]
    references(store).remove(TENANT, "ada", VOICE, "sad")
    assert get(store, "ada") == b"of all"
    references(store).remove(TENANT, "", VOICE, "sad")
    with pytest.raises(NotFound, match="identity 'ada' has no emotional reference for voice 'sad'"):
        get(store, "ada")
    with pytest.raises(NotFound, match="the tenant has no emotional reference for voice 'sad'"):
        get(store, "")


def test_what_is_not_there_cannot_be_removed(store: Store) -> None:
    put(store, "", b"of all")
    for identity, name in (("ada", "sad"), ("", "angry")):
        with pytest.raises(NotFound, match=f"no emotional reference for voice '{name}'"):
            references(store).remove(TENANT, identity, VOICE, name)
    assert get(store, "") == b"of all"


def test_nothing_crosses_between_tenants_and_identities(store: Store) -> None:
    registry(store).add("shop", ADA)
    put(store, "", b"of all")
    put(store, "ada", b"her own")
    shop = references(store)
    assert shop.list("shop", "") == shop.list("shop", "ada") == ()
    with pytest.raises(NotFound):
        shop.get("shop", "ada", VOICE, "sad")
    asks: list[Callable[[], object]] = [
        lambda: get(store, "bob"),
        lambda: put(store, "bob", b"x"),
        lambda: shop.list(TENANT, "bob"),
        lambda: shop.remove(TENANT, "bob", VOICE, "sad"),
    ]
    for ask in asks:
        with pytest.raises(NotFound, match="'bob' is unknown"):
            ask()


def test_each_emotion_of_the_wheel_can_have_one_and_no_other_can(fake: FakeStore) -> None:
    wheel = emotions.load()
    for generator, names in ((VOICE, wheel.styles), (FACE, wheel.classes)):
        for name in names:
            put(fake, "ada", b"x", name, generator)
    assert len(references(fake).list(TENANT, "ada")) == len(wheel.styles) + len(wheel.classes)
    before = dict(fake.objects)
    for generator, name in ((VOICE, "happy"), (FACE, "whispering"), (VOICE, ""), (FACE, "../happy"), (FACE, "hаppy")):  # noqa: RUF001
        asks: list[Callable[[], object]] = [
            lambda name=name, generator=generator: put(fake, "", b"x", name, generator),  # type: ignore[misc]
            lambda name=name, generator=generator: get(fake, "", name, generator),  # type: ignore[misc]
            lambda name=name, generator=generator: references(fake).remove(TENANT, "", generator, name),  # type: ignore[misc]
        ]
        for ask in asks:
            with pytest.raises(InvalidRequest, match=r"^name: '.*' is unknown; use one of: ") as refusal:
                ask()
            assert str(refusal.value).isascii()
    assert fake.objects == before


@pytest.mark.parametrize("media_type", ["", "audio", "audio/", "/wav", "Audio/wav", "audio/wav\n", "a b/c", "a/b/c"])
def test_its_type_is_a_type_and_a_subtype(fake: FakeStore, media_type: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^header\.media_type: '.*' is not a MIME type; write type/subtype"):
        references(fake).put(TENANT, "", VOICE, "sad", media_type, b"x")


def test_it_has_a_limit(fake: FakeStore) -> None:
    before = dict(fake.objects)
    with pytest.raises(InvalidRequest, match=r"^content: it is empty"):
        put(fake, "", b"")
    with pytest.raises(TooLarge, match=r"^content: it has 16777217 bytes; send at most 16777216 \(16 MiB\)"):
        put(fake, "", bytes(2**24 + 1))
    assert fake.objects == before
    assert put(fake, "", bytes(2**24)).size_bytes == 2**24


@pytest.mark.parametrize(("generator", "use"), [(VOICE, Use.CLONE_VOICE), (FACE, Use.ANIMATE_FACE)])
def test_a_voice_or_face_of_its_own_is_taken_and_lent_with_permission_only(
    fake: FakeStore, generator: Generator, use: Use
) -> None:
    name = "sad"
    put(fake, "", b"of all", name, generator)
    change(fake, Change(1, grants=grants(set(Use) - {use})))
    assert get(fake, "ada", name, generator) == b"of all"
    with pytest.raises(FailedPrecondition, match=use):
        put(fake, "ada", b"her own", name, generator)
    change(fake, Change(2, grants=grants()))
    put(fake, "ada", b"her own", name, generator)
    change(fake, Change(3, grants=grants(set(Use) - {use})))
    with pytest.raises(FailedPrecondition, match=use):
        get(fake, "ada", name, generator)
    assert [row.own for row in references(fake).list(TENANT, "ada")] == [True]
    references(fake).remove(TENANT, "ada", generator, name)
    assert get(fake, "ada", name, generator) == b"of all"


def test_damage_is_named_and_not_served(store: Store) -> None:
    put(store, "", b"a recording")
    key = keys.emotion(TENANT, VOICE, "sad")
    whole = read(store, key)
    for damage in (whole[:-1], whole.replace(b"audio", b"video"), b""):
        store.put(key, damage)
        for ask in (lambda: get(store, "ada"), lambda: references(store).list(TENANT, "ada")):
            with pytest.raises(Damaged, match=re.escape(key)):
                ask()
    references(store).remove(TENANT, "", VOICE, "sad")
    assert references(store).list(TENANT, "") == ()


def test_one_that_an_archive_carries_is_read_as_it_was_written() -> None:
    assert emotion_references.decode("k", emotion_references.encode("audio/wav", b"a\nb")) == ("audio/wav", b"a\nb")


@pytest.mark.parametrize("identity", ["", "ada"])
def test_putting_killed_at_any_step_keeps_the_old_or_the_new_one(identity: str) -> None:
    found: list[bytes] = []
    for step in range(100):
        store = FakeStore()
        registry(store).add(TENANT, ADA)
        put(store, identity, b"old")
        killed = killed_at(store, step, lambda store=store: put(store, identity, b"new"))  # type: ignore[misc]
        found.append(get(store, identity))
        assert len(keys_of(store, "/emotions/")) == 1
        if not killed:
            break
    assert found == sorted(found, reverse=True)
    assert set(found) == {b"old", b"new"}


@pytest.mark.parametrize("added_again", [False, True])
def test_one_that_is_put_while_the_identity_is_erased_is_not_kept(fake: FakeStore, added_again: bool) -> None:
    def erase() -> None:
        Eraser(fake, 0.0).identity(TENANT, "ada", "the test")
        if added_again:
            registry(fake).add(TENANT, ADA)

    entered = once(fake, "put", "/emotions/", erase)
    with pytest.raises(NotFound, match="'ada'"):
        put(fake, "ada", b"x")
    assert entered
    assert keys_of(fake, "/emotions/") == []
