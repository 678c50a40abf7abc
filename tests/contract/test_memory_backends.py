"""Every store of the memory keeps the same promises, and so does the fake that other tests use."""

from pathlib import Path

import pytest

from services.common import backends
from services.memory.backends import s3
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.backends.s3 import S3Backend
from services.memory.store import Store
from tests.conformance.store import StorePromises
from tests.conformance.suites import suites
from tests.fake_store import FakeStore


class TestFilesystem(StorePromises):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FilesystemBackend(tmp_path / "memory")


class TestS3(StorePromises):
    page_keys = s3.PAGE_KEYS

    @pytest.fixture
    def store(self, s3_store: S3Backend) -> Store:
        return s3_store


class TestFake(StorePromises):
    @pytest.fixture
    def store(self) -> Store:
        return FakeStore()


def test_no_back_end_is_left_out() -> None:
    here = {name.removeprefix("Test").lower() for name in suites(Path(__file__), "StorePromises")}
    assert here == {*backends.names("services.memory.backends"), "fake"}
