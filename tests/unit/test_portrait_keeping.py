"""What is kept of a portrait comes out of a store: whatever is in it, the renderer reads it or says no."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.common.images import decode_image
from services.video.backends.portrait import PortraitBackend, Settings
from services.video.domain import Portrait
from services.video.portrait.keeping import UNPACKED_BYTES_MAX, pack, unpack

ROOT = Path(__file__).parents[2]
SIZE_PX = 512
LANDMARKS_BYTES = 478 * 3 * 4
Head = dict[str, Any]


def picture() -> NDArray[np.uint8]:
    return decode_image((ROOT / "services/memory/identities/anna/portrait.png").read_bytes(), "portrait")


@pytest.fixture(scope="module")
def packed() -> bytes:
    backend = PortraitBackend(Settings(models_dir=ROOT / ".models"))
    return pack(backend.prepare(Portrait("anna", picture())))


def changed(packed: bytes, change: Callable[[Head], object], arrays: Callable[[bytes], bytes] = bytes) -> bytes:
    data = zlib.decompress(packed)
    start = 4 + int.from_bytes(data[:4], "little")
    head = json.loads(data[4:start])
    change(head)
    text = json.dumps(head).encode()
    return zlib.compress(len(text).to_bytes(4, "little") + text + arrays(data[start:]), 1)


def same(head: Head) -> None:
    pass


def test_what_is_packed_is_small_and_comes_back_whole(packed: bytes) -> None:
    rig = unpack(packed, picture, SIZE_PX)
    assert len(packed) < 1 << 20
    assert pack(rig) == packed
    assert pack(unpack(changed(packed, same), picture, SIZE_PX)) == packed


CHANGES: dict[str, Callable[[Head], object]] = {
    "no square": lambda head: head.pop("square"),
    "a square beside the picture": lambda head: head.update(square=[0, 20, 512]),
    "a square of no size": lambda head: head.update(square=[0, 0, 0]),
    "a square of two numbers": lambda head: head.update(square=[0, 0]),
    "a window beside the texture": lambda head: head["window"].__setitem__(0, 1000),
    "a window that its folds do not fill": lambda head: head["window"].__setitem__(2, 8),
    "a window above the texture": lambda head: head["window"].__setitem__(1, -4),
    "a sprite without a scale": lambda head: head["sprites"][0].__setitem__(2, 0),
    "a sprite nowhere": lambda head: head["sprites"][0].__setitem__(0, float("nan")),
    "a sprite too few": lambda head: head["sprites"].pop(),
    "an array too few": lambda head: head["shapes"].pop(),
    "an array of another shape": lambda head: head["shapes"].__setitem__(0, [3, 478]),
    "an array of another rank": lambda head: head["shapes"].__setitem__(3, [10]),
    "a huge array": lambda head: head["shapes"].__setitem__(4, [1 << 40, 4, 4]),
    "an array larger than what is there": lambda head: head["shapes"].__setitem__(7, [1024, 1024, 4]),
    "a shape of words": lambda head: head["shapes"].__setitem__(4, ["a", "b", "c"]),
    "no shapes": lambda head: head.update(shapes=None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_a_rig_is_refused(packed: bytes, name: str) -> None:
    with pytest.raises(ValueError, match=r"no rigged face of this renderer|buffer"):
        unpack(changed(packed, CHANGES[name]), picture, SIZE_PX)


ARRAYS: dict[str, Callable[[bytes], bytes]] = {
    "no numbers": lambda data: np.full(478 * 3, np.nan, np.float32).tobytes() + data[LANDMARKS_BYTES:],
    "landmarks in one place": lambda data: bytes(LANDMARKS_BYTES) + data[LANDMARKS_BYTES:],
    "landmarks far away": lambda data: np.arange(478 * 3, dtype=np.float32).tobytes() + data[LANDMARKS_BYTES:],
    "more than the arrays": lambda data: data + b"x",
    "less than the arrays": lambda data: data[:-1],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_cannot_be_a_face_are_refused(packed: bytes, name: str) -> None:
    with pytest.raises(ValueError, match=r"no rigged face of this renderer|buffer"):
        unpack(changed(packed, same, ARRAYS[name]), picture, SIZE_PX)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no deflated data",
        zlib.compress(b""),
        zlib.compress(b"\xff\xff\xff\xff{}"),
        zlib.compress(b"\x02\x00\x00\x00[]"),
        zlib.compress(b"\x04\x00\x00\x00null"),
        zlib.compress((100_000).to_bytes(4, "little") + b"[" * 100_000),
        zlib.compress(bytes(UNPACKED_BYTES_MAX + 1)),
    ],
    ids=["nothing", "text", "empty", "no end", "a list", "null", "deep", "a bomb"],
)
def test_what_was_never_packed_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(content, picture, SIZE_PX)


def test_a_picture_that_is_too_small_for_it_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="the square lies in the picture"):
        unpack(packed, lambda: np.zeros((300, 300, 3), np.uint8), SIZE_PX)
