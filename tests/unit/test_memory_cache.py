"""What a replica holds in its memory: never behind another's change, never too much, never for too long."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.common.errors import NotReady
from services.memory import keys
from services.memory.cache import Cached
from services.memory.domain import ClipKind
from services.memory.records import sealed
from services.memory.store import SAME, Object, content_of
from tests.cached import AWAY, HEAD, KEEP_S, SCOPE, TALK, TURNS, Asked, Clock, turn
from tests.fakes import Gate, fail, go_on


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Asked:
    return Asked()


@pytest.fixture
def cached(store: Asked, clock: Clock) -> Cached:
    return Cached(store, 100_000, KEEP_S, clock)


FIXED = [
    SCOPE.version(1),
    SCOPE.reference("c" * 64),
    turn(1)[0],
    TALK.clip("talk", "0-t", ClipKind.SPEECH, "c" * 64),
]
CHANGING = [
    HEAD,
    TALK.turn_id("talk", "t"),
    keys.person("acme", "p-bob"),
    keys.bank("acme", "warm"),
    f"{SCOPE.folder}derived/voice/x-y",
    f"{SCOPE.folder}emotions/voice/cheerful",
]
PASSING = [
    f"{TALK.vectors('m')}0-1-x",
    "layout",
    "erasing/acme/i-ada",
    keys.retention("acme"),
    "tenants/acme/audits/0-x",
]


@pytest.mark.parametrize("key", FIXED)
def test_what_never_changes_is_read_once(store: Asked, cached: Cached, key: str) -> None:
    etag = store.put(key, sealed(b"kept"))
    for _ in range(3):
        assert cached.get(key) == Object(sealed(b"kept"), etag)
    assert store.reads(key) == 1
    assert cached.get(key, unless=etag) is SAME


@pytest.mark.parametrize("key", CHANGING)
def test_what_can_change_is_asked_for_each_time_and_sent_once(store: Asked, cached: Cached, key: str) -> None:
    etag = store.put(key, b"kept")
    sent: list[object] = []
    ask = store.get
    store.get = lambda key, unless="": sent.append(found := ask(key, unless)) or found  # type: ignore[method-assign,func-returns-value]
    for _ in range(3):
        assert cached.get(key) == Object(b"kept", etag)
    assert sent == [Object(b"kept", etag), SAME, SAME]
    assert cached.get(key, unless=etag) is SAME


@pytest.mark.parametrize("key", PASSING)
def test_vectors_marks_and_audits_are_not_held(store: Asked, cached: Cached, key: str) -> None:
    cached.put(key, b"kept")
    for _ in range(2):
        assert content_of(cached.get(key)) == b"kept"
    assert (store.reads(key), cached.held_bytes) == (2, 0)


def test_a_change_and_an_erasure_elsewhere_are_seen_at_the_next_call(
    store: Asked, cached: Cached, clock: Clock
) -> None:
    other = Cached(store, 100_000, KEEP_S, clock)
    cached.put(HEAD, b"first")
    other.put(HEAD, b"second")
    assert content_of(cached.get(HEAD)) == b"second"
    other.delete([HEAD])
    assert cached.get(HEAD) is None
    assert other.create(HEAD, b"third")
    assert content_of(cached.get(HEAD)) == b"third"


def test_what_is_written_need_not_be_read_again(store: Asked, cached: Cached) -> None:
    key, content = turn(1)
    etag = cached.create(key, content)
    assert cached.get(key) == Object(content, etag or "")
    assert store.reads(key) == 0


def test_what_others_wrote_first_is_read_from_the_store(store: Asked, cached: Cached) -> None:
    key, content = turn(1)
    store.put(key, content)
    assert cached.create(key, sealed(b"mine")) is None
    assert content_of(cached.get(key)) == content
    etag = store.put(HEAD, b"theirs")
    assert cached.replace(HEAD, b"mine", "stale") is None
    assert cached.get(HEAD) == Object(b"theirs", etag)


@pytest.mark.parametrize("operation", ["put", "create", "replace", "delete"])
def test_a_write_that_fails_leaves_nothing_to_believe(store: Asked, cached: Cached, operation: str) -> None:
    key, content = turn(1)
    etag = cached.put(key, content)
    store.before = fail(NotReady("the answer got lost"))
    writes: dict[str, Callable[[], object]] = {
        "put": lambda: cached.put(key, sealed(b"other")),
        "create": lambda: cached.create(key, sealed(b"other")),
        "replace": lambda: cached.replace(key, sealed(b"other"), etag),
        "delete": lambda: cached.delete([key]),
    }
    with pytest.raises(NotReady):
        writes[operation]()
    store.before = go_on
    store.objects[key] = sealed(b"written all the same")
    assert content_of(cached.get(key)) == sealed(b"written all the same")


def test_what_is_deleted_here_is_not_held_not_even_by_who_was_reading_it(store: Asked, cached: Cached) -> None:
    key, content = turn(1)
    cached.put(key, content)
    cached.delete([key])
    assert (cached.get(key), cached.held_bytes) == (None, 0)
    store.put(key, content)
    read = store.get

    def late(key: str, unless: str = "") -> object:
        found = read(key, unless)
        cached.delete([key])  # Between the store's answer and what becomes of it.
        return found

    store.get = late  # type: ignore[method-assign,assignment]
    assert content_of(cached.get(key)) == content
    assert cached.held_bytes == 0


def test_an_answer_that_comes_late_does_not_hide_a_later_write(store: Asked, cached: Cached) -> None:
    cached.put(HEAD, b"first")
    read = store.get

    def late(key: str, unless: str = "") -> object:
        found = read(key, unless)
        store.get = read  # type: ignore[method-assign]
        cached.put(HEAD, b"second")
        return found

    store.get = late  # type: ignore[method-assign,assignment]
    cached.get(HEAD)
    store.before = AWAY
    with cached.allowing_stale():
        assert content_of(cached.get(HEAD)) == b"second"


def test_the_copies_stay_in_their_room_and_those_used_last_stay(store: Asked, clock: Clock) -> None:
    cached = Cached(store, 20_000, KEEP_S, clock)
    for number in range(100):
        store.put(*turn(number, 1000))
        cached.get(turn(number)[0])
        cached.get(turn(0)[0])
        assert cached.held_bytes <= 20_000
    assert cached.held_bytes > 15_000
    assert store.reads(turn(0)[0]) == 1
    cached.get(turn(1)[0])
    assert store.reads(turn(1)[0]) == 2


def test_what_would_put_all_else_out_is_not_held(store: Asked, cached: Cached) -> None:
    small, large = turn(1), turn(2, 50_000)
    for key, content in (small, large):
        store.put(key, content)
    for _ in range(2):
        for key, content in (small, large):
            assert content_of(cached.get(key)) == content
    assert (store.reads(small[0]), store.reads(large[0])) == (1, 2)


def test_a_large_file_is_held_when_it_is_read_not_when_it_is_written(store: Asked, clock: Clock) -> None:
    cached = Cached(store, 2**20, KEEP_S, clock)
    key, content = turn(1, 100_000)
    cached.put(key, content)
    assert cached.held_bytes == 0
    for _ in range(2):
        assert content_of(cached.get(key)) == content
    assert store.reads(key) == 1


def test_a_damaged_object_is_not_held(store: Asked, cached: Cached) -> None:
    key, content = turn(1)
    store.put(key, content[:-1])
    assert content_of(cached.get(key)) == content[:-1]
    store.put(key, content)
    assert content_of(cached.get(key)) == content


def test_all_is_gone_from_memory_some_time_after_its_last_use(store: Asked, cached: Cached, clock: Clock) -> None:
    key, content = turn(1)
    store.put(key, content)
    cached.put(HEAD, b"head")
    with cached.allowing_stale("a call"):
        cached.list(TURNS)
    for _ in range(3):
        cached.get(key)
        clock.now_s += KEEP_S - 1
        cached.tidy()
    assert cached.held_bytes > 0
    clock.now_s += 1
    cached.tidy()  # Nobody asked.
    assert cached.held_bytes == 0


def test_nobody_gets_what_is_too_old_though_nobody_has_tidied_up(store: Asked, cached: Cached, clock: Clock) -> None:
    key, content = turn(1)
    cached.put(key, content)
    clock.now_s += KEEP_S
    store.objects.clear()
    assert cached.get(key) is None


def test_threads_that_read_and_write_at_once_see_what_is_there(cached: Cached, store: Asked) -> None:
    def work(worker: int) -> None:
        for number in range(200):
            key, content = f"{TURNS}{number % 20:010d}-{worker}", sealed(bytes([number]))
            cached.put(key, content)
            assert content_of(cached.get(key)) == content
            other = content_of(cached.get(f"{TURNS}{number % 20:010d}-{(worker + 1) % 8}"))
            assert other is None or other.startswith(other[:64])
            cached.delete([key])
            assert cached.get(key) is None

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert (store.objects, cached.held_bytes) == ({}, 0)


def test_a_reader_waits_for_no_other_readers_store(cached: Cached, store: Asked) -> None:
    key, content = turn(1)
    cached.put(key, content)
    store.before = gate = Gate("get")
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(cached.get, HEAD)
        assert content_of(cached.get(key)) == content
        gate.open()
        assert slow.result() is None
