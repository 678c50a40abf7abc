"""Draws the inside of a mouth: teeth, tongue and the dark behind them. A closed mouth's photograph shows none of it."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait.anatomy import Anatomy, Floats

SPRITE_PX_PER_MM = 8
"""Teeth and tongue are drawn this large, then brought down to twice the picture's scale."""
UPPER_WIDTHS_MM = (8.4, 6.6, 7.2, 6.0, 4.6)
LOWER_WIDTHS_MM = (5.3, 5.7, 6.2, 5.8, 4.6)
"""Teeth from the midline outward (Wheeler's means); the last ones as foreshortened by the arch."""
UPPER_HEIGHTS_MM = (9.8, 8.9, 9.4, 8.2, 7.2)
LOWER_HEIGHTS_MM = (8.4, 8.6, 9.0, 8.0, 7.0)
UPPER_EDGE_MM = 1.4
"""The upper teeth end this far below the line of the closed lips."""
LOWER_EDGE_MM = 1.6
"""With the jaw closed the lower teeth begin this far below that line, behind the upper ones."""
JAW_TEETH = 0.92
"""Part of the chin's drop that the lower teeth make: they are nearer to the joint."""
TONGUE_DROP = 0.28
"""Part of the lower teeth's drop that the back of the resting tongue makes."""


@dataclass(frozen=True)
class Sprite:
    """A picture: `pixels` float32 (height, width, 4), colour multiplied by coverage, and coverage, 0 to 1.

    `anchor` is the point (x, y), px, that lies at the middle of its edge; `px_per_mm` is its scale.
    """

    pixels: Floats
    anchor: tuple[float, float]
    px_per_mm: float

    def stamp(self, canvas: NDArray[np.float32], matrix: NDArray[np.float64], x_mm: float, y_mm: float) -> None:
        """Lays it over `canvas` (height, width, 4), anchor at a place given in mm; `matrix` (2, 3) is mm to px."""
        place = self._place(matrix, x_mm, y_mm)
        drawn = cv2.warpAffine(self.pixels, place, canvas.shape[1::-1], flags=cv2.INTER_LINEAR)
        canvas *= 1 - drawn[..., 3:]
        canvas += drawn

    def lay(self, canvas: NDArray[np.float32], matrix: NDArray[np.float64], x_mm: float, y_mm: float) -> None:
        """Fills all of `canvas` with it, its edges carried on."""
        cv2.warpAffine(
            self.pixels,
            self._place(matrix, x_mm, y_mm),
            canvas.shape[1::-1],
            dst=canvas,
            flags=cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )

    def _place(self, matrix: NDArray[np.float64], x_mm: float, y_mm: float) -> NDArray[np.float64]:
        full = np.empty((2, 3))
        full[:, :2] = matrix[:, :2] / self.px_per_mm
        full[:, 2] = matrix[:, :2] @ (x_mm, y_mm) + matrix[:, 2] - full[:, :2] @ self.anchor
        return full


@dataclass(frozen=True)
class Mouth:
    """The sprites of one mouth, toned to its face."""

    upper_teeth: Sprite
    lower_teeth: Sprite
    tongue: Sprite
    throat: Sprite

    def draw(
        self, shape: tuple[int, int], matrix: NDArray[np.float64], drop_mm: float, tongue: float
    ) -> NDArray[np.float32]:
        """Draws the inside, float32 (height, width, 4), RGB of 0 to 255 and a channel without meaning.

        Args:
            shape: Height and width, px.
            matrix: float64 (2, 3): from mm about the mouth's centre, at the head's place in this frame, to px.
            drop_mm: How far the chin is down.
            tongue: 0 on the floor of the mouth to 1 at the upper teeth.
        """
        canvas = np.empty((*shape, 4), np.float32)
        jaw = JAW_TEETH * drop_mm
        self.throat.lay(canvas, matrix, 0.0, 0.45 * jaw)
        floor = LOWER_EDGE_MM + TONGUE_DROP * jaw - 1.0
        lift = min(tongue, 1.0) * max(floor - UPPER_EDGE_MM, 0.0)
        self.tongue.stamp(canvas, matrix, 0.0, floor - lift)
        self.lower_teeth.stamp(canvas, matrix, 0.0, LOWER_EDGE_MM + jaw)
        self.upper_teeth.stamp(canvas, matrix, 0.0, UPPER_EDGE_MM)
        return canvas


