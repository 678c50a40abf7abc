"""Measures a face: its axes and scale, the line where the lips meet, the edges of the lids.

Everything here is in millimetres of the face, not in pixels, so that the tables hold for every portrait: x to the
right of the picture along the eye line, y down, origin between the eyes (landmark 168), scale from the distance of the
irises, which is 63 mm in an average adult (Dodgson 2004).
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.framing import IRIS_DISTANCE_MM, IRIS_LEFT, IRIS_RIGHT, ORIGIN

Floats = NDArray[np.floating[Any]]
"""float32, unless said otherwise; shapes stand where they are used."""

UPPER_INNER_LIP = [78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308]
LOWER_INNER_LIP = [78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308]
UPPER_LIDS = ([33, 246, 161, 160, 159, 158, 157, 173, 133], [362, 398, 384, 385, 386, 387, 388, 466, 263])
LOWER_LIDS = ([33, 7, 163, 144, 145, 153, 154, 155, 133], [362, 382, 381, 380, 374, 373, 390, 249, 263])
IRISES = ([468, 469, 470, 471, 472], [473, 474, 475, 476, 477])
FACE_OVAL = [10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152]
FACE_OVAL += [148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109]

SEAM_SEARCH_MM = 2.2
"""How far from the landmarks the dark line between closed lips is looked for."""
CLOSED_GAP_MM = 1.5
"""Lips nearer than this are closed: the gap is only the landmarks' noise."""
LID_INSET = 0.10
"""The network sees the upper lid where the lashes grow; the edge of the lid lies this part of the gap lower."""


@dataclass(frozen=True)
class Curve:
    """A line across the face: `y` over rising `x`, both float32 (n,), mm; level beyond its ends."""

    x: Floats
    y: Floats

    def at(self, x: Floats) -> Floats:
        """The line's y at every `x`, same shape, mm."""
        return np.interp(x, self.x, self.y).astype(np.float32)


@dataclass(frozen=True)
class Eye:
    """One eye: lid edges, iris centre (x, y) and radius, all in mm."""

    upper: Curve
    lower: Curve
    iris: tuple[float, float]
    iris_radius: float

    @property
    def centre(self) -> tuple[float, float]:
        """Middle of the opening."""
        return (
            float(self.upper.x[0] + self.upper.x[-1]) / 2,
            float(self.upper.y.min() + self.lower.y.max()) / 2,
        )

    @property
    def half_width(self) -> float:
        """Half the distance of the corners."""
        return float(self.upper.x[-1] - self.upper.x[0]) / 2


