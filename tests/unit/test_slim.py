"""Files that are taken out of an image's packages, and files that stay."""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from images import slim

LIBRARY = Path(np.__file__).parent / "_core"


@pytest.fixture
def library() -> bytes:
    return next(LIBRARY.glob("_multiarray_umath*.so")).read_bytes()


def test_a_library_that_python_loaded_is_loadable(library: bytes) -> None:
    assert slim.is_loadable(library)


def test_a_library_whose_segment_is_off_its_page_is_not_loadable(library: bytes) -> None:
    (first,) = struct.unpack_from("<Q", library, 32)
    size, count = struct.unpack_from("<HH", library, 54)
    places = (first + size * number for number in range(count))
    place = next(place for place in places if struct.unpack_from("<I", library, place)[0] == slim.PT_LOAD)
    (offset,) = struct.unpack_from("<Q", library, place + 8)
    spoiled = bytearray(library)
    struct.pack_into("<Q", spoiled, place + 8, offset + 8)
    assert not slim.is_loadable(bytes(spoiled))


def test_tests_and_types_go_and_modules_stay(tmp_path: Path) -> None:
    for name in ("tool/__init__.py", "tool/__init__.pyi", "tool/tests/test_it.py", "numpy/f2py/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    slim.remove_unused(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["__init__.py"]
    assert (tmp_path / "tool/__init__.py").exists()


def test_the_stand_in_for_pyav_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stand_in_for_av.py").write_text(slim.NO_AV, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    stand_in = __import__("stand_in_for_av")
    del sys.modules["stand_in_for_av"]
    with pytest.raises(ImportError, match="no PyAV"):
        stand_in.open("recording.wav")