def make(anatomy: Anatomy, skin: Floats) -> Mouth:
    """Makes the mouth of a face whose `skin` (3,) has this colour, RGB."""
    light = float(np.clip(skin.mean() / 190, 0.55, 1.0))
    tint = skin / max(float(skin.mean()), 1.0)
    # Teeth are as white behind dark lips as behind light ones; only the picture's exposure dims them.
    enamel = np.array([232, 222, 206]) * (0.70 + 0.30 * light) * (0.88 + 0.12 * tint)
    gum = np.array([168, 96, 92]) * light
    flesh = np.array([188, 104, 98]) * (0.60 + 0.40 * light)
    scale = anatomy.px_per_mm * 2
    # A wide mouth has wide teeth behind it; the arch never fills the corners.
    widen = anatomy.mouth_half_width / 25.5
    upper = _teeth(UPPER_WIDTHS_MM, UPPER_HEIGHTS_MM, enamel, gum, upper=True)
    lower = _teeth(LOWER_WIDTHS_MM, LOWER_HEIGHTS_MM, enamel * 0.88, gum, upper=False)
    return Mouth(
        upper_teeth=_sprite(upper, scale, (0.5, 1.0), widen),
        lower_teeth=_sprite(lower, scale, (0.5, 0.0), widen),
        tongue=_sprite(_tongue(flesh), scale, (0.5, 0.0), widen),
        throat=_sprite(_throat(flesh), scale, (0.5, 0.5), widen),
    )


def _sprite(drawn: NDArray[np.float32], scale: float, anchor: tuple[float, float], widen: float) -> Sprite:
    """Brings a drawing (height, width, 4; colour and coverage) down to `scale` px per mm."""
    ratio = scale / SPRITE_PX_PER_MM
    drawn[..., :3] *= drawn[..., 3:]
    small = cv2.resize(drawn, None, fx=ratio * widen, fy=ratio, interpolation=cv2.INTER_AREA)
    margin = _MARGIN_MM * scale
    height, width = small.shape[:2]
    place = (anchor[0] * (width - 1), margin + anchor[1] * (height - 1 - 2 * margin))
    return Sprite(np.asarray(small, np.float32), place, scale)


_MARGIN_MM = 1.0


def _teeth(
    widths: tuple[float, ...], heights: tuple[float, ...], enamel: Floats, gum: Floats, upper: bool
) -> NDArray[np.float32]:
    """One row of teeth, (height, width, 4), drawn with their edges down; the lower row is turned over."""
    unit = SPRITE_PX_PER_MM
    half, tall = sum(widths), max(heights) + 5.0
    height, width = int((tall + 2 * _MARGIN_MM) * unit), int((2 * half + 4) * unit)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    x = (x - width / 2) / unit
    above = (height / unit - _MARGIN_MM) - y / unit  # mm above the row's lowest edge
    image = np.zeros((height, width, 4), np.float32)
    row = np.clip((half - 1 - np.abs(x)) / 1.5, 0, 1)
    _fill(image, np.clip(above - 4.0, 0, 1) * row, gum * 0.8)
    # Between the teeth it is dim, not black.
    _fill(image, np.clip((above - 1.8) * 2, 0, 1) * row, enamel * 0.6)
    start = 0.0
    for index, (wide, high) in enumerate(zip(widths, heights, strict=True)):
        # The smile line: edges rise outward, the lateral incisor's a little more.
        lift = 0.035 * start + (0.45 if index == 1 and upper else 0.0)
        for side in (-1, 1):
            u = (side * x - start - wide / 2) / (wide / 2)
            v = (above - lift) / high
            _fill(image, _tooth_cover(u, v, wide, high), _tooth_colour(u, v, enamel, start, upper))
        start += wide
    return image if upper else np.ascontiguousarray(image[::-1])


