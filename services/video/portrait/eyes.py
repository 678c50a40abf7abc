"""Makes the whole eyeball that the lids of a photograph partly cover, for eyes that open wide or look aside."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait.anatomy import Anatomy, Eye, Floats

IRIS_RANGE_MM = (4.8, 8.6)
"""Where the rim of the iris is looked for; an adult's radius is 5.9, drawn people's are larger."""


@dataclass(frozen=True)
class Eyeball:
    """An eyeball's picture, uint8 (height, width, 4), RGB and a channel without meaning.

    Its top left corner lies at (`x`, `y`) of the texture, px.
    """

    image: NDArray[np.uint8]
    x: int
    y: int


def eyeball(texture: NDArray[np.uint8], eye: Eye, anatomy: Anatomy, scale: int) -> Eyeball:
    """Completes the eyeball of one eye.

    Args:
        texture: uint8 (height, width, 3): the portrait, enlarged `scale` times.
        eye: Whose opening says which pixels are eyeball and which are lid.
        anatomy: The face.
        scale: Pixels of the texture per pixel of the portrait.
    """
    unit = anatomy.px_per_mm * scale
    centre = np.array(anatomy.to_px(*eye.centre)) * scale
    half_x, half_y = int((eye.half_width + 6) * unit), int((eye.half_width * 0.7 + 7) * unit)
    left, top = int(centre[0]) - half_x, int(centre[1]) - half_y
    image: Floats = texture[top : top + 2 * half_y, left : left + 2 * half_x].astype(np.float32)
    height, width = image.shape[:2]
    px_y, px_x = np.mgrid[0:height, 0:width]
    x, y = anatomy.to_mm((px_x + left) / scale, (px_y + top) / scale)
    # The upper lid's shadow moves with the lid, so what lies in it is made anew.
    inside = np.minimum(y - eye.upper.at(x) - 0.5, eye.lower.at(x) - y)
    seen = np.clip(inside / 0.6, 0, 1)
    completed = _completed(image, inside > 1.0, x - eye.iris[0], y - eye.iris[1], eye)
    # Eyeballs are round and lie in the shadow of the brow: darker up and toward the corners.
    down = (y - eye.upper.at(x)) / max(float((eye.lower.y - eye.upper.y).max()), 1.0)
    shade = 0.62 + 0.38 * np.clip((down + 0.15) / 0.45, 0, 1)
    shade *= 1 - 0.25 * np.clip(np.abs(x - eye.centre[0]) / eye.half_width - 0.55, 0, 1)
    whole = image * seen[..., None] + completed * shade[..., None] * (1 - seen[..., None])
    opaque = np.full((height, width, 1), 255, np.float32)
    return Eyeball(np.clip(np.dstack([whole, opaque]), 0, 255).astype(np.uint8), left, top)


def _completed(image: Floats, clear: NDArray[np.bool_], x: Floats, y: Floats, eye: Eye) -> Floats:
    """Iris and white everywhere; `x`, `y` are mm from the iris's centre, `clear` says where the photograph shows it."""
    distance = np.hypot(x, y)
    radius = _iris_radius(image, clear, x, y) or eye.iris_radius
    white = image[clear & (distance > radius + 0.8)]
    # A narrow eye may show no white at all.
    light = white.sum(axis=1)
    bright = white[light >= np.median(light)] if len(white) > 8 else np.array([[200.0, 195.0, 190.0]])
    sclera = np.broadcast_to(np.median(bright, axis=0).astype(np.float32), image.shape)
    iris = _iris(image, clear & (y > -2.5), distance / radius)
    rim = np.clip((radius - distance) / 0.6 + 0.5, 0, 1)[..., None]
    return iris * rim + sclera * (1 - rim)


def _iris_radius(image: Floats, clear: NDArray[np.bool_], x: Floats, y: Floats) -> float | None:
    """Where, left and right of the pupil, brightness rises most; None when neither side shows it."""
    level = np.abs(y) < 1.5
    found = []
    bins = np.arange(IRIS_RANGE_MM[0] - 0.6, IRIS_RANGE_MM[1] + 0.6, 0.3)
    for sign in (-1, 1):
        here = clear & level & (x * sign > 0)
        place = np.digitize(np.abs(x[here]), bins)
        grey = image[here].mean(axis=1)
        count = np.bincount(place, minlength=len(bins) + 1)[1:-1]
        total = np.bincount(place, grey, len(bins) + 1)[1:-1]
        shown = int(np.argmax(np.append(count, 0) < 2))
        if shown < 8:
            continue
        rise = np.convolve(total[:shown] / count[:shown], [1, 1, 0, -1, -1], "valid")
        if rise.max() > 12:
            found.append(float(bins[rise.argmax() + 2]) + 0.15)
    return float(np.mean(found)) if found else None


def _iris(image: Floats, clear: NDArray[np.bool_], part: Floats) -> Floats:
    """The iris: its mean colour at each part (0 to 1) of the radius, for what is hidden has no other witness."""
    bins = np.clip((part * 24).astype(int), 0, 24)
    use = clear & (part < 1)
    total = np.stack([np.bincount(bins[use], image[use][:, c], 25) for c in range(3)], axis=1)
    count = np.bincount(bins[use], minlength=25)
    known = np.flatnonzero(count > 3)
    if len(known) < 4:
        return np.broadcast_to(np.array([60, 45, 38], np.float32), image.shape)
    profile = np.stack([np.interp(np.arange(25), known, total[known, c] / count[known]) for c in range(3)], axis=1)
    profile = np.asarray(cv2.GaussianBlur(profile.astype(np.float32), (1, 5), 0))
    # The glint in the pupil belongs to the photograph's own light: one is enough.
    profile[:6] = profile[:6].min(axis=0)
    place = np.clip(part * 24, 0, 24).astype(np.float32)
    return np.asarray(cv2.remap(profile[None], place, np.zeros_like(place), cv2.INTER_LINEAR), np.float32)
