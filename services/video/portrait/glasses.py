"""Takes glasses off a portrait, so that they can be put on again unbent: skin moves behind rims, and rims do not move.

A bridge over the nose is the one dark line there that no face has (Jiang et al. 2000, "Towards detection of glasses in
facial images"). What hangs together with it and runs around both eyes are the rims. Rims without a visible bridge, and
those no darker than skin, are not found: they bend with the brows.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait.anatomy import Anatomy, Floats
from services.video.portrait.warping import Pixels

RIM_MM = 5.0
"""Wider than a rim is thick."""
DARKER = 0.16
"""A rim is darker than what is around it by this part."""
REGION_MM = (72.0, -24.0, 34.0)
"""Where rims are: this far to both sides, from the top, to the bottom."""
BRIDGE_MM = (4.0, -12.0, 9.0)
BELOW_EYE_MM = 8.0
"""Rims pass at least this far below both eyes; nothing in a face that is joined to the bridge does."""
EDGE_MM = 0.5
"""This much around what was found belongs to the rims, too."""


@dataclass(frozen=True)
class Glasses:
    """The rims alone: RGB and coverage, with their top left corner at (`x`, `y`) of the texture."""

    pixels: Pixels
    x: int
    y: int


def take_off(texture: NDArray[np.uint8], rim: NDArray[np.uint8], anatomy: Anatomy) -> tuple[NDArray[np.uint8], Glasses]:
    """Returns the texture with skin in place of the rims, and the rims.

    Args:
        texture: uint8 (height, width, 3): the portrait, enlarged.
        rim: What `rims` found in the portrait.
        anatomy: The face.
    """
    scale = texture.shape[0] / rim.shape[0]
    found = cv2.resize(rim, texture.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    size = 2 * round(EDGE_MM * anatomy.px_per_mm * scale) + 1
    cover = cv2.dilate(found, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
    cover = cv2.GaussianBlur(cover, (0, 0), 0.7)
    # The skin under the soft edge of the rims has some of their dark.
    under = cv2.dilate((cover > 8).astype(np.uint8), np.ones((3, 3), np.uint8))
    bare = cv2.inpaint(texture, under, 4 * scale, cv2.INPAINT_TELEA)
    x, y, width, height = cv2.boundingRect(cover)
    cut = slice(y, y + height), slice(x, x + width)
    return np.asarray(bare, np.uint8), Glasses(np.dstack([texture[cut], cover[cut]]), x, y)


def rims(image: NDArray[np.uint8], anatomy: Anatomy) -> NDArray[np.uint8] | None:
    """Returns where the rims of glasses are, uint8 (height, width), 255 or 0, or None when there are none.

    Args:
        image: The portrait, uint8 (height, width, 3), RGB.
        anatomy: Its face.
    """
    unit = anatomy.px_per_mm
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    size = round(RIM_MM * unit) | 1
    around = cv2.morphologyEx(grey, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
    dark = (around.astype(np.float32) - grey) > DARKER * np.maximum(around, 40)
    px_y, px_x = np.mgrid[0 : image.shape[0], 0 : image.shape[1]].astype(np.float64)
    x, y = anatomy.to_mm(px_x, px_y)
    wide, top, bottom = REGION_MM
    dark &= (np.abs(x) < wide) & (y > top) & (y < bottom)
    # A glint breaks a rim.
    joined = cv2.morphologyEx(dark.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    _, labels = cv2.connectedComponents(joined)
    wide, top, bottom = BRIDGE_MM
    for label in np.unique(labels[(labels > 0) & (np.abs(x) < wide) & (y > top) & (y < bottom)]):
        found = labels == label
        if _around_both_eyes(x[found], y[found], anatomy):
            return np.where(found, 255, 0).astype(np.uint8)
    return None


def _around_both_eyes(x: Floats, y: Floats, anatomy: Anatomy) -> bool:
    for eye in anatomy.eyes:
        centre_x, centre_y = eye.centre
        beside = np.abs(x - centre_x) < 0.6 * eye.half_width
        if not np.any(beside & (y > centre_y + BELOW_EYE_MM)):
            return False
        outer = (x - centre_x) * np.sign(centre_x)
        if float(outer.max()) < eye.half_width:
            return False
    return True
