import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.files import CHUNK_BYTES, digest_of, pieces, size_of, write_whole

CONTENT = bytes(range(256)) * 3000


def test_a_file_and_its_content_are_the_same_to_a_call(tmp_path: Path) -> None:
    (tmp_path / "film").write_bytes(CONTENT)
    for content in (tmp_path / "film", CONTENT):
        assert size_of(content) == len(CONTENT)
        assert digest_of(content) == hashlib.sha256(CONTENT).hexdigest()
        parts = list(pieces(content))
        assert b"".join(parts) == CONTENT
        assert [len(part) for part in parts] == [CHUNK_BYTES, CHUNK_BYTES, len(CONTENT) - 2 * CHUNK_BYTES]


def test_what_can_be_no_upload_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDWR)  # both ends, so that opening it waits for nobody
    for name, problem in (
        ("none", "No such file or directory"),
        ("empty", "the file is empty"),
        (".", "Is a directory"),
        ("pipe", "it is no regular file; write it to one first"),
    ):
        with pytest.raises(OSError, match=problem) as failure:
            size_of(tmp_path / name)
        assert failure.value.filename == str(tmp_path / name)
    os.close(reading)


def test_a_written_file_is_there_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "anna.tar"
    seen: list[list[str]] = []

    def parts() -> Iterator[bytes]:
        yield CONTENT
        seen.append([path.name for path in tmp_path.iterdir() if path == file])
        yield b"end"

    assert write_whole(file, parts()) == len(CONTENT) + 3
    assert file.read_bytes() == CONTENT + b"end"
    assert seen == [[]]
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_breaks_off_leaves_the_file_as_it_was(tmp_path: Path, failure: BaseException) -> None:
    file = tmp_path / "anna.tar"
    file.write_bytes(b"older")

    def parts() -> Iterator[bytes]:
        yield CONTENT
        raise failure

    with pytest.raises(type(failure)) as caught:
        write_whole(file, parts())
    assert getattr(caught.value, "filename", str(file)) == str(file)
    assert file.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [file]


def test_nothing_but_a_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, problem in (("pipe", "it is no regular file; name one"), (".", "Is a directory")):
        with pytest.raises(OSError, match=problem) as failure:
            write_whole(tmp_path / name, [CONTENT])
        assert failure.value.filename == str(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]
