"""The store on S3 when an answer gets lost, or says no."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from services.common.errors import NotReady
from services.memory.backends.s3 import S3Backend
from services.memory.s3.bucket import ATTEMPTS
from services.memory.store import Object, content_of
from tests.s3_proxy import Answering, Losing, S3Proxy
from tests.s3_server import S3Server, open_store


@pytest.fixture
def store(proxy: S3Proxy) -> Iterator[S3Backend]:
    """The same bucket as that of `s3_store`, by way of the proxy."""
    store = open_store(proxy.endpoint)
    yield store
    store.close()


# Lost answers.


def test_a_creation_whose_answer_got_lost_is_known_as_ones_own(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    store.check()
    for number in range(10):
        proxy.answers = lost = Losing("PUT")
        etag = store.create(f"a/{number}", b"mine %d" % number)
        assert not lost.left
        assert s3_store.get(f"a/{number}") == Object(b"mine %d" % number, etag or "")


def test_a_creation_whose_answer_got_lost_is_not_confused_with_anothers(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"another's")
    proxy.answers = Losing("PUT")
    assert store.create("a/b", b"mine") is None
    assert content_of(s3_store.get("a/b")) == b"another's"


def test_a_replacement_whose_answer_got_lost_is_known_as_ones_own(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    etag = s3_store.put("a/b", b"0")
    for number in range(1, 10):
        proxy.answers = lost = Losing("PUT")
        new = store.replace("a/b", b"%d" % number, etag)
        assert new
        assert not lost.left
        assert s3_store.get("a/b") == Object(b"%d" % number, new)
        etag = new


def test_a_replacement_of_which_nobody_can_tell_whether_it_was_made_says_so(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    etag = s3_store.put("a/b", b"old")

    def overwritten(request: str, piece: bytes) -> bytes | None:
        if content_of(s3_store.get("a/b")) != b"mine":
            return piece
        s3_store.put("a/b", b"another's")
        return None

    proxy.answers = overwritten
    with pytest.raises(NotReady, match="the answer to a write of 'a/b' got lost, and it is another by now"):
        store.replace("a/b", b"mine", etag)
    assert content_of(s3_store.get("a/b")) == b"another's"


def test_counting_by_way_of_a_network_that_loses_answers_neither_loses_nor_doubles(
    s3_store: S3Backend, store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("count", b"0 nobody")

    def count(writer: int) -> int:
        done, doubts = 0, 0
        while done < 6:
            found = store.get("count")
            assert isinstance(found, Object)
            new = b"%d %d-%d" % (int(found.content.split()[0]) + 1, writer, done)
            try:
                done += store.replace("count", new, found.etag) is not None
            except NotReady:
                doubts += 1
        return doubts

    answers = iter(range(10_000))
    proxy.answers = lambda request, piece: None if request.startswith("PUT") and not next(answers) % 3 else piece
    with ThreadPoolExecutor(3) as threads:
        doubts = sum(threads.map(count, range(3)))
    counted = int((content_of(s3_store.get("count")) or b"").split()[0])
    assert 18 <= counted <= 18 + doubts


# Refusals.


def error(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()


XML, HTML = "application/xml", "text/html"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            Answering(500, error("InternalError"), XML),
            "refuses; its log says why (500 InternalError to GET a/b in bucket",
        ),
        (Answering(503, error("SlowDown"), XML), "is overloaded; retry (503 SlowDown to GET a/b"),
        (Answering(503, b"<html>proxy</html>", HTML), "is overloaded; retry (503 to GET a/b"),
        (Answering(502, b"", HTML), "refuses; its log says why (502 to GET a/b"),
        (Answering(400, error("AuthorizationHeaderMalformed"), XML), "in another region; set E3RG_MEMORY_S3_REGION"),
        (Answering(301, error("PermanentRedirect"), XML), "in another region; set E3RG_MEMORY_S3_REGION"),
        (Answering(403, error("AccessDenied"), XML), "allows these credentials less than is needed"),
        (Answering(403, b"<html>who are you</html>", HTML), "refuses; its log says why (403 to GET a/b"),
        (Answering(500, b"<Error", XML), "broke the connection off"),
    ],
    ids=lambda value: None if isinstance(value, Answering) else value[:40],
)
def test_a_refusal_is_told_with_its_meaning(store: S3Backend, proxy: S3Proxy, answer: Answering, text: str) -> None:
    proxy.answers = answer
    with pytest.raises(NotReady) as refusal:
        store.get("a/b")
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown"), (400, "BadDigest")]
)
def test_what_passes_by_itself_is_asked_again(store: S3Backend, proxy: S3Proxy, status: int, code: str) -> None:
    proxy.answers = answer = Answering(status, error(code), XML, times=ATTEMPTS - 1)
    assert store.put("a/b", b"x")
    assert not answer.left


def test_a_store_that_fails_after_it_has_written_has_written(store: S3Backend, proxy: S3Proxy) -> None:
    proxy.answers = Answering(500, error("InternalError"), XML, times=1)
    assert store.create("a/b", b"mine")


def test_a_listing_that_cannot_be_read_is_no_empty_one(store: S3Backend, proxy: S3Proxy) -> None:
    proxy.answers = Answering(200, b"<ListBucketResult><Contents>", XML)
    with pytest.raises(NotReady, match=r"answers GET .* with what is no XML"):
        store.list("")


def test_a_clock_that_is_wrong_is_told(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(s3_server.endpoint)
    monkeypatch.setattr("minio.time.utcnow", lambda: datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(NotReady, match="the clocks of this machine and of the store differ by minutes"):
        store.get("a/b")
    store.close()
