"""Lays the lower lip or lid, and what is behind it, under the upper one: the mouth and the eyes of one frame.

Pictures of skin have a fourth channel here, which says how opaque the pixel is as upper or as lower side. An opening is
so small that calls cost more than pixels: few, whole-pixel ones of OpenCV, and nothing is drawn that is not seen.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from services.video.portrait.warping import Pixels, Window

Light = NDArray[np.float32]
"""(height, width, 4)."""
Mask = MatLike
"""uint8 (height, width), 0 to 255."""
GLOW = 1.25
"""What is behind an opening is in full light a little before the opening is all around it."""


@dataclass(frozen=True)
class Shadow:
    """What the edges of an opening throw on what is behind them.

    Attributes:
        reach_px: How far from the edges it is darker.
        fall_px: How much farther below the upper edge than above the lower one: light comes from above.
        depth: float32 (4,), by how much it is darker, 0 to 1, for each channel: shadows in flesh are red.
    """

    reach_px: float
    fall_px: float
    depth: NDArray[np.float32]


def fill(frame: Pixels, window: Window, lower: Pixels, shadow: Shadow, inside: Callable[[Window], Light]) -> None:
    """Completes `frame`, which holds the upper side everywhere, within `window`.

    Args:
        frame: The whole frame; its last channel is the upper side's opacity. Changed in place.
        window: Where the opening is.
        lower: The lower side in the window; its last channel is its opacity.
        shadow: What the two sides throw on what is behind them.
        inside: Draws what is behind a part of the frame.
    """
    upper = frame[window.slices]
    opaque = cv2.extractChannel(upper, 3)
    through = cv2.bitwise_not(opaque)
    seen = cv2.multiply(through, cv2.bitwise_not(cv2.extractChannel(lower, 3)), scale=1 / 255)
    below = Window(*cv2.boundingRect(through)).slices
    part = upper[below]
    cv2.multiply(part, _four(opaque[below]), dst=part, scale=1 / 255)
    cv2.add(part, cv2.multiply(lower[below], _four(cv2.subtract(through, seen)[below]), scale=1 / 255), dst=part)
    hole = Window(*cv2.boundingRect(seen))
    if hole.width:
        part = upper[hole.slices]
        behind = inside(window.part(hole)) * _light(seen, hole, shadow)
        cv2.add(part, (behind + 0.5).astype(np.uint8), dst=part)


def _light(seen: Mask, hole: Window, shadow: Shadow) -> Light:
    """How much light comes back through each pixel of a hole, 0 to 1, less near its upper edge."""
    around, fall = math.ceil(3 * shadow.reach_px), round(shadow.fall_px)
    part = np.zeros((hole.height + 2 * around, hole.width + 2 * around), np.float32)
    rows, columns = slice(around, around + hole.height), slice(around, around + hole.width)
    part[rows, columns] = seen[hole.slices]
    spread = cv2.GaussianBlur(part, (0, 0), shadow.reach_px)[around - fall : around - fall + hole.height, columns]
    dark = 1 - np.minimum(spread * (GLOW / 255), 1)
    light = 1 - dark[..., None] * shadow.depth
    return np.asarray(light * (part[rows, columns, None] * np.float32(1 / 255)), np.float32)


def _four(mask: Mask) -> MatLike:
    return cv2.merge((mask, mask, mask, mask))
