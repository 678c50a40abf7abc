"""Media on the wire: pieces of files, PCM, the last few results."""

from functools import partial

import numpy as np
import pytest

from services.common.caches import LastUsed
from services.common.errors import InvalidRequest
from services.common.media import CHUNK_BYTES_MAX, Collector, chunks, float_of_pcm, pcm_of_float


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1, 3 * CHUNK_BYTES_MAX])
def test_a_file_cut_into_pieces_and_joined_is_the_same_file(size: int) -> None:
    content = bytes(range(251)) * (size // 251) + bytes(size % 251)
    pieces = list(chunks(content))
    assert all(0 < len(piece) <= CHUNK_BYTES_MAX for piece in pieces)
    file = Collector("voice", size)
    for piece in pieces:
        file.add(piece)
    assert (file.content, file.size) == (content, size)


def test_a_piece_over_the_limit_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="voice: a message holds 1048577 bytes; send at most 1048576"):
        Collector("voice", 1 << 30).add(bytes(CHUNK_BYTES_MAX + 1))


def test_a_file_is_refused_at_its_limit_before_the_piece_is_kept() -> None:
    file = Collector("voice", 10)
    file.add(bytes(10))
    with pytest.raises(InvalidRequest, match="voice: more than 10 bytes"):
        file.add(b"x")
    assert file.size == 10


def test_pcm_is_little_endian_of_full_scale_and_clips() -> None:
    assert (
        pcm_of_float(np.array([0, 0.5, -1, 1, 2, -2], np.float32))
        == np.array([0, 16384, -32768, 32767, 32767, -32768], "<i2").tobytes()
    )
    np.testing.assert_array_equal(float_of_pcm(b"\x00\x40\x00\x80"), np.array([0.5, -1], np.float32))


def test_what_was_used_last_is_kept_and_the_oldest_goes() -> None:
    made: list[str] = []
    cache: LastUsed[str, str] = LastUsed(2)

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    assert [cache.get(key, partial(make, key)) for key in "abaca"] == ["A", "B", "A", "C", "A"]
    assert made == ["a", "b", "c"]
    assert ["a" in cache, "b" in cache, "c" in cache] == [True, False, True]


def test_room_is_shared_by_size_and_what_is_larger_than_all_of_it_pushes_nothing_out() -> None:
    cache: LastUsed[str, bytes] = LastUsed(10, len)
    for key, size in (("a", 6), ("b", 4), ("c", 3)):
        assert len(cache.get(key, partial(bytes, size))) == size
    assert ["a" in cache, "b" in cache, "c" in cache] == [False, True, True]
    assert cache.get("d", lambda: bytes(11)) == bytes(11)
    assert [key in cache for key in "bcd"] == [True, True, False]


def test_what_is_meant_is_forgotten() -> None:
    cache: LastUsed[str, str] = LastUsed(9)
    for key in ("ada-1", "ada-2", "bob-1"):
        cache.get(key, lambda: "kept")
    cache.forget(lambda key: key.startswith("ada"))
    assert ["ada-1" in cache, "ada-2" in cache, "bob-1" in cache] == [False, False, True]


def test_what_could_not_be_made_is_not_kept() -> None:
    cache: LastUsed[str, str] = LastUsed(2)

    def fail() -> str:
        raise InvalidRequest("portrait", "no face")

    with pytest.raises(InvalidRequest):
        cache.get("a", fail)
    assert "a" not in cache
    assert cache.get("a", lambda: "made") == "made"


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_what_is_not_used_for_its_time_is_dropped_and_each_use_begins_it_anew() -> None:
    clock = Clock()
    cache: LastUsed[str, str] = LastUsed(9, keep_s=60, clock=clock)
    cache.get("a", lambda: "kept")
    cache.get("b", lambda: "kept")
    clock.now_s += 40
    assert cache.get("a", lambda: "made anew") == "kept"
    clock.now_s += 20
    assert ["a" in cache, "b" in cache] == [True, False]
    clock.now_s += 39
    assert cache.get("a", lambda: "made anew") == "kept"
    clock.now_s += 60
    assert cache.get("a", lambda: "made anew") == "made anew"


def test_finding_is_a_use_and_finds_nothing_that_is_not_kept() -> None:
    clock = Clock()
    cache: LastUsed[str, str] = LastUsed(2, keep_s=60, clock=clock)
    assert cache.find("a") is None
    for key in "ab":
        cache.get(key, lambda: "kept")
    clock.now_s += 59
    assert cache.find("a") == "kept"
    cache.get("c", lambda: "kept")
    assert ["a" in cache, "b" in cache, len(cache)] == [True, False, 2]
    clock.now_s += 60
    assert cache.find("a") is None


def test_it_says_when_there_is_more_to_drop_though_nobody_asks() -> None:
    clock = Clock()
    cache: LastUsed[str, str] = LastUsed(9, keep_s=60, clock=clock)
    assert cache.drop_unused() is None
    cache.get("a", lambda: "kept")
    clock.now_s += 10
    cache.get("b", lambda: "kept")
    assert cache.drop_unused() == 50
    clock.now_s += 50
    assert cache.drop_unused() == 10
    clock.now_s += 10
    assert cache.drop_unused() is None


def test_without_an_age_nothing_is_dropped_for_it() -> None:
    clock = Clock()
    cache: LastUsed[str, str] = LastUsed(9, clock=clock)
    cache.get("a", lambda: "kept")
    clock.now_s += 1e9
    assert cache.drop_unused() is None
    assert "a" in cache
