"""The reader of archives holds no more than it must: both who keeps an archive and who looks at it read with it."""

import gc
import sys
import tarfile
import weakref
from collections.abc import Iterator
from contextlib import suppress

import pytest

from services.common.errors import InvalidRequest, TooLarge
from services.common.tar import END, Member, Reader, packed

MEMBER = Member("film", b"x" * 100_000)
ARCHIVE = b"".join(packed(MEMBER)) + END


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


def test_an_archive_that_is_refused_leaves_nothing_in_memory(no_collector: None) -> None:
    for _ in range(10):
        reader = Reader(lambda name: 1 << 20)
        with suppress(InvalidRequest):  # `pytest.raises` would hold the frames.
            list(reader.read(ARCHIVE[:600] + b"y" + ARCHIVE[601:]))
        reader.close()
        del reader
    assert not [each for each in gc.get_objects() if isinstance(each, Reader)]


@pytest.mark.parametrize("end", [0, len(ARCHIVE) // 2, -1])
def test_an_archive_that_ends_too_early_is_refused(end: int) -> None:
    reader = Reader(lambda name: 1 << 20)
    list(reader.read(ARCHIVE[:end]))
    with pytest.raises(InvalidRequest, match="ends too early"):
        reader.check_end()


def test_a_whole_archive_is_read_to_its_end() -> None:
    reader = Reader(lambda name: 1 << 20)
    assert list(reader.read(ARCHIVE)) == [MEMBER]
    reader.check_end()


def test_a_member_of_less_than_no_bytes_is_refused() -> None:
    info = tarfile.TarInfo("film")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(TooLarge, match="has -512 bytes"):
        list(Reader(lambda name: 1 << 20).read(bytes(header) + bytes(2048)))
