"""What is slow to find out about a portrait, as bytes: another replica then needs only the rest.

The landmarks, the mouth's inside, the folds and the openings' edges take most of a rig's time and few of its bytes;
textures and fields are made again from the picture, which comes with every call anyway.
"""

import json
import zlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.framing import IRIS_DISTANCE_MIN_PX, IRIS_LEFT, IRIS_RIGHT, Framed, Square, cut
from services.video.portrait.mouth import Mouth, Sprite
from services.video.portrait.rig import Findings, Folds, PortraitRig, build
from services.video.portrait.shading import MAPS, SHADING_PX
from services.video.portrait.warping import TEXTURE_SCALE, Window

UNPACKED_BYTES_MAX = 16 << 20
LEVEL = 1
"""Higher ones take longer than what they spare takes to travel."""
SPRITES = ("upper_teeth", "lower_teeth", "tongue", "throat")
LANDMARKS = 478


def pack(rig: PortraitRig) -> bytes:
    """Returns what `unpack` needs beside the picture: JSON that says shapes and places, then the arrays, deflated."""
    sprites = [getattr(rig.mouth, name) for name in SPRITES]
    framed, folds, window = rig.framed, rig.folds, rig.folds.window
    arrays = [framed.landmarks, rig.upper[..., 3], rig.lower[..., 3], folds.maps, *(one.pixels for one in sprites)]
    head = {
        "square": [framed.square.left, framed.square.top, framed.square.side],
        "window": [window.x, window.y, window.width, window.height],
        "sprites": [[*sprite.anchor, sprite.px_per_mm] for sprite in sprites],
        "shapes": [array.shape for array in arrays],
    }
    text = json.dumps(head).encode()
    return zlib.compress(b"".join([len(text).to_bytes(4, "little"), text, *(one.tobytes() for one in arrays)]), LEVEL)


def unpack(content: bytes, image: Callable[[], NDArray[np.uint8]], size_px: int) -> PortraitRig:
    """Returns the rig that `pack` was given.

    Args:
        content: Its bytes.
        image: Gives the portrait's picture, uint8 (height, width, 3), RGB.
        size_px: Side of a frame.

    Raises:
        ValueError: These are no bytes of `pack`, or they do not fit the picture.
    """
    side = size_px * TEXTURE_SCALE
    try:
        head, data = _opened(content)
        landmarks, above, below, maps, *drawn = _arrays(head["shapes"], data, side)
        square, window = Square(*map(int, head["square"])), Window(*map(int, head["window"]))
        places = np.array(head["sprites"], np.float64)
    except (zlib.error, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no rigged face of this renderer: {error!r}") from error
    picture = image()
    _check(0 <= square.left <= picture.shape[1] - square.side, "the square lies in the picture")
    _check(0 <= square.top <= picture.shape[0] - square.side and square.side > 0, "the square lies in the picture")
    _check(places.shape == (len(SPRITES), 3) and bool((np.abs(places) < side).all()), "sprites have places")
    _check(bool((places[:, 2] > 0).all()), "sprites have a scale")
    _check_window(window, maps, side)
    apart = float(np.linalg.norm(landmarks[IRIS_LEFT] - landmarks[IRIS_RIGHT]))
    _check(apart > IRIS_DISTANCE_MIN_PX and float(np.abs(landmarks).max()) < side, "landmarks are a face's")
    sprites = [Sprite(pixels, (x, y), scale) for pixels, (x, y, scale) in zip(drawn, places.tolist(), strict=True)]
    mouth = Mouth(**dict(zip(SPRITES, sprites, strict=True)))
    framed = Framed(cut(picture, square, size_px), landmarks, square)
    try:
        return build(framed, Findings(above, below, mouth, Folds(maps, window)))
    except cv2.error as error:
        raise ValueError(f"no rigged face of this renderer: {error}") from error


def _opened(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns what is said of the arrays, and their bytes."""
    inflating = zlib.decompressobj()
    data = inflating.decompress(content, UNPACKED_BYTES_MAX)
    _check(inflating.eof and not inflating.unused_data, f"they are whole, and at most {UNPACKED_BYTES_MAX} bytes")
    start = 4 + int.from_bytes(data[:4], "little")
    head = json.loads(data[4:start])
    return dict(head), data[start:]


def _arrays(shapes: list[list[int]], data: bytes, side: int) -> list[NDArray[Any]]:
    """Cuts the bytes into arrays, in the order of `pack`; each has the shape that it can have."""
    most = [(LANDMARKS, 3), (side, side), (side, side), (len(MAPS), SHADING_PX, SHADING_PX)]
    most += [(side, side, 4)] * len(SPRITES)
    free = [(), (), (), (1, 2), *[(0, 1)] * len(SPRITES)]
    types = [np.float32, np.uint8, np.uint8, *[np.float32] * (1 + len(SPRITES))]
    _check(len(shapes) == len(most), f"they hold {len(most)} arrays")
    arrays: list[NDArray[Any]] = []
    at = 0
    for shape, limit, axes, dtype in zip(shapes, most, free, types, strict=True):
        fits = len(shape) == len(limit) and all(
            1 <= found <= allowed if axis in axes else found == allowed
            for axis, (found, allowed) in enumerate(zip(shape, limit, strict=True))
        )
        _check(fits, f"an array is {limit}, not {shape}")
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape).copy())
        at += count * np.dtype(dtype).itemsize
        _check(bool(np.isfinite(arrays[-1]).all()), "they hold finite numbers")
    _check(at == len(data), "nothing follows the arrays")
    return arrays


def _check_window(window: Window, maps: NDArray[np.float32], side: int) -> None:
    scale = side // SHADING_PX
    _check((window.width, window.height) == (maps.shape[2] * scale, maps.shape[1] * scale), "folds fill their window")
    inside = 0 <= window.x <= side - window.width and 0 <= window.y <= side - window.height
    _check(inside, "the window lies in the texture")


def _check(holds: bool, demand: str) -> None:
    """Raises ValueError unless it holds."""
    if not holds:
        raise ValueError(f"no rigged face of this renderer: {demand}")
