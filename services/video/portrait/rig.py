"""A portrait made ready to move: everything about it that stays the same from frame to frame."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait import eyes, fields, mouth, shading
from services.video.portrait.anatomy import Anatomy, Floats, measure

TEXTURE_SCALE = 2
"""The picture is enlarged once, with a good filter, so that the cheap filter of every frame keeps it sharp."""


@dataclass(frozen=True)
class Window:
    """The part of the picture around an opening, px: where the two fields differ."""

    x: int
    y: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns."""
        return slice(self.y, self.y + self.height), slice(self.x, self.x + self.width)


@dataclass(frozen=True)
class PortraitRig:
    """What `drawing` needs.

    Attributes:
        anatomy: The measured face.
        size_px: Side of a frame.
        texture: uint8 (2 * size_px, 2 * size_px, 3), RGB.
        fields: The displacement of every control.
        above, below: uint8 (2 * size_px, 2 * size_px): 255 above the upper edge, below the lower edge of the openings.
        mouth: What is inside the mouth.
        eyeballs: Left of the picture, right of the picture.
        mouth_window, eye_windows: Where the openings are.
        folds: float32 (maps, px * px): the shading maps.
    """

    anatomy: Anatomy
    size_px: int
    texture: NDArray[np.uint8]
    fields: fields.Fields
    above: NDArray[np.uint8]
    below: NDArray[np.uint8]
    mouth: mouth.Mouth
    eyeballs: tuple[eyes.Eyeball, eyes.Eyeball]
    mouth_window: Window
    eye_windows: tuple[Window, Window]
    folds: Floats


def build(image: NDArray[np.uint8], landmarks: Floats) -> PortraitRig:
    """Builds the rig of a square portrait, uint8 (size, size, 3), whose landmarks (478, 3), px, are known."""
    size_px = image.shape[0]
    anatomy = measure(image, landmarks)
    side = size_px * TEXTURE_SCALE
    texture = np.asarray(cv2.resize(image, (side, side), interpolation=cv2.INTER_CUBIC), np.uint8)
    above, below = _edges(anatomy, side)
    return PortraitRig(
        anatomy=anatomy,
        size_px=size_px,
        texture=texture,
        fields=fields.build(anatomy, size_px),
        above=above,
        below=below,
        mouth=mouth.make(anatomy, _skin_colour(image, anatomy)),
        eyeballs=(
            eyes.eyeball(texture, anatomy.eyes[0], anatomy, TEXTURE_SCALE),
            eyes.eyeball(texture, anatomy.eyes[1], anatomy, TEXTURE_SCALE),
        ),
        mouth_window=_mouth_window(anatomy, size_px),
        eye_windows=(_eye_window(anatomy, 0, size_px), _eye_window(anatomy, 1, size_px)),
        folds=shading.build(anatomy, size_px).reshape(len(shading.MAPS), -1),
    )


def _edges(anatomy: Anatomy, side: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Which pixels of the texture lie above and below the openings, with soft edges."""
    axis = (np.arange(side) + 0.5) / TEXTURE_SCALE - 0.5
    px_x, px_y = np.meshgrid(axis, axis)
    x, y = anatomy.to_mm(px_x, px_y)
    soft = 0.55
    over = (anatomy.upper_lip.at(x) - y) / soft
    # The lower lip is opaque half a millimetre higher: closed lips show no dark between them.
    under = (y - anatomy.lower_lip.at(x) + 0.45) / soft
    beyond = (np.abs(x - anatomy.mouth[0]) - anatomy.mouth_half_width * 0.985) / 0.6
    under = np.maximum(under, beyond)
    cheek = anatomy.mouth[1] / 2  # Between the eyes and the mouth: which opening a pixel belongs to.
    under = np.where(y < cheek, 1.0, under)
    for eye in anatomy.eyes:
        near = (np.abs(x - eye.centre[0]) < eye.half_width * 1.7) & (y < cheek)
        lid_over = (eye.upper.at(x) - y) / 0.5
        lid_under = np.maximum((y - eye.lower.at(x)) / 0.5, (np.abs(x - eye.centre[0]) - eye.half_width * 0.97) / 0.5)
        over, under = np.where(near, lid_over, over), np.where(near, lid_under, under)
    return _cover(over), _cover(under)


def _cover(distance: Floats) -> NDArray[np.uint8]:
    return np.asarray(np.clip(distance + 0.5, 0, 1) * 255).astype(np.uint8)


def _mouth_window(anatomy: Anatomy, size_px: int) -> Window:
    (x, y), half = anatomy.mouth, anatomy.mouth_half_width
    return _window(anatomy, size_px, (x - 1.55 * half, y - 24), (x + 1.55 * half, y + 36))


def _eye_window(anatomy: Anatomy, side: int, size_px: int) -> Window:
    eye = anatomy.eyes[side]
    (x, y), half = eye.centre, eye.half_width
    return _window(anatomy, size_px, (x - 1.5 * half, y - 22), (x + 1.5 * half, y + 23))


def _window(anatomy: Anatomy, size_px: int, low: tuple[float, float], high: tuple[float, float]) -> Window:
    corners = np.array([anatomy.to_px(x, y) for x in (low[0], high[0]) for y in (low[1], high[1])])
    left, top = np.clip(corners.min(axis=0), 0, size_px).astype(int).tolist()
    right, bottom = np.clip(corners.max(axis=0) + 1, 0, size_px).astype(int).tolist()
    return Window(left, top, right - left, bottom - top)


def _skin_colour(image: NDArray[np.uint8], anatomy: Anatomy) -> NDArray[np.float64]:
    """Mean colour of the cheeks."""
    colours = []
    for x, y in anatomy.points[[50, 280, 205, 425]].tolist():
        px, py = (int(v) for v in anatomy.to_px(x, y))
        colours.append(image[py - 4 : py + 5, px - 4 : px + 5].reshape(-1, 3).mean(axis=0))
    return np.asarray(np.mean(colours, axis=0))
