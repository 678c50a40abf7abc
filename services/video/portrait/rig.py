"""A portrait made ready to move: everything about it that stays the same from frame to frame."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.framing import Framed
from services.video.portrait import eyes, fields, glasses, mouth, shading
from services.video.portrait.anatomy import Anatomy, Floats, measure
from services.video.portrait.retouch import Retouch, Retoucher
from services.video.portrait.warping import TEXTURE_SCALE, Pixels, Window

LEVEL_LIPS_MM = 0.8
"""How much higher than its middle the line between resting lips ends."""
SMILE_MM = 5.6
"""How much higher a full smile (au12 at 1) lifts its ends."""
SMILE_REMOVED_MAX = 0.45
"""A broader smile has folded the cheeks: to flatten the lips alone would look wrong."""
FOLD_MIN = 0.002
"""Shading below this is not seen: at full depth half a step of 255."""


@dataclass(frozen=True)
class Folds:
    """The shading maps where they are not zero.

    Attributes:
        maps: float32 (maps, height, width), in the order of `shading.MAPS`: natural logs of a gain.
        window: The part of the texture that they cover, px of the texture.
    """

    maps: Floats
    window: Window


@dataclass(frozen=True)
class Findings:
    """What of a rig is slow to find out.

    Attributes:
        above, below: uint8 (2 * size_px, 2 * size_px): where the texture is opaque as the side above, and below, an
            opening.
        mouth: What is inside the mouth.
        folds: The shading maps.
    """

    above: Pixels
    below: Pixels
    mouth: mouth.Mouth
    folds: Folds


@dataclass(frozen=True)
class PortraitRig:
    """What `drawing` needs.

    Attributes:
        framed: The portrait that it is of.
        anatomy: The measured face.
        size_px: Side of a frame.
        upper, lower: uint8 (2 * size_px, 2 * size_px, 4): the picture, RGB, and as fourth channel where it is opaque as
            the side above, as the side below an opening.
        fields: The displacement of every control.
        mouth: What is inside the mouth.
        eyeballs: Left of the picture, right of the picture.
        mouth_window, eye_windows: Where the openings are.
        lip: The lower lip's edge when the mouth is open.
        lids: The lids when they are closed: upper and lower, left of the picture, then right.
        folds: The shading maps.
        glasses: The glasses; they are not in `upper` and `lower`.
        rest: Weights of controls that bring the portrait to rest: lips parted or smiling in it are neither.
    """

    framed: Framed
    anatomy: Anatomy
    size_px: int
    upper: Pixels
    lower: Pixels
    fields: fields.Fields
    mouth: mouth.Mouth
    eyeballs: tuple[eyes.Eyeball, eyes.Eyeball]
    mouth_window: Window
    eye_windows: tuple[Window, Window]
    lip: Retouch
    lids: tuple[tuple[Retouch, Retouch], ...]
    folds: Folds
    glasses: glasses.Glasses | None
    rest: dict[str, float]


def build(framed: Framed, findings: Findings | None = None) -> PortraitRig:
    """Builds the rig of a portrait; what was found out about it before spares most of the work."""
    image = framed.image
    size_px = image.shape[0]
    anatomy = measure(image, framed.landmarks)
    found = findings or _find(image, anatomy)
    side = size_px * TEXTURE_SCALE
    texture = np.asarray(cv2.resize(image, (side, side), interpolation=cv2.INTER_CUBIC), np.uint8)
    rim, worn = glasses.rims(image, anatomy), None
    if rim is not None:
        texture, worn = glasses.take_off(texture, rim, anatomy)
    retoucher = Retoucher(texture, anatomy, TEXTURE_SCALE)
    return PortraitRig(
        framed=framed,
        anatomy=anatomy,
        size_px=size_px,
        upper=np.dstack([texture, found.above]),
        lower=np.dstack([texture, found.below]),
        fields=fields.build(anatomy, size_px),
        mouth=found.mouth,
        eyeballs=(
            eyes.eyeball(texture, anatomy.eyes[0], anatomy, TEXTURE_SCALE),
            eyes.eyeball(texture, anatomy.eyes[1], anatomy, TEXTURE_SCALE),
        ),
        mouth_window=_mouth_window(anatomy, size_px),
        eye_windows=(_eye_window(anatomy, 0, size_px), _eye_window(anatomy, 1, size_px)),
        lip=retoucher.lower_lip(),
        lids=tuple((retoucher.upper_lid(eye), retoucher.lower_lid(eye)) for eye in anatomy.eyes),
        folds=found.folds,
        glasses=worn,
        rest=_rest(anatomy),
    )


def _find(image: NDArray[np.uint8], anatomy: Anatomy) -> Findings:
    size_px = image.shape[0]
    above, below = _edges(anatomy, size_px * TEXTURE_SCALE)
    return Findings(above, below, mouth.make(anatomy, _skin_colour(image, anatomy)), _folds(anatomy, size_px))


def _rest(anatomy: Anatomy) -> dict[str, float]:
    ends = anatomy.mouth[0] + 0.95 * anatomy.mouth_half_width * np.array([-1, 1])
    rise_mm = anatomy.mouth[1] - float(anatomy.upper_lip.at(ends).mean())
    smile = float(np.clip((rise_mm - LEVEL_LIPS_MM) / SMILE_MM, 0, SMILE_REMOVED_MAX))
    return {"close": 1.0, "au12_l": -smile, "au12_r": -smile}


def _folds(anatomy: Anatomy, size_px: int) -> Folds:
    maps = shading.build(anatomy, size_px)
    scale = size_px * TEXTURE_SCALE // shading.SHADING_PX
    x, y, width, height = cv2.boundingRect((np.abs(maps).max(axis=0) > FOLD_MIN).astype(np.uint8))
    covered = np.ascontiguousarray(maps[:, y : y + height, x : x + width])
    return Folds(covered, Window(x * scale, y * scale, width * scale, height * scale))


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
