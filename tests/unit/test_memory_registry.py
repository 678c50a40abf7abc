"""Identities are added whole or not at all, found by their name only, and listed in pages."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import AlreadyExists, Damaged, InvalidRequest, NotFound
from services.common.server import MESSAGE_BYTES_MAX
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Change, Generator, Grant, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.records import damaged
from services.memory.registry.emotion_references import EmotionReferences
from services.memory.registry.listing import Page
from services.memory.store import Store
from services.memory.wire.messages import sent_identity
from tests.avatars import ADA, MODEL, digest, named, portrait, read, registry, voice
from tests.fake_store import FakeStore
from tests.talking import TENANT, keys_of, once

HEAD = keys.head(TENANT, "ada")


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


def ids(store: Store, page_size: int = 50, after: str = "", tenant: str = TENANT) -> list[str]:
    return [identity.id for identity in registry(store).identities(tenant, page_size, after).identities]


def test_an_added_identity_is_there_as_it_was_added(store: Store) -> None:
    added = registry(store).add(TENANT, ADA)
    assert (added.id, added.profile, added.grants, added.emotion_bank) == ("ada", ADA.profile, ADA.grants, "default")
    assert [(file.digest, file.kind) for file in added.references] == [(digest(file), file.kind) for file in ADA.files]
    assert (added.version, added.changed_at_s, len(added.generation)) == (1, 1_800_000_000.0, 32)
    again = registry(store)
    assert again.identity(TENANT, "ada") == again.found(TENANT, "ada").identity == added
    assert again.identities(TENANT, 50, "") == Page((added,), (), "")
    assert [again.reference(TENANT, "ada", digest(file)) for file in ADA.files] == [file.content for file in ADA.files]
    assert set(keys_of(store)) == named(added)


def test_identities_are_listed_by_id_and_in_pages(store: Store) -> None:
    for name in ("zoe", "a-b", "ab", "a"):
        registry(store).add(TENANT, replace(ADA, id=name))
    assert ids(store) == ["a", "a-b", "ab", "zoe"]
    assert ids(store, 2) == ["a", "a-b"]
    assert ids(store, 2, after="a-b") == ["ab", "zoe"]
    assert ids(store, 2, after="zoe") == []
    assert ids(store, 50, after="aa") == ["ab", "zoe"]


def test_a_page_reads_the_heads_of_that_page_only(fake: FakeStore) -> None:
    for number in range(20):
        registry(fake).add(TENANT, replace(ADA, id=f"a{number:02d}"))
    calls: list[str] = []
    fake.before = lambda operation, key: calls.append(operation)
    assert ids(fake, 3, after="a04") == ["a05", "a06", "a07"]
    assert calls == ["list", "get", "get", "get"]


def test_a_page_is_full_though_one_on_it_is_erased_meanwhile(fake: FakeStore) -> None:
    for name in ("a", "b", "c"):
        registry(fake).add(TENANT, replace(ADA, id=name))
    erased = once(fake, "get", keys.head(TENANT, "a"), lambda: fake.objects.pop(keys.head(TENANT, "a")))
    assert ids(fake, 2) == ["b", "c"]
    assert erased


def test_a_page_tells_what_follows_also_when_those_on_it_are_erased_meanwhile(fake: FakeStore) -> None:
    for name in ("a", "b", "c", "d"):
        registry(fake).add(TENANT, replace(ADA, id=name))
    followers = {size: registry(fake).identities(TENANT, size, "").following for size in (1, 3, 4)}
    assert followers == {1: "a", 3: "c", 4: ""}
    gone = [keys.head(TENANT, name) for name in ("a", "b")]
    assert once(fake, "get", gone[0], lambda: [fake.objects.pop(key) for key in gone]) == []
    page = registry(fake).identities(TENANT, 2, "")
    assert [identity.id for identity in page.identities] + ids(fake, after=page.following) == ["c", "d"]


def test_a_page_of_identities_of_whom_much_is_said_fits_into_a_message(fake: FakeStore) -> None:
    most = replace(ADA.profile, name="\U0001d4b3" * 100, about="\U0001d4b3" * 500, speaking_style="\U0001d4b3" * 200)
    grants = tuple(Grant(use, "\U0001d4b3" * 100, "2026-01-01", "\U0001d4b3" * 500) for use in Use)
    for number in range(200):
        registry(fake).add(TENANT, replace(ADA, id=f"a{number:03d}", profile=most, grants=grants))
    seen: list[str] = []
    following = ""
    while following or not seen:
        page = registry(fake).identities(TENANT, 200, following)
        assert sum(sent_identity(identity).ByteSize() for identity in page.identities) < MESSAGE_BYTES_MAX
        seen += [identity.id for identity in page.identities]
        following = page.following
    assert seen == [f"a{number:03d}" for number in range(200)]


def test_a_head_that_is_larger_than_a_page_is_one(fake: FakeStore) -> None:
    for name in ("a", "b"):
        fake.put(keys.head(TENANT, name), bytes(1 << 21))
    registry(fake).add(TENANT, replace(ADA, id="c"))
    pages = [told(registry(fake).identities(TENANT, 50, after)) for after in ("", "a", "b")]
    assert pages == [([], ["a"], "a"), ([], ["b"], "b"), (["c"], [], "")]


def told(page: Page) -> tuple[list[str], list[str], str]:
    return [identity.id for identity in page.identities], [each.id for each in page.damaged], page.following


def test_a_damaged_head_is_named_and_hides_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "ada", "b", "c"):
        registry(store).add(TENANT, replace(ADA, id=name))
    store.put(HEAD, read(store, HEAD)[:-1])
    page = registry(store).identities(TENANT, 50, "")
    assert told(page) == (["a", "b", "c"], ["ada"], "")
    assert page.damaged[0].problem.startswith(f"stored object {HEAD!r} is damaged: its SHA-256 does not match")
    (said,) = caplog.records
    assert (said.message, said.identity) == ("an identity is damaged", "ada")  # type: ignore[attr-defined]
    pages = [told(registry(store).identities(TENANT, 1, after)) for after in ("", "a", "ada")]
    assert pages == [(["a"], [], "a"), ([], ["ada"], "ada"), (["b"], [], "b")]
    assert registry(store).is_there(TENANT, "ada")
    Eraser(store, 0.0).identity(TENANT, "ada", "the test")
    assert told(registry(store).identities(TENANT, 50, "")) == (["a", "b", "c"], [], "")


def test_a_head_that_the_store_itself_says_is_damaged_hides_nobody_and_can_be_erased(fake: FakeStore) -> None:
    for name in ("ada", "bob"):
        registry(fake).add(TENANT, replace(ADA, id=name))

    def check(operation: str, key: str) -> None:
        if (operation, key) == ("get", HEAD) and HEAD in fake.objects:
            raise damaged(HEAD, "its SHA-256 is not the one that the store tells")

    fake.before = check
    page = registry(fake).identities(TENANT, 50, "")
    assert told(page) == (["bob"], ["ada"], "")
    assert "is not the one that the store tells" in page.damaged[0].problem
    Eraser(fake, 0.0).identity(TENANT, "ada", "the test")
    assert not keys_of(fake, "/ada")
    assert told(registry(fake).identities(TENANT, 50, "")) == (["bob"], [], "")


def test_a_page_of_damaged_heads_only_fits_into_a_message(fake: FakeStore) -> None:
    names = [f"a{number:03d}" + "x" * 59 for number in range(201)]
    for name in names:
        fake.put(keys.head(TENANT, name), b"")
    page = registry(fake).identities(TENANT, 200, "")
    assert told(page) == ([], names[:200], names[199])
    assert sum(len(each.id + each.problem) for each in page.damaged) < MESSAGE_BYTES_MAX / 4


def test_a_damaged_head_is_never_served_nor_its_id_given_away(store: Store) -> None:
    registry(store).add(TENANT, ADA)
    whole = read(store, HEAD)
    for content in (whole[:-1], whole.replace(b"Likes", b"likes"), b""):
        store.put(HEAD, content)
        with pytest.raises(Damaged, match=HEAD):
            registry(store).found(TENANT, "ada")
        with pytest.raises(AlreadyExists, match="'ada'"):
            registry(store).add(TENANT, ADA)
        with pytest.raises(Damaged, match=HEAD):
            registry(store).change(TENANT, "ada", Change(1))
        assert read(store, HEAD) == content


def test_the_head_of_another_is_never_served(store: Store) -> None:
    registry(store).add(TENANT, ADA)
    store.put(keys.head(TENANT, "bob"), read(store, HEAD))
    assert told(registry(store).identities(TENANT, 50, "")) == (["ada"], ["bob"], "")
    with pytest.raises(Damaged, match="it is the head of 'ada'"):
        registry(store).found(TENANT, "bob")


def test_nothing_of_one_tenant_is_there_for_another(store: Store) -> None:
    ours, theirs = registry(store).add(TENANT, ADA), registry(store).add("shop", replace(ADA, id="bob"))
    assert (ids(store), ids(store, tenant="shop"), ids(store, tenant="hous")) == (["ada"], ["bob"], [])
    with pytest.raises(NotFound, match="'ada'"):
        registry(store).identity("shop", "ada")
    registry(store).add("shop", ADA)
    Eraser(store, 0.0).identity("shop", "ada", "the test")
    assert registry(store).identity(TENANT, "ada") == ours
    assert registry(store).identity("shop", "bob") == theirs


def test_an_unknown_identity_is_not_found_and_never_another(store: Store) -> None:
    memory = registry(store)
    memory.add(TENANT, ADA)
    asks = (
        lambda: memory.identity(TENANT, "bob"),
        lambda: memory.found(TENANT, "bob"),
        lambda: memory.change(TENANT, "bob", Change(1)),
        lambda: memory.reference(TENANT, "bob", digest(voice())),
        lambda: memory.derived(TENANT, "bob", [digest(voice())], MODEL),
        lambda: memory.keep_derived(TENANT, "bob", [digest(voice())], MODEL, b"x"),
    )
    for ask in asks:
        with pytest.raises(NotFound, match="'bob'"):
            ask()
    assert not memory.is_there(TENANT, "bob")


def test_a_taken_id_is_refused_and_what_is_there_stays(store: Store) -> None:
    added = registry(store).add(TENANT, ADA)
    objects = store.list("")
    with pytest.raises(AlreadyExists, match="'ada'"):
        registry(store).add(TENANT, replace(ADA, files=(portrait("!"), voice())))
    assert registry(store).identity(TENANT, "ada") == added
    assert store.list("") == objects


def test_of_many_who_add_the_same_id_at_once_one_wins_and_nothing_of_the_others_is_kept(store: Store) -> None:
    replicas = [registry(store) for _ in range(6)]

    def add(number: int) -> bool:
        try:
            replicas[number].add(TENANT, replace(ADA, files=(portrait(str(number)), voice())))
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        won = list(threads.map(add, range(6)))
    assert won.count(True) == 1
    kept = replicas[0].identity(TENANT, "ada")
    assert kept.references[0].digest == digest(portrait(str(won.index(True))))
    assert set(keys_of(store)) == named(kept)


NAMES = [
    "",
    "../ada",
    "..",
    ".",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "ada\n",
    "ada\x00",
    "Ada",
    "1ada",
    "-ada",
    "ad a",
    "a" * 64,
    "аda",  # noqa: RUF001 - the first letter is Cyrillic
    "adα",  # noqa: RUF001 - the last letter is Greek
    "ad\u200ba",
    "%2e%2e",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_not_allowed_is_refused_with_field_value_and_remedy(fake: FakeStore, name: str) -> None:
    memory, files = registry(fake), [digest(voice())]
    emotional = EmotionReferences(fake, memory)
    asks: list[tuple[str, Callable[[], object]]] = [
        ("identity", lambda: memory.identity(TENANT, name)),
        ("identity", lambda: memory.found(TENANT, name)),
        ("identity", lambda: memory.is_there(TENANT, name)),
        ("identity", lambda: memory.change(TENANT, name, Change(1))),
        ("identity", lambda: memory.reference(TENANT, name, files[0])),
        ("identity", lambda: memory.derived(TENANT, name, files, MODEL)),
        ("identity", lambda: memory.keep_derived(TENANT, name, files, MODEL, b"x")),
        ("header.id", lambda: memory.add(TENANT, replace(ADA, id=name))),
        ("header.emotion_bank", lambda: memory.add(TENANT, replace(ADA, emotion_bank=name))),
        ("tenant", lambda: memory.identity(name, "ada")),
        ("tenant", lambda: memory.add(name, ADA)),
        ("tenant", lambda: memory.change(name, "ada", Change(1))),
        ("tenant", lambda: memory.identities(name, 50, "")),
        ("tenant", lambda: emotional.list(name, "")),
        ("tenant", lambda: emotional.get(name, "", Generator.FACE, "happy")),
        ("page_token", lambda: memory.identities(TENANT, 50, name or "../")),
        ("identity", lambda: emotional.list(TENANT, name or "../")),
    ]
    for field, ask in asks:
        with pytest.raises(InvalidRequest) as refusal:
            ask()
        shown = ascii(name)[:60] if name else ""
        assert re.match(f"{field}: '.*' is not a name; use 1 to 63 lower-case letters", str(refusal.value))
        assert shown.rstrip("'") in str(refusal.value)
        assert str(refusal.value).isascii()
    assert fake.objects == {}
