"""A store on S3 that hangs: it accepts what it is asked, and says nothing."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from e3rg.memory.v1 import memory_pb2
from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.memory.backends.s3 import S3Backend
from services.memory.store import content_of
from tests.memory_service import TENANT, Stubs, header, memory_over, parts, serving
from tests.s3_proxy import S3Proxy, Stalling, as_it_is
from tests.s3_server import S3Server, open_store

CALLERS = 8


@pytest.fixture
def store(proxy: S3Proxy) -> Iterator[S3Backend]:
    """The same bucket as that of `s3_store`, by way of the proxy."""
    store = open_store(proxy.endpoint, timeout_s="0.4")
    yield store
    store.close()


class Counting:
    """Counts the requests that pass."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, request: str, piece: bytes) -> bytes | None:
        self.count += 1
        return piece


def refusal(store: S3Backend) -> str:
    with pytest.raises(NotReady) as refused:
        store.get("a/b")
    return str(refused.value)


def test_a_store_that_hangs_is_asked_by_one_request_and_by_all_when_it_is_back(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"x")
    proxy.answers = stalling = Stalling()
    with ThreadPoolExecutor(CALLERS) as threads:
        refusals = [text.result() for text in [threads.submit(refusal, store) for _ in range(CALLERS)]]
    assert {"does not answer in time; retry, or set" in text for text in refusals} == {True}
    proxy.requests = asked = Counting()
    assert "did not answer just now; one request tries it" in refusal(store)
    with store.ahead([("a/b", "")], []):
        assert "did not answer just now; one request tries it" in refusal(store)
    assert asked.count == 0
    proxy.answers = as_it_is
    stalling.end()
    while asked.count == 0:  # A second later.
        try:
            assert content_of(store.get("a/b")) == b"x"
        except NotReady as error:
            assert "did not answer just now" in str(error)
    with ThreadPoolExecutor(CALLERS) as threads:
        assert set(threads.map(content_of, threads.map(store.get, ["a/b"] * CALLERS))) == {b"x"}


def test_a_single_answer_that_does_not_come_is_asked_for_again(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"x")
    lost, end = threading.Event(), threading.Event()

    def lose_one(request: str, piece: bytes) -> bytes | None:
        if lost.is_set():
            return piece
        lost.set()
        end.wait()
        return None

    proxy.answers = lose_one
    try:
        assert content_of(store.get("a/b")) == b"x"
    finally:
        end.set()


def test_a_store_that_is_slow_refuses_nobody_because_somebody_did_not_wait(
    store: S3Backend, s3_store: S3Backend, proxy: S3Proxy
) -> None:
    s3_store.put("a/b", b"x")
    given_up = threading.Event()

    def slow(request: str, piece: bytes) -> bytes | None:
        given_up.wait()
        return piece

    def patient() -> bytes | None:
        given_up.set()
        return content_of(store.get("a/b"))

    for _ in range(3):
        proxy.answers = slow
        given_up.clear()
        with deadline.within(0.1), pytest.raises(DeadlineExceeded):
            store.get("a/b")
        with ThreadPoolExecutor(CALLERS) as threads:
            assert {each.result() for each in [threads.submit(patient) for _ in range(CALLERS)]} == {b"x"}


async def test_while_the_store_hangs_many_callers_do_not_keep_from_recalling_what_is_known(
    s3_server: S3Server, s3_store: S3Backend
) -> None:
    store = open_store(s3_server.endpoint, timeout_s="1.2")
    async with serving(memory_over(store)) as stubs:
        ada = await stubs.add(parts(header()))
        await stubs.say(1)
        fresh = await stubs.recall()
        asking: list[asyncio.Task[bool]] = []
        s3_server.hang()
        try:
            for _ in range(4):
                asking += [asyncio.create_task(is_listed(stubs)) for _ in range(CALLERS)]
                stale = await stubs.recall(timeout=5)
                assert (stale.identity, list(stale.turns)) == (ada, list(fresh.turns))
                assert stale.stale_s > 0
            assert (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).problem
        finally:
            s3_server.go_on()
        await asyncio.gather(*asking)
        while not await is_listed(stubs):
            pass
        assert (await stubs.recall()).stale_s == 0
        assert not (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).problem
    store.close()


async def is_listed(stubs: Stubs) -> bool:
    """Asks for what no replica holds; tells whether the store answered."""
    request = memory_pb2.ListTurnsRequest(tenant=TENANT, identity="ada", conversation="talk")
    call = stubs.memory.ListTurns(request, timeout=30)
    try:
        return [turn.id for turn in (await call).turns] == ["turn-1"]
    except Exception:
        assert (await call.code()).name == "UNAVAILABLE"
        return False
