"""What a replica knows while its store is away or slow, and how it asks for several things at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.memory import keys
from services.memory.cache import Cached
from services.memory.store import Entry, Object, content_of
from tests.cached import AWAY, HEAD, KEEP_S, TURNS, Asked, Clock, Foresighted, turn


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Asked:
    return Asked()


@pytest.fixture
def cached(store: Asked, clock: Clock) -> Cached:
    return Cached(store, 100_000, KEEP_S, clock)


def test_only_who_allows_it_is_answered_while_the_store_is_away(store: Asked, cached: Cached, clock: Clock) -> None:
    cached.put(HEAD, b"head")
    store.before = AWAY
    with pytest.raises(NotReady, match="the store is away"):
        cached.get(HEAD)
    clock.now_s += 7
    with cached.allowing_stale() as call:
        assert content_of(cached.get(HEAD)) == b"head"
        assert call.stale_s == 7
        calls = len(store.calls)
        for unknown in (keys.head("acme", "never-seen"), turn(9)[0]):
            with pytest.raises(NotReady, match="nothing is known that could stand in for it"):
                cached.get(unknown)
        assert len(store.calls) == calls  # It was away a moment ago: this call waits for it no more.
    with pytest.raises(NotReady):
        cached.get(HEAD)


def test_while_the_store_is_there_nothing_is_stale(store: Asked, cached: Cached, clock: Clock) -> None:
    cached.put(HEAD, b"head")
    clock.now_s += 7
    with cached.allowing_stale() as call:
        cached.get(HEAD)
        assert call.stale_s == 0


def test_listings_and_what_was_not_there_are_known_while_the_store_is_away(
    store: Asked, cached: Cached, clock: Clock
) -> None:
    key, content = turn(1)
    store.put(key, content)
    nobody = keys.person("acme", "p-nobody")
    with cached.allowing_stale():
        listed = cached.list(TURNS, 4)
        assert cached.get(nobody) is None
        cached.get(key)
    store.before = AWAY
    clock.now_s += 5
    with cached.allowing_stale() as call:
        assert cached.list(TURNS, 4) == listed
        assert cached.get(nobody) is None
        assert content_of(cached.get(key)) == content
        assert call.stale_s == 5
    with pytest.raises(NotReady):
        cached.list(TURNS, 4)


def test_what_stands_in_for_the_store_does_so_for_a_time_however_often_it_is_asked(
    store: Asked, cached: Cached, clock: Clock
) -> None:
    key, content = turn(1)
    cached.put(HEAD, b"head")
    cached.put(key, content)
    store.before = AWAY
    while clock.now_s < 1000 + KEEP_S:
        with cached.allowing_stale():
            assert content_of(cached.get(HEAD)) == b"head"
            assert content_of(cached.get(key)) == content
        clock.now_s += 5
    with cached.allowing_stale(), pytest.raises(NotReady):
        cached.get(HEAD)
    cached.tidy()
    assert cached.held_bytes == 0


def test_a_store_that_goes_away_in_the_middle_is_asked_no_more_by_that_call(store: Asked, cached: Cached) -> None:
    cached.put(HEAD, b"head")
    cached.put(keys.person("acme", "p-bob"), b"bob")
    with cached.allowing_stale() as call:
        cached.get(HEAD)

        def away(operation: str, key: str) -> None:
            store.count(operation, key)
            AWAY()

        store.before = away
        assert content_of(cached.get(keys.person("acme", "p-bob"))) == b"bob"
        calls = len(store.calls)
        assert content_of(cached.get(HEAD)) == b"head"
        assert (len(store.calls), call.stale_s > 0) == (calls, True)


def test_a_slow_store_is_not_waited_for_by_who_has_something_but_by_all_others(store: Asked, cached: Cached) -> None:
    cached.put(HEAD, b"head")
    allowed: list[float | None] = []

    def slow(*_: str) -> None:
        allowed.append(deadline.remaining_s())
        raise DeadlineExceeded("the store does not answer in time")

    store.before = slow
    with deadline.within(20), cached.allowing_stale() as call:
        assert content_of(cached.get(HEAD)) == b"head"
        assert call.stale_s > 0
    with deadline.within(20), cached.allowing_stale(), pytest.raises(DeadlineExceeded):
        cached.get(keys.head("acme", "never-seen"))
    assert [round(left_s or 0, 1) for left_s in allowed] == [0.5, 20.0]
    with deadline.within(0), cached.allowing_stale(), pytest.raises(DeadlineExceeded):
        cached.get(HEAD)


def test_what_a_call_asked_for_last_time_is_asked_for_at_once(clock: Clock) -> None:
    store = Foresighted()
    cached = Cached(store, 100_000, KEEP_S, clock)
    bob = keys.person("acme", "p-bob")
    etag = store.put(HEAD, b"head")

    def ask() -> list[object]:
        with cached.allowing_stale("a call"):
            return [cached.get(HEAD), cached.get(bob), cached.list(TURNS, 4)]

    assert ask() == [Object(b"head", etag), None, ()]
    assert store.told == []
    assert ask() == [Object(b"head", etag), None, ()]
    assert store.told == [([(HEAD, etag), (bob, "")], [(TURNS, 4, "")])]


def test_an_answer_that_was_asked_for_ahead_does_not_hide_a_later_one(clock: Clock) -> None:
    store = Foresighted()
    cached = Cached(store, 100_000, KEEP_S, clock)

    def listed() -> tuple[Entry, ...]:
        with cached.allowing_stale():
            return cached.list(TURNS)

    for _ in range(2):
        with cached.allowing_stale("a call"), ThreadPoolExecutor(1) as threads:
            if store.told:
                store.put(*turn(1))
                later = threads.submit(listed).result()
            assert cached.list(TURNS) == ()
    store.before = AWAY
    assert (listed(), len(later)) == (later, 1)


def test_what_was_asked_for_in_vain_changes_nothing(store: Asked, cached: Cached) -> None:
    ways = {"old": keys.person("acme", "p-old"), "new": keys.person("acme", "p-new")}

    def ask() -> bytes | None:
        with cached.allowing_stale("a call"):
            to = content_of(cached.get(HEAD)) or b""
            return content_of(cached.get(ways[to.decode()]))

    for name, key in ways.items():
        store.put(key, name.encode())
        store.put(HEAD, name.encode())
        assert ask() == name.encode()
        assert ask() == name.encode()
    store.delete([HEAD, ways["old"]])
    with pytest.raises(KeyError):
        ask()
