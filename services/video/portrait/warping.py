"""Moves the picture: turns a displacement field into the place in the texture that each pixel of the frame shows."""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from services.video.portrait.anatomy import Floats
from services.video.portrait.fields import GRID

Pixels = NDArray[np.uint8]
"""(height, width, 4): red, green, blue, and what the fourth channel stands for where it is used."""
Number = TypeVar("Number", bound=np.number[Any])

INVERSION_STEPS = 4
"""Fixed-point steps that turn "where does this go" into "where does this come from"; the rest is under 0.1 px."""
MARGIN_CELLS = 1
"""A window's places are interpolated between the points of the grid around it."""
TEXTURE_SCALE = 2
"""The picture is enlarged once, with a good filter, so that the cheap filter of every frame keeps it sharp."""


@dataclass(frozen=True)
class Window:
    """A part of a picture, px."""

    x: int
    y: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns."""
        return slice(self.y, self.y + self.height), slice(self.x, self.x + self.width)

    def part(self, inner: "Window") -> "Window":
        """A part of this one, given relative to it, as a part of the whole picture."""
        return Window(self.x + inner.x, self.y + inner.y, inner.width, inner.height)


class Warp:
    """The places of one part of the frame.

    Args:
        size_px: Side of a frame.
        window: The part of the frame.
    """

    def __init__(self, size_px: int, window: Window) -> None:
        self.window = window
        self._cell = size_px // GRID
        low = [start // self._cell - MARGIN_CELLS for start in (window.x, window.y)]
        ends = (window.x + window.width, window.y + window.height)
        high = [-(-end // self._cell) + MARGIN_CELLS for end in ends]
        axes = [np.arange(start, end, dtype=np.float32) for start, end in zip(low, high, strict=True)]
        self._points = np.stack(np.meshgrid(*axes), axis=-1)
        self._cut = tuple(
            slice(start - at * self._cell, end - at * self._cell)
            for start, end, at in zip((window.y, window.x), ends[::-1], low[::-1], strict=True)
        )
        height, width = self._points.shape[:2]
        self._fine = np.empty((height * self._cell, width * self._cell, 2), np.float32)

    def places(self, moved: "Moved") -> Floats:
        """Returns where each pixel of the window is taken from, (height, width, 2), px of the texture, x first.

        The array is used again by the next call.
        """
        source: Floats = self._points
        for _ in range(INVERSION_STEPS):
            there = sample(moved.field, source)
            source = source - (source + there[..., :2] - self._points) * there[..., 2:]
        # Centres, not corners, of cells and of pixels lie over each other.
        step = self._cell * TEXTURE_SCALE
        place = source * np.float32(step) + np.float32((step - 1) / 2)
        cv2.resize(place, self._fine.shape[1::-1], dst=self._fine, interpolation=cv2.INTER_LINEAR)
        return np.asarray(self._fine[self._cut])


class Moved:
    """A displacement that can be inverted.

    Args:
        displacement: float32 (GRID, GRID, 2), in cells.

    Attributes:
        field: float32 (GRID, GRID, 4): the displacement, and how much of what is still missing one step of the
            inversion goes, along x and along y. Where skin is stretched a full step would go too far: beyond twice
            its length ever farther. Where it is pressed together full steps are slow but safe.
    """

    def __init__(self, displacement: Floats) -> None:
        self.field = np.empty((GRID, GRID, 4), np.float32)
        self.field[..., :2] = displacement
        for axis in (0, 1):
            slope = cv2.Sobel(self.field[..., axis].copy(), -1, 1 - axis, axis, ksize=1, scale=0.5)
            self.field[..., 2 + axis] = 1 / (1 + np.maximum(slope, 0))

    def at(self, row: int, column: int) -> Floats:
        """The displacement (2,) of one cell, in cells."""
        return np.asarray(self.field[row, column, :2])


def sample(
    image: NDArray[Number],
    places: Floats,
    into: NDArray[Number] | None = None,
    border: int = cv2.BORDER_REPLICATE,
) -> NDArray[Number]:
    """Takes `image` at `places` (height, width, 2), px; writes it to `into` if that is given."""
    source, result = cast("MatLike", image), cast("MatLike", into)
    return cast("NDArray[Number]", cv2.remap(source, places, _NONE, cv2.INTER_LINEAR, result, borderMode=border))


def lay(patch: Pixels, picture: Pixels, strength: float = 1.0) -> None:
    """Lays `patch`, as far as its fourth channel covers and at a `strength` of 0 to 1, over `picture` of equal size.

    The picture keeps its own fourth channel.
    """
    weight = cv2.convertScaleAbs(cv2.extractChannel(patch, 3), alpha=strength)
    weights = cv2.merge((weight, weight, weight, np.zeros_like(weight)))
    cv2.multiply(picture, cv2.bitwise_not(weights), dst=picture, scale=1 / 255)
    cv2.add(picture, cv2.multiply(patch, weights, scale=1 / 255), dst=picture)


_NONE = cast("MatLike", None)
"""OpenCV takes None for a map that is not needed; its type stubs do not."""