def _tooth_cover(u: Floats, v: Floats, wide: float, high: float) -> Floats:
    """A rounded block: u -1 to 1 across, v 0 at the edge to 1 at the gum."""
    narrow = 1 - 0.10 * np.clip(v, 0, 1) ** 2
    side = (narrow - 0.015 - np.abs(u)) * wide / 2
    edge = v * high - 0.75 * np.abs(u) ** 5
    top = (1 - v) * high - 0.9 * u * u
    distance = np.minimum(np.minimum(side, edge), top)
    return np.clip(distance * SPRITE_PX_PER_MM / 4.0 + 0.4, 0, 1).astype(np.float32)


def _tooth_colour(u: Floats, v: Floats, enamel: Floats, start: float, upper: bool) -> Floats:
    """Enamel: rounder and darker to its sides, warmer at the gum, translucent at the edge, darker back on the arch."""
    back = 1 / (1 + (start / 24) ** 2)
    roundness = 1 - 0.14 * np.abs(u) ** 2.5
    edge = np.clip(1 - v * (9 if upper else 7), 0, 1)
    fall = 1 - (0.10 if upper else 0.02) * np.clip(v, 0, 1) - 0.16 * edge
    tone = (back * roundness * fall)[..., None]
    warm = np.array([0, -5, -16], np.float32) * np.clip(v, 0, 1)[..., None] + np.array([10, -6, -8]) * (1 - back)
    return (enamel * tone + warm).astype(np.float32)


def _tongue(flesh: Floats) -> NDArray[np.float32]:
    """The tongue's back as seen from the front: its tip lit, its far end sinking into the dark, a furrow along it."""
    unit = SPRITE_PX_PER_MM
    height, width = int(30 * unit), int(46 * unit)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    x, y = (x - width / 2) / unit, y / unit - _MARGIN_MM
    below = y - 4.5 * (x / 20) ** 2
    cover = _rise(below / 4.0) * np.clip((22 - np.abs(x)) / 6, 0, 1)
    tone = 0.34 + 0.56 * _rise(below / 6.0)
    tone *= (1 - 0.13 * np.exp(-((x / 1.6) ** 2)) * _rise(below / 5)) * (1 - 0.35 * (np.abs(x) / 22) ** 2)
    grain = cv2.GaussianBlur(np.random.default_rng(7).normal(0, 1, x.shape).astype(np.float32), (0, 0), 0.22 * unit)
    tone *= 1 + 0.05 * grain / grain.std()
    image = np.empty((height, width, 4), np.float32)
    image[..., :3] = flesh * tone[..., None]
    image[..., 3] = cover
    return image


def _throat(flesh: Floats) -> NDArray[np.float32]:
    """What is behind all: dark in the middle, cheeks and palate a little less so. It covers everything."""
    unit = SPRITE_PX_PER_MM
    height, width = int(40 * unit), int(60 * unit)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    far = np.hypot((x / width - 0.5) * 60 / 17, (y / height - 0.5) * 40 / 9)
    tone = 0.19 + 0.16 * _rise((far - 0.4) / 1.2)
    image = np.empty((height, width, 4), np.float32)
    image[..., :3] = flesh * np.array([1.0, 0.72, 0.74]) * tone[..., None]
    image[..., 3] = 1.0
    return image


def _rise(t: Floats) -> Floats:
    """Smooth from 0 at t = 0 to 1 at t = 1."""
    t = np.clip(t, 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _fill(image: NDArray[np.float32], cover: Floats, colour: Floats) -> None:
    keep = cover[..., None]
    image[..., :3] = image[..., :3] * (1 - keep) + colour * keep
    image[..., 3] = np.maximum(image[..., 3], cover)
