"""A store says which arrangement it has, and that of another version is refused before anything is done to it."""

from pathlib import Path

import pytest

from services.common.errors import NotReady
from services.memory import keys
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.layout import check_layout
from services.memory.store import Store
from tests.fake_store import FakeStore
from tests.talking import Replica, keys_of, once


@pytest.fixture(params=["fake", "filesystem"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FakeStore() if request.param == "fake" else FilesystemBackend(tmp_path)


def test_an_empty_store_gets_the_layout_and_keeps_it(store: Store) -> None:
    check_layout(store)
    assert keys_of(store) == [keys.LAYOUT]
    Replica(store).add()
    before = store.list("")
    check_layout(store)
    assert store.list("") == before


@pytest.mark.parametrize("content", [b'{"version": 1}', b'{"version": 3}', b"", b"\xff", b'{"version": 2, "x": 1}'])
def test_a_store_of_another_version_is_refused_with_what_to_do(store: Store, content: bytes) -> None:
    store.put(keys.LAYOUT, content)
    with pytest.raises(NotReady, match=r"this version needs .* use the version that wrote it, or an empty store"):
        check_layout(store)
    assert keys_of(store) == [keys.LAYOUT]


@pytest.mark.parametrize(
    "key", ["identities/ada", "kept/ada/0/references/0", "banks/calm", "removed/anna", "tenants/a/b"]
)
def test_a_store_with_objects_and_no_layout_is_refused_and_left_alone(store: Store, key: str) -> None:
    store.put(key, b"of an earlier version")
    with pytest.raises(NotReady, match=f"has objects in '{key.split('/', maxsplit=1)[0]}/' and no object 'layout'"):
        check_layout(store)
    assert keys_of(store) == [key]


def test_replicas_that_open_an_empty_store_at_once_agree() -> None:
    fake = FakeStore()

    def begin() -> None:
        check_layout(fake)
        Replica(fake).add()

    entered = once(fake, "list", "identities/", begin)
    check_layout(fake)
    assert entered
    assert len(keys_of(fake)) == 4