@dataclass(frozen=True)
class Anatomy:
    """A measured face.

    Attributes:
        points: float32 (478, 2), mm: the landmarks in the face's own axes.
        depths: float32 (478,), mm: their depth, away from the viewer, 0 between the eyes.
        origin: Place of the origin in the picture, px.
        axes: float64 (2, 2): the face's x and y axis (rows), in px per mm.
        upper_lip, lower_lip: The inner edges of the lips; the same line when they are closed.
        mouth: Centre of the mouth (x, y).
        mouth_half_width: Half the distance of its corners.
        eyes: The one at the left of the picture, the one at the right.
    """

    points: Floats
    depths: Floats
    origin: NDArray[np.float64]
    axes: NDArray[np.float64]
    upper_lip: Curve
    lower_lip: Curve
    mouth: tuple[float, float]
    mouth_half_width: float
    eyes: tuple[Eye, Eye]

    @property
    def px_per_mm(self) -> float:
        """Scale of the picture."""
        return float(np.hypot(*self.axes[0]))

    def to_mm(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[Floats, Floats]:
        """Turns places in the picture into places on the face."""
        inverse = np.linalg.inv(self.axes)
        dx, dy = x - self.origin[0], y - self.origin[1]
        return (
            (dx * inverse[0, 0] + dy * inverse[1, 0]).astype(np.float32),
            (dx * inverse[0, 1] + dy * inverse[1, 1]).astype(np.float32),
        )

    def to_px(self, x: float, y: float) -> tuple[float, float]:
        """Turns a place on the face into a place in the picture."""
        place = self.origin + np.array([x, y]) @ self.axes
        return float(place[0]), float(place[1])


def measure(image: NDArray[np.uint8], landmarks: Floats) -> Anatomy:
    """Measures the face in `image` (uint8, (height, width, 3), RGB) whose `landmarks` (478, 3), px, are known."""
    flat = landmarks[:, :2].astype(np.float64)
    origin = flat[ORIGIN]
    scale = float(np.linalg.norm(flat[IRIS_LEFT] - flat[IRIS_RIGHT])) / IRIS_DISTANCE_MM
    along = flat[263] - flat[33]
    along /= np.linalg.norm(along)
    axes = scale * np.array([along, [-along[1], along[0]]])
    points = ((flat - origin) @ np.linalg.inv(axes)).astype(np.float32)
    depths = ((landmarks[:, 2] - landmarks[ORIGIN, 2]) / scale).astype(np.float32)
    upper, lower = _lips(image, points, origin, axes)
    corners = points[[61, 291]]
    return Anatomy(
        points=points,
        depths=depths,
        origin=origin,
        axes=axes,
        upper_lip=upper,
        lower_lip=lower,
        mouth=(float(corners[:, 0].mean()), float(upper.at(corners[:, 0].mean(keepdims=True))[0])),
        mouth_half_width=float(corners[1, 0] - corners[0, 0]) / 2,
        eyes=(_eye(points, 0), _eye(points, 1)),
    )


def _eye(points: Floats, side: int) -> Eye:
    upper, lower, iris = points[UPPER_LIDS[side]], points[LOWER_LIDS[side]], points[IRISES[side]]
    x = np.linspace(upper[0, 0], upper[-1, 0], 33).astype(np.float32)
    high, low = _smooth(x, upper), _smooth(x, lower)
    high += LID_INSET * np.maximum(low - high, 0)
    radius = float(np.linalg.norm(iris[1:] - iris[0], axis=1).mean())
    return Eye(Curve(x, high), Curve(x, np.maximum(high, low)), (float(iris[0, 0]), float(iris[0, 1])), radius)


def _smooth(x: Floats, points: Floats) -> Floats:
    """A lid's line through its points: a fourth-degree curve, which a lid is and the network's noise is not."""
    order = np.argsort(points[:, 0])
    half = (x[-1] - x[0]) / 2
    weights = np.ones(len(points))
    weights[[0, -1]] = 4.0  # Both lids must meet at the corners.
    fit = np.polyfit((points[order, 0] - x[0]) / half - 1, points[order, 1], 4, w=weights)
    return np.polyval(fit, (x - x[0]) / half - 1).astype(np.float32)


def _lips(
    image: NDArray[np.uint8], points: Floats, origin: NDArray[np.float64], axes: NDArray[np.float64]
) -> tuple[Curve, Curve]:
    upper, lower = points[UPPER_INNER_LIP], points[LOWER_INNER_LIP]
    x = np.linspace(upper[0, 0], upper[-1, 0], 65).astype(np.float32)
    high = np.interp(x, upper[:, 0], upper[:, 1])
    low = np.interp(x, lower[:, 0], lower[:, 1])
    if float((low - high).max()) < CLOSED_GAP_MM:
        seam = _seam(image, x, (high + low) / 2, origin, axes)
        return Curve(x, seam), Curve(x, seam)
    return Curve(x, high.astype(np.float32)), Curve(x, np.maximum(high, low).astype(np.float32))


def _seam(
    image: NDArray[np.uint8],
    x: Floats,
    middle: NDArray[np.float64],
    origin: NDArray[np.float64],
    axes: NDArray[np.float64],
) -> Floats:
    """The line between closed lips, drawn along the darkest points near the landmarks' guess of it.

    An error of one pixel here would tear a strip of one lip off with the other.
    """
    offsets = np.linspace(-SEAM_SEARCH_MM, SEAM_SEARCH_MM, 45)
    grid_x = np.broadcast_to(x, (len(offsets), len(x)))
    grid_y = middle + offsets[:, None]
    places = np.stack([grid_x, grid_y], axis=-1) @ axes + origin
    grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (0, 0), 0.8)
    strip = cv2.remap(grey, places[..., 0].astype(np.float32), places[..., 1].astype(np.float32), cv2.INTER_CUBIC)
    # Far from the guess, darkness counts less: the shadow below the lower lip is dark too.
    cost = strip.astype(np.float32) + 9.0 * (offsets[:, None] / SEAM_SEARCH_MM) ** 2
    best = offsets[cost.argmin(axis=0)]
    depth = np.maximum(np.median(strip, axis=0) - strip.min(axis=0), 0.0) + 1.0
    along = np.linspace(-1, 1, len(x))
    fit = np.polyfit(along, best, 6, w=depth)
    return (middle + np.polyval(fit, along)).astype(np.float32)
