"""The reader of archives holds no more than it must: both who keeps an archive and who looks at it read with it."""

import gc
import sys
import tarfile
import weakref
from collections.abc import Iterator
from contextlib import suppress

import pytest

from services.common.errors import InvalidRequest, TooLarge
from services.common.tar import Member, Reader, packed, unpacked

MEMBER = Member("film", b"x" * 100_000)
ARCHIVE = b"".join(packed([MEMBER]))


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_member_that_was_taken_is_held_no_longer() -> None:
    reader = Reader(lambda name: 1 << 20)
    (member,) = reader.read(ARCHIVE[:-1024])
    content = member.content
    del member
    assert sys.getrefcount(content) == 2


@pytest.mark.parametrize("end", [len(ARCHIVE) // 2, -1024])
def test_who_is_closed_goes_at_once_with_what_it_holds(no_collector: None, end: int) -> None:
    reader = Reader(lambda name: 1 << 20)
    gone = weakref.ref(reader)
    assert len(list(reader.read(ARCHIVE[:end]))) == (end < 0)
    reader.close()
    del reader
    assert gone() is None


def test_an_archive_that_is_cut_or_refused_leaves_nothing_in_memory(no_collector: None) -> None:
    for content in (ARCHIVE[: len(ARCHIVE) // 2], ARCHIVE[:600] + b"y" + ARCHIVE[601:]) * 10:
        with suppress(InvalidRequest):  # `pytest.raises` would hold the frames.
            list(unpacked(iter([content]), lambda name: 1 << 20))
    assert not [each for each in gc.get_objects() if isinstance(each, Reader)]


def test_a_member_of_less_than_no_bytes_is_refused() -> None:
    info = tarfile.TarInfo("film")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(TooLarge, match="has -512 bytes"):
        list(Reader(lambda name: 1 << 20).read(bytes(header) + bytes(2048)))
