"""The store on S3 when the way to it or the server is not as it should be."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.common import deadline
from services.common.errors import Damaged, DeadlineExceeded, NotReady
from services.memory.backends.s3 import S3Backend
from services.memory.s3.bucket import ATTEMPTS
from services.memory.store import Object, content_of
from tests.s3_operations import OPERATIONS, operations
from tests.s3_proxy import Flipping, Losing, S3Proxy, Stalling
from tests.s3_server import S3Server, open_store, wait_for


@pytest.fixture
def store(proxy: S3Proxy) -> Iterator[S3Backend]:
    """The same bucket as that of `s3_store`, by way of the proxy."""
    store = open_store(proxy.endpoint)
    yield store
    store.close()


# Away, and back.


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_store_that_is_away_is_not_ready_and_works_when_it_is_back(
    store: S3Backend, proxy: S3Proxy, operation: str
) -> None:
    store.put("a/before", b"x")
    proxy.down()
    with pytest.raises(
        NotReady, match=rf"http://{proxy.endpoint} cannot be reached \(.*refused\); start it, or set E3RG"
    ):
        operations(store)[operation]()
    proxy.up()
    operations(store)[operation]()
    assert content_of(store.get("a/before")) == b"x"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_connection_that_breaks_once_is_not_noticed(store: S3Backend, proxy: S3Proxy, operation: str) -> None:
    store.check()
    for fault in (Losing(""), Losing("", ATTEMPTS - 1)):
        proxy.answers = fault
        operations(store)[operation]()
        assert not fault.left


def test_a_server_that_is_killed_and_started_again_has_what_was_acknowledged(tmp_path: Path) -> None:
    with S3Server(tmp_path) as server:
        server.start()
        store = open_store(server.endpoint)
        wait_for(store)
        etags = {f"a/{number}": store.create(f"a/{number}", bytes([number])) for number in range(20)}
        server.kill()
        with pytest.raises(NotReady, match="cannot be reached"):
            store.put("a/down", b"x")
        server.start()
        wait_for(store)
        for number, (key, etag) in enumerate(etags.items()):
            assert store.get(key) == Object(bytes([number]), etag or "")
        assert store.get("a/down") is None
        store.close()


# Slow.


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_silent_store_is_left_at_the_deadline_of_the_call(store: S3Backend, proxy: S3Proxy, operation: str) -> None:
    proxy.answers = stalling = Stalling()
    with deadline.within(0.3), pytest.raises(DeadlineExceeded, match=r"does not answer in time.*allow more"):
        operations(store)[operation]()
    assert stalling.begun.is_set()


def test_a_call_whose_time_is_over_asks_nothing(store: S3Backend, proxy: S3Proxy) -> None:
    store.check()
    proxy.requests = asked = Losing("", 1)
    with deadline.within(0), pytest.raises(DeadlineExceeded, match="over before the object store was asked"):
        store.get("a/b")
    assert asked.left


def test_without_a_deadline_the_setting_counts(proxy: S3Proxy) -> None:
    store = open_store(proxy.endpoint, timeout_s="0.1")
    proxy.answers = Stalling()
    with pytest.raises(NotReady, match="does not answer in time; retry, or set E3RG_MEMORY_S3_TIMEOUT_S"):
        store.get("a/b")
    store.close()


def test_a_store_that_answers_byte_by_byte_keeps_nobody_beyond_the_deadline(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", bytes(2**20))
    left, passed = threading.Event(), 0

    def trickle(request: str, piece: bytes) -> bytes | None:
        nonlocal passed
        if left.wait(0.2):
            return None
        passed += 1
        return piece[:1000]

    proxy.answers = trickle
    try:
        with deadline.within(0.5), pytest.raises(DeadlineExceeded):
            store.get("a/b")
        assert passed < 12, "of 16 pieces"
    finally:
        left.set()


# Damage.


def test_a_body_damaged_on_the_way_there_is_refused_and_sent_again(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    store.check()
    proxy.requests = flipping = Flipping("PUT")
    store.put("a/b", b"right" * 1000)
    assert not flipping.left
    assert content_of(s3_store.get("a/b")) == b"right" * 1000


def test_a_body_damaged_on_the_way_back_is_never_served_and_read_again(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"right" * 1000)
    proxy.answers = flipping = Flipping("GET")
    assert content_of(store.get("a/b")) == b"right" * 1000
    assert not flipping.left
    proxy.answers = Flipping("GET", 1000)
    with pytest.raises(Damaged, match="stored object 'a/b' is damaged: its SHA-256 is not the one that http"):
        store.get("a/b")


def test_an_object_damaged_on_the_disk_of_the_store_is_never_served(s3_server: S3Server, s3_store: S3Backend) -> None:
    content = hashlib.sha256(b"seed").digest() * 2000
    s3_store.put("a/b", content)
    (file,) = (path for path in s3_server.data.rglob("*.dat") if content[:64] in path.read_bytes())
    with file.open("r+b") as disk:
        disk.seek(file.read_bytes().index(content) + 30_000)
        disk.write(b"!")
    # SeaweedFS tries its other copies, of which there are none here, for longer than one would wait.
    with deadline.within(1), pytest.raises((Damaged, NotReady, DeadlineExceeded)):
        s3_store.get("a/b")


def test_half_an_answer_is_none(store: S3Backend, s3_store: S3Backend, proxy: S3Proxy) -> None:
    content = bytes(2**20)
    s3_store.put("a/b", content)
    passed, limit = 0, 500_000

    def cut(request: str, piece: bytes) -> bytes | None:
        nonlocal passed
        passed += len(piece)
        return piece if passed < limit else None

    proxy.answers = cut
    with pytest.raises(NotReady, match="broke the connection off"):
        store.get("a/b")
    passed, limit = 0, 2**19 + 2**20
    assert content_of(store.get("a/b")) == content


def test_half_an_upload_is_nothing(store: S3Backend, s3_store: S3Backend, proxy: S3Proxy) -> None:
    store.check()
    sent = 0

    def cut(request: str, piece: bytes) -> bytes | None:
        nonlocal sent
        sent += len(piece)
        return piece if sent < 500_000 else None

    proxy.requests = cut
    with pytest.raises(NotReady, match="broke the connection off"):
        store.put("a/b", bytes(2**20))
    assert s3_store.list("") == ()
