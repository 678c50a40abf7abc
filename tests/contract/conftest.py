"""The S3 store that the contract's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.memory.backends.s3 import S3Backend
from tests.s3_server import S3Server, open_store, wait_for


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server, ready."""
    server = S3Server(Path(tmp_path_factory.mktemp("s3")))
    server.start()
    try:
        store = open_store(server.endpoint)
        wait_for(store)
        store.close()
        yield server
    finally:
        server.kill()


@pytest.fixture
def s3_store(s3_server: S3Server) -> Iterator[S3Backend]:
    """An empty store on it."""
    store = open_store(s3_server.endpoint)
    yield store
    store.delete([entry.key for entry in store.list("")])
    store.close()
