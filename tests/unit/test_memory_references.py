"""Files are lent as they were added; what was derived from them is kept for the files it is from, and no longer."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.common.errors import Damaged, FailedPrecondition, InvalidRequest, NotFound, TooLarge
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Change, File, Use
from services.memory.forgetting.erasing import Eraser
from services.memory.store import Store
from tests.avatars import ADA, MODEL, change, derived, digest, film, grants, portrait, read, registry, voice
from tests.fake_store import FakeStore
from tests.talking import TENANT, keys_of, killed_at, once

OTHER_MODEL = "e" * 64


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


def keep(store: Store, content: bytes, *files: File, model: str = MODEL) -> None:
    registry(store).keep_derived(TENANT, "ada", [digest(file) for file in files], model, content)


def derived_keys(store: Store) -> list[str]:
    return keys_of(store, "/derived/")


@pytest.mark.parametrize("file", [portrait(), voice()], ids=["portrait", "voice"])
def test_a_damaged_file_is_never_served_and_the_error_names_it(store: Store, file: File) -> None:
    (key,) = keys_of(store, digest(file))
    content = bytearray(read(store, key))
    content[-1] ^= 1
    store.put(key, bytes(content))
    with pytest.raises(Damaged, match=f"{re.escape(key)}.*SHA-256 does not match"):
        registry(store).reference(TENANT, "ada", digest(file))
    store.delete([key])
    with pytest.raises(Damaged, match=f"{re.escape(key)}.*missing"):
        registry(store).reference(TENANT, "ada", digest(file))


@pytest.mark.parametrize("name", ["", "../x", "A" * 64, "a" * 63])
def test_a_file_is_asked_for_by_its_digest(fake: FakeStore, name: str) -> None:
    asks: list[tuple[str, Callable[[], object]]] = [
        ("digest", lambda: registry(fake).reference(TENANT, "ada", name)),
        ("reference_digests[1]", lambda: registry(fake).derived(TENANT, "ada", [digest(voice()), name], MODEL)),
        ("model_digest", lambda: registry(fake).derived(TENANT, "ada", [digest(voice())], name)),
        ("model_digest", lambda: keep(fake, b"x", voice(), model=name)),
    ]
    for field, ask in asks:
        with pytest.raises(InvalidRequest, match=f"^{re.escape(field)}: '.*' is not a SHA-256"):
            ask()


def test_a_file_that_the_identity_has_not_is_not_found(fake: FakeStore) -> None:
    for ask in (
        lambda: registry(fake).reference(TENANT, "ada", digest(film())),
        lambda: derived(fake, film()),
        lambda: keep(fake, b"x", film()),
    ):
        with pytest.raises(NotFound, match=f"'ada' has no file with SHA-256 {digest(film())}"):
            ask()
    assert derived_keys(fake) == []


def test_a_file_that_goes_while_it_is_read_is_not_damage(fake: FakeStore) -> None:
    change(fake, Change(1, added=(film(),)))
    once(fake, "get", digest(film()), lambda: change(fake, Change(2, removed=(digest(film()),))))
    with pytest.raises(NotFound, match="has no file"):
        registry(fake).reference(TENANT, "ada", digest(film()))
    once(fake, "get", digest(voice()), lambda: erase(fake))
    with pytest.raises(NotFound, match="'ada' is unknown"):
        registry(fake).reference(TENANT, "ada", digest(voice()))


def test_a_file_that_goes_and_comes_again_while_it_is_read_is_served(fake: FakeStore) -> None:
    def exchange() -> None:
        change(fake, Change(2, removed=(digest(film()),)))
        change(fake, Change(3, added=(film(),)))

    change(fake, Change(1, added=(film(),)))
    entered = once(fake, "get", digest(film()), exchange)
    assert registry(fake).reference(TENANT, "ada", digest(film())) == film().content
    assert entered


# What was derived.


def test_what_was_derived_is_kept_for_its_model_and_files(store: Store) -> None:
    change(store, Change(1, added=(voice("two"), portrait("two"))))
    with pytest.raises(NotFound, match=f"model {MODEL[:12]} has derived nothing from these files of identity 'ada'"):
        derived(store, voice())
    keep(store, b"one", voice())
    keep(store, b"both", voice(), voice("two"))
    keep(store, b"another", voice(), model=OTHER_MODEL)
    keep(store, b"face", portrait())
    assert derived(store, voice()) == b"one"
    assert derived(store, voice(), voice("two")) == b"both"
    assert derived(store, portrait()) == b"face"
    with pytest.raises(NotFound):
        derived(store, voice("two"))
    keep(store, b"better", voice())
    assert derived(store, voice()) == b"better"
    assert registry(store).derived(TENANT, "ada", [digest(voice())], OTHER_MODEL) == b"another"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([], "0 of them; send 1 to 16"),
        ([portrait(), voice()], "they are of portrait and voice; send those of one kind"),
        ([voice("two"), voice()], "are not in the identity's order"),
        ([voice(), voice()], "are not in the identity's order, each once"),
        ([voice()] * 17, "17 of them; send 1 to 16"),
    ],
)
def test_what_it_is_derived_from_is_of_one_kind_and_in_order(fake: FakeStore, files: list[File], problem: str) -> None:
    change(fake, Change(1, added=(voice("two"),)))
    for ask in (lambda: derived(fake, *files), lambda: keep(fake, b"x", *files)):
        with pytest.raises(InvalidRequest, match=f"^reference_digests: .*{problem}"):
            ask()
    assert derived_keys(fake) == []


def test_what_was_derived_has_a_limit(fake: FakeStore) -> None:
    with pytest.raises(TooLarge, match=r"^content: it has 16777217 bytes; send at most 16777216 \(16 MiB\)"):
        keep(fake, bytes(2**24 + 1), voice())
    with pytest.raises(InvalidRequest, match=r"^content: it is empty"):
        keep(fake, b"", voice())
    assert derived_keys(fake) == []
    keep(fake, bytes(2**24), voice())
    assert derived(fake, voice()) == bytes(2**24)


def test_damage_to_what_was_derived_is_named(store: Store) -> None:
    keep(store, b"a fitted voice", voice())
    (key,) = derived_keys(store)
    store.put(key, read(store, key).replace(b"fitted", b"FITTED"))
    with pytest.raises(Damaged, match=re.escape(key)):
        derived(store, voice())
    keep(store, b"another", voice())
    assert derived(store, voice()) == b"another"


def test_without_the_permission_nothing_derived_is_kept_or_lent(fake: FakeStore) -> None:
    keep(fake, b"x", voice())
    change(fake, Change(1, grants=grants([Use.ANIMATE_FACE, Use.KEEP_TURNS])))
    for ask in (lambda: derived(fake, voice()), lambda: keep(fake, b"x", voice())):
        with pytest.raises(FailedPrecondition, match="clone_voice"):
            ask()
    assert derived_keys(fake) == []
    keep(fake, b"x", portrait())


def erase(store: Store) -> object:
    return Eraser(store, 0.0).identity(TENANT, "ada", "the test")


MEANWHILE: list[tuple[Callable[[Store], object], type[Exception]]] = [
    (lambda store: change(store, Change(1, grants=grants([Use.ANIMATE_FACE]))), FailedPrecondition),
    (lambda store: change(store, Change(1, removed=(digest(voice()),), added=(voice("two"),))), NotFound),
    (erase, NotFound),
    (lambda store: (erase(store), registry(store).add(TENANT, ADA)), NotFound),
]


@pytest.mark.parametrize(("meanwhile", "error"), MEANWHILE, ids=["permission", "file", "identity", "generation"])
def test_what_is_derived_while_its_reason_goes_is_not_kept(
    fake: FakeStore, meanwhile: Callable[[Store], object], error: type[Exception]
) -> None:
    entered = once(fake, "put", "/derived/", lambda: meanwhile(fake))
    with pytest.raises(error):
        keep(fake, b"x", voice())
    assert entered
    assert derived_keys(fake) == []


def test_keeping_killed_at_any_step_keeps_the_old_or_the_new_and_can_be_repeated() -> None:
    found: list[bytes] = []
    for step in range(100):
        store = FakeStore()
        registry(store).add(TENANT, ADA)
        keep(store, b"old", voice())
        killed = killed_at(store, step, lambda store=store: keep(store, b"new", voice()))  # type: ignore[misc]
        found.append(derived(store, voice()))
        keep(store, b"new", voice())
        assert derived(store, voice()) == b"new"
        assert len(derived_keys(store)) == 1
        if not killed:
            break
    assert found == sorted(found, reverse=True)
    assert set(found) == {b"old", b"new"}


def test_replicas_that_derive_at_once_keep_one(store: Store) -> None:
    contents = [bytes([number]) * 1000 for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda content: keep(store, content, voice()), contents))
    assert derived(store, voice()) in contents
    assert len(derived_keys(store)) == 1
