"""Draws one frame of a rigged portrait from the weights of its controls."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait.anatomy import Floats
from services.video.portrait.fields import CONTROLS, GRID, HEAD, JAW_DROP_MM
from services.video.portrait.rig import TEXTURE_SCALE, PortraitRig, Window
from services.video.portrait.shading import MAPS, SHADING_PX

Number = TypeVar("Number", bound=np.number[Any])

INVERSION_STEPS = 4
"""Fixed-point steps that turn "where does this go" into "where does this come from"; the rest is under 0.1 px."""
EYE_SHADOW, MOUTH_SHADOW = (3.0, 0.35), (4.0, 0.55)
"""How far from the edges of an opening it is darker inside, px, and by how much, 0 to 1."""
FOLD_TINT = np.array([0.75, 1.05, 1.2], np.float32)
"""Light that reaches into a fold has passed through skin: its shadow is warm."""


@dataclass(frozen=True)
class Pose:
    """What a face does in one frame.

    Attributes:
        weights: Control name (of `fields.CONTROLS`) to weight; what is missing is 0.
        tongue: Height of the tongue, 0 to 1.
        gaze_mm: Where the eyes have moved on the face: right, down.
        folds: Depth of each shading map (of `shading.MAPS`); changed slowly, because changing it costs.
    """

    weights: dict[str, float]
    tongue: float = 0.0
    gaze_mm: tuple[float, float] = (0.0, 0.0)
    folds: dict[str, float] = field(default_factory=dict)


class Artist:
    """Draws a rig, frame after frame. Keeps its buffers and the last shading, so one artist is one performance."""

    def __init__(self, rig: PortraitRig) -> None:
        self._rig = rig
        size = rig.size_px
        # A pixel's own place in the texture, which is larger: centres, not corners, lie over each other.
        self._identity = _places(size) * TEXTURE_SCALE + (TEXTURE_SCALE - 1) / 2
        self._grid = _places(GRID)
        self._texture = rig.texture
        self._folds: tuple[float, ...] = (0.0,) * len(MAPS)
        self._head = np.array([name in HEAD for name in CONTROLS])

    def draw(self, pose: Pose) -> NDArray[np.uint8]:
        """Returns the frame, uint8 (size_px, size_px, 3), RGB."""
        rig = self._rig
        weights = np.array([pose.weights.get(name, 0.0) for name in CONTROLS], np.float32)
        self._shade(pose.folds)
        upper, lower = self._sources(weights @ rig.fields.upper), self._sources(weights @ rig.fields.lower)
        frame = _sample(self._texture, upper)
        head = weights * self._head
        for side in (0, 1):
            window = rig.eye_windows[side]
            self._open(frame, window, (upper, lower), self._eyeball(side, window, head, pose.gaze_mm), EYE_SHADOW)
        inside = self._inside_mouth(rig.mouth_window, head, pose)
        self._open(frame, rig.mouth_window, (upper, lower), inside, MOUTH_SHADOW)
        return frame

    def _sources(self, displacement: Floats) -> Floats:
        """Inverts a displacement: for every pixel of the frame its place in the texture, (size, size, 2)."""
        size = self._rig.size_px
        moved = displacement.reshape(GRID, GRID, 2) * np.float32(GRID / size)
        source = self._grid - moved
        for _ in range(INVERSION_STEPS - 1):
            source = self._grid - _sample(moved, source)
        shift = (source - self._grid) * np.float32(size / GRID * TEXTURE_SCALE)
        full = cv2.resize(shift, (size, size), interpolation=cv2.INTER_LINEAR)
        return np.asarray(cv2.add(full, self._identity, dst=full), np.float32)

    def _open(
        self,
        frame: NDArray[np.uint8],
        window: Window,
        sources: tuple[Floats, Floats],
        inside: Floats,
        shadow: tuple[float, float],
    ) -> None:
        """Lays the lower side of an opening, and behind it what is inside, under the upper side already drawn."""
        rows, columns = window.slices
        upper, lower = (side[rows, columns] for side in sources)
        over, under = _part(_sample(self._rig.above, upper)), _part(_sample(self._rig.below, lower))
        skin = _sample(self._texture, lower)
        seen = (1 - over) * (1 - under)
        # Lips and lids shade what is just behind them.
        reach_px, depth = shadow
        light = 1 - depth * (1 - np.clip(cv2.GaussianBlur(seen, (0, 0), reach_px) * 1.25, 0, 1))
        behind = inside * light[..., None]
        below = behind + (skin - behind) * under[..., None]
        part = frame[rows, columns].astype(np.float32)
        frame[rows, columns] = np.clip(below + (part - below) * over[..., None] + 0.5, 0, 255)

    def _head_motion(self, head: Floats, x: float, y: float) -> NDArray[np.float64]:
        """The matrix (2, 3) by which the head alone moves the neighbourhood of a place of the portrait, px."""
        size = self._rig.size_px
        column, row = (int(np.clip(v / size * GRID, 0, GRID - 1)) for v in (x, y))
        index = (row * GRID + column) * 2
        dx, dy = (float(head @ self._rig.fields.upper[:, index + axis]) for axis in (0, 1))
        angle = np.deg2rad(float(head[CONTROLS.index("roll")]))
        zoom = 1 + 0.01 * float(head[CONTROLS.index("zoom")])
        cos, sin = zoom * np.cos(angle), zoom * np.sin(angle)
        return np.array([[cos, -sin, x + dx - cos * x + sin * y], [sin, cos, y + dy - sin * x - cos * y]])

    def _eyeball(self, side: int, window: Window, head: Floats, gaze_mm: tuple[float, float]) -> Floats:
        rig = self._rig
        ball = rig.eyeballs[side]
        motion = self._head_motion(head, *rig.anatomy.to_px(*rig.anatomy.eyes[side].centre))
        place = np.array([(ball.x + 0.5) / TEXTURE_SCALE - 0.5, (ball.y + 0.5) / TEXTURE_SCALE - 0.5])
        place = place + np.array(gaze_mm) @ rig.anatomy.axes
        matrix = np.column_stack([motion[:, :2] / TEXTURE_SCALE, motion[:, :2] @ place + motion[:, 2]])
        matrix[:, 2] -= (window.x, window.y)
        size = (window.width, window.height)
        drawn = cv2.warpAffine(ball.image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return drawn.astype(np.float32)

    def _inside_mouth(self, window: Window, head: Floats, pose: Pose) -> Floats:
        anatomy = self._rig.anatomy
        centre = np.array(anatomy.to_px(*anatomy.mouth))
        motion = self._head_motion(head, float(centre[0]), float(centre[1]))
        matrix = np.column_stack([motion[:, :2] @ anatomy.axes.T, motion[:, :2] @ centre + motion[:, 2]])
        matrix[:, 2] -= (window.x, window.y)
        drop = max(pose.weights.get("jaw", 0.0), 0.0) * JAW_DROP_MM
        return self._rig.mouth.draw((window.height, window.width), matrix, drop, pose.tongue)

    def _shade(self, folds: dict[str, float]) -> None:
        depths = tuple(round(folds.get(name, 0.0), 2) for name in MAPS)
        if depths == self._folds:
            return
        self._folds = depths
        log_gain = (np.array(depths, np.float32) @ self._rig.folds).reshape(SHADING_PX, SHADING_PX, 1)
        gain = np.clip(np.exp(log_gain * FOLD_TINT) * 128, 0, 255).astype(np.uint8)
        whole = cv2.resize(gain, self._texture.shape[:2], interpolation=cv2.INTER_LINEAR)
        self._texture = np.asarray(cv2.multiply(self._rig.texture, whole, scale=1 / 128), np.uint8)


def _places(side: int) -> Floats:
    """float32 (side, side, 2): every point's own place, x first."""
    axis = np.arange(side, dtype=np.float32)
    return np.stack(np.meshgrid(axis, axis), axis=-1)


def _sample(image: NDArray[Number], places: Floats) -> NDArray[Number]:
    """Takes `image` at `places` (height, width, 2), px."""
    taken = cv2.remap(
        cast("cv2.typing.MatLike", image), places, _NO_MAP, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return cast("NDArray[Number]", taken)


def _part(mask: NDArray[np.uint8]) -> Floats:
    return mask.astype(np.float32) * np.float32(1 / 255)


_NO_MAP = cast("cv2.typing.MatLike", None)
"""OpenCV takes None for a map that is not needed; its type stubs do not."""
