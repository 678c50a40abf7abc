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
from tests.support.archives import archive_of, members

MEMBER = Member("film", b"x" * 100_000)
ARCHIVE = archive_of([MEMBER])


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_an_archive_comes_in_pieces_of_at_most_a_mebibyte_and_any_program_reads_it() -> None:
    large = Member("people/film", bytes(range(256)) * 10_000, "video/mp4")
    assert max(map(len, packed(large))) == 1 << 20
    archive = archive_of([MEMBER, large])
    assert members(archive) == [MEMBER, large]
    reader = Reader(lambda name: 1 << 22)
    read = [member for at in range(0, len(archive), 997) for member in reader.read(archive[at : at + 997])]
    assert (read, reader.at_end) == ([MEMBER, large], True)


def test_an_archive_that_lacks_its_end_is_refused() -> None:
    reader = Reader(lambda name: 1 << 20)
    assert list(reader.read(ARCHIVE.removesuffix(END))) == [MEMBER]
    with pytest.raises(InvalidRequest, match="archive: it ends too early; send it whole, as an export wrote it"):
        reader.check_end()
    assert list(reader.read(END)) == []
    reader.check_end()


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
        reader = Reader(lambda name: 1 << 20)
        with suppress(InvalidRequest):  # `pytest.raises` would hold the frames.
            list(reader.read(content))
            reader.check_end()
        reader.close()
        del reader
    assert not [each for each in gc.get_objects() if isinstance(each, Reader)]


def test_a_member_of_less_than_no_bytes_is_refused() -> None:
    info = tarfile.TarInfo("film")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(TooLarge, match="has -512 bytes"):
        list(Reader(lambda name: 1 << 20).read(bytes(header) + bytes(2048)))
