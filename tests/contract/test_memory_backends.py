"""Every store of the memory keeps the same promises, and so does the fake that other tests use."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from services.common import backends
from services.common.errors import NotReady
from services.memory.backends import s3
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.backends.s3 import S3Backend
from services.memory.store import Store
from tests.conformance.store import Distant, StorePromises
from tests.conformance.suites import suites
from tests.fake_store import FakeStore
from tests.fakes import fail, go_on
from tests.s3_proxy import S3Proxy
from tests.s3_server import open_store


class TestFilesystem(StorePromises):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FilesystemBackend(tmp_path / "memory")

    @pytest.fixture
    def distant(self, tmp_path: Path) -> Distant:
        folder, elsewhere = tmp_path / "memory", tmp_path / "elsewhere"
        return Distant(FilesystemBackend(folder), partial(folder.rename, elsewhere), partial(elsewhere.rename, folder))


class TestS3(StorePromises):
    page_keys = s3.PAGE_KEYS

    @pytest.fixture
    def store(self, s3_store: S3Backend) -> Store:
        return s3_store

    @pytest.fixture
    def distant(self, proxy: S3Proxy) -> Iterator[Distant]:
        store = open_store(proxy.endpoint)
        yield Distant(store, proxy.down, proxy.up)
        store.close()


class TestFake(StorePromises):
    @pytest.fixture
    def store(self) -> Store:
        return FakeStore()

    @pytest.fixture
    def distant(self) -> Distant:
        store = FakeStore()

        def leave() -> None:
            store.before = fail(NotReady("the store is away; retry"))

        def come_back() -> None:
            store.before = go_on

        return Distant(store, leave, come_back)


def test_no_back_end_is_left_out() -> None:
    here = {name.removeprefix("Test").lower() for name in suites(Path(__file__), "StorePromises")}
    assert here == {*backends.names("services.memory.backends"), "fake"}
