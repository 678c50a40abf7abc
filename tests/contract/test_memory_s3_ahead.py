"""The store on S3 when it is asked several things at once."""

import threading
from collections.abc import Iterator

import pytest

from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.memory.backends.s3 import S3Backend
from services.memory.s3.bucket import ATTEMPTS
from services.memory.store import SAME, Object, content_of
from tests.s3_proxy import Losing, S3Proxy, Stalling, as_it_is
from tests.s3_server import open_store

LISTED = ("a/", 4, "a/0")


@pytest.fixture
def store(proxy: S3Proxy) -> Iterator[S3Backend]:
    """The same bucket as that of `s3_store`, by way of the proxy."""
    store = open_store(proxy.endpoint)
    yield store
    store.close()


@pytest.fixture
def etag(s3_store: S3Backend) -> str:
    s3_store.put("a/0", b"zero")
    s3_store.put("a/2", b"two")
    return s3_store.put("a/1", b"one")


class Counting:
    """Counts the requests that pass."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        self.requests.append(request)
        return piece


def check(store: S3Backend, etag: str) -> None:
    """Asks for what was asked for ahead, in another order."""
    assert [entry.key for entry in store.list(*LISTED)] == ["a/1", "a/2"]
    assert content_of(store.get("a/2")) == b"two"
    assert store.get("a/1", etag) is SAME


def test_all_is_under_way_before_the_first_answer_and_asked_for_once(
    store: S3Backend, proxy: S3Proxy, etag: str
) -> None:
    together = threading.Barrier(3, timeout=10)

    def wait(request: str, piece: bytes) -> bytes | None:
        together.wait()
        return piece

    proxy.requests = counting = Counting()
    proxy.answers = wait
    with store.ahead([("a/1", etag), ("a/2", "")], [LISTED]):
        check(store, etag)
    assert len(counting.requests) == 3  # What the store refuses, a wrong signature, would be asked for again.


def test_an_answer_serves_once_and_in_the_block_only(store: S3Backend, proxy: S3Proxy, etag: str) -> None:
    with store.ahead([("a/1", ""), ("a/2", "")], [LISTED]):
        assert content_of(store.get("a/1")) == b"one"
        store.put("a/1", b"other")
        assert content_of(store.get("a/1")) == b"other"
        store.put("a/2", b"other")
    assert content_of(store.get("a/2")) == b"other"
    assert content_of(store.get("a/1", etag)) == b"other"


def test_what_has_changed_or_is_not_there_is_told(store: S3Backend, s3_store: S3Backend, etag: str) -> None:
    new = s3_store.put("a/1", b"new")
    with store.ahead([("a/1", etag), ("a/3", "")], [("b/", None, "")]):
        assert store.get("a/1", etag) == Object(b"new", new)
        assert store.get("a/3") is None
        assert store.list("b/") == ()


@pytest.mark.parametrize("times", [1, ATTEMPTS - 1])
def test_a_connection_that_breaks_is_not_noticed(store: S3Backend, proxy: S3Proxy, etag: str, times: int) -> None:
    proxy.answers = lost = Losing("GET", times)
    with store.ahead([("a/1", etag), ("a/2", "")], [LISTED]):
        check(store, etag)
    assert not lost.left


def test_a_store_that_is_away_is_said_to_be_by_who_asks(store: S3Backend, proxy: S3Proxy, etag: str) -> None:
    proxy.down()
    with store.ahead([("a/1", etag)], [LISTED]):
        with pytest.raises(NotReady, match="cannot be reached"):
            store.get("a/1", etag)
        proxy.up()
        check(store, etag)


def test_a_store_that_says_nothing_is_waited_for_as_long_as_the_caller_allows(
    store: S3Backend, proxy: S3Proxy, etag: str
) -> None:
    proxy.answers = stalling = Stalling()
    with store.ahead([("a/1", etag)], []), deadline.within(0.2), pytest.raises(DeadlineExceeded):
        store.get("a/1", etag)
    proxy.answers = as_it_is
    stalling.end()
    check(store, etag)
