"""Draws one frame of a rigged portrait from the weights of its controls."""

from dataclasses import dataclass, field
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait import openings
from services.video.portrait.anatomy import Floats
from services.video.portrait.fields import CONTROLS, GRID, HEAD, JAW_DROP_MM
from services.video.portrait.glasses import Glasses
from services.video.portrait.openings import Light, Shadow
from services.video.portrait.rig import PortraitRig
from services.video.portrait.shading import MAPS
from services.video.portrait.warping import TEXTURE_SCALE, Moved, Pixels, Warp, Window, lay, sample

EYE_SHADOW = Shadow(3.0, 0.0, np.full(4, 0.35, np.float32))
MOUTH_SHADOW = Shadow(2.6, 2.6, np.array([0.50, 0.62, 0.64, 0.0], np.float32))
FOLD_TINT = np.array([0.75, 1.05, 1.2, 0.0], np.float32)
"""Light that reaches into a fold has passed through skin: its shadow is warm. Opacity has no shadow."""
LID_RETOUCH, LIP_RETOUCH_MM = (0.2, 0.75), (0.5, 3.0)
"""Between which closures of the lids, and partings of the lips, their retouch appears."""
GLASSES_SLACK_PX = 12
FOLD_STEP = 0.01
"""Depths of folds are rounded to this, for a change of them redraws the texture."""


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
        self._whole = Warp(size, Window(0, 0, size, size))
        self._mouth = Warp(size, rig.mouth_window)
        self._eyes = tuple(Warp(size, window) for window in rig.eye_windows)
        self._canvas = np.empty((size, size, 4), np.uint8)
        self._upper, self._lower = rig.upper.copy(), rig.lower.copy()
        self._folds: tuple[float, ...] = (0.0,) * len(MAPS)
        self._mouth_anchor = _Anchor(rig, rig.anatomy.mouth)
        self._nose_anchor = _Anchor(rig, (0.0, 0.0))
        self._eye_anchors = tuple(_Anchor(rig, eye.centre) for eye in rig.anatomy.eyes)

    def draw(self, pose: Pose) -> NDArray[np.uint8]:
        """Returns the frame, uint8 (size_px, size_px, 3), RGB."""
        rig = self._rig
        weights = np.array([pose.weights.get(name, 0.0) for name in CONTROLS], np.float32)
        self._shade(pose.folds)
        above, below = self._moved(weights, rig.fields.upper), self._moved(weights, rig.fields.lower)
        places = self._whole.places(above)
        frame = sample(self._upper, places, self._canvas)
        for side, warp in enumerate(self._eyes):
            lower = warp.places(below)
            lid = sample(self._lower, lower)
            closed = _part(float(weights[_BLINKS[side]]), LID_RETOUCH)
            if closed:
                upper_lid, lower_lid = rig.lids[side]
                upper_lid.lay(frame[warp.window.slices], places[warp.window.slices], closed)
                lower_lid.lay(lid, lower, closed)
            openings.fill(frame, warp.window, lid, EYE_SHADOW, partial(self._eyeball, side, weights, pose.gaze_mm))
        lower = self._mouth.places(below)
        lip = sample(self._lower, lower)
        opened = _part(self._gap_mm(above, below), LIP_RETOUCH_MM)
        if opened:
            rig.lip.lay(lip, lower, opened)
        openings.fill(frame, self._mouth.window, lip, MOUTH_SHADOW, partial(self._mouth_inside, weights, pose.tongue))
        if rig.glasses:
            self._put_on(frame, rig.glasses, weights)
        return np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGBA2RGB), np.uint8)

    def _gap_mm(self, above: Moved, below: Moved) -> float:
        """How far apart the lips are moved at the middle of the mouth."""
        cell = self._mouth_anchor.cell
        apart = (below.at(*cell) - above.at(*cell)) * np.float32(self._rig.size_px / GRID)
        return float(apart @ self._rig.anatomy.axes[1]) / self._rig.anatomy.px_per_mm**2

    def _moved(self, weights: Floats, controls: Floats) -> Moved:
        displacement = weights @ controls
        displacement *= np.float32(GRID / self._rig.size_px)
        return Moved(displacement.reshape(GRID, GRID, 2))

    def _eyeball(self, side: int, weights: Floats, gaze_mm: tuple[float, float], window: Window) -> Light:
        ball = self._rig.eyeballs[side]
        motion = self._eye_anchors[side].motion(weights)
        motion[:, 2] += motion[:, :2] @ (np.array(gaze_mm) @ self._rig.anatomy.axes)
        matrix = _from_texture(motion, ball.x, ball.y, window)
        size = (window.width, window.height)
        drawn = cv2.warpAffine(ball.image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(drawn, np.float32)

    def _put_on(self, frame: Pixels, worn: Glasses, weights: Floats) -> None:
        motion = self._nose_anchor.motion(weights)
        height, width = worn.pixels.shape[:2]
        ends = np.array([[worn.x, worn.y, 0], [worn.x + width, worn.y + height, 0]]).T / TEXTURE_SCALE
        ends[2] = 1
        (left, right), (top, bottom) = motion @ ends
        # A tilt moves the far ends of the rims up and down.
        rows, columns = (
            np.clip([low - GLASSES_SLACK_PX, high + GLASSES_SLACK_PX], 0, self._rig.size_px).astype(int).tolist()
            for low, high in ((top, bottom), (left, right))
        )
        window = Window(columns[0], rows[0], columns[1] - columns[0], rows[1] - rows[0])
        matrix = _from_texture(motion, worn.x, worn.y, window)
        drawn = cv2.warpAffine(worn.pixels, matrix, (window.width, window.height), flags=cv2.INTER_LINEAR)
        lay(np.asarray(drawn, np.uint8), frame[window.slices])

    def _mouth_inside(self, weights: Floats, tongue: float, window: Window) -> Light:
        anatomy = self._rig.anatomy
        motion = self._mouth_anchor.motion(weights)
        matrix = np.empty((2, 3))
        matrix[:, :2] = motion[:, :2] @ anatomy.axes.T
        matrix[:, 2] = motion[:, :2] @ anatomy.to_px(*anatomy.mouth) + motion[:, 2] - (window.x, window.y)
        drop_mm = max(float(weights[_JAW]), 0.0) * JAW_DROP_MM
        return self._rig.mouth.draw((window.height, window.width), matrix, drop_mm, tongue)

    def _shade(self, folds: dict[str, float]) -> None:
        depths = tuple(round(folds.get(name, 0.0) / FOLD_STEP) * FOLD_STEP for name in MAPS)
        if depths == self._folds:
            return
        self._folds = depths
        face = self._rig.folds
        log_gain = np.tensordot(np.array(depths, np.float32), face.maps, 1)
        gain = np.clip(np.exp(log_gain[..., None] * FOLD_TINT) * 128, 0, 255).astype(np.uint8)
        rows, columns = face.window.slices
        whole = cv2.resize(gain, (face.window.width, face.window.height), interpolation=cv2.INTER_LINEAR)
        for plain, shaded in ((self._rig.upper, self._upper), (self._rig.lower, self._lower)):
            cv2.multiply(plain[rows, columns], whole, dst=shaded[rows, columns], scale=1 / 128)


class _Anchor:
    """How the head alone moves the neighbourhood of a place of the face (x, y), mm."""

    def __init__(self, rig: PortraitRig, place_mm: tuple[float, float]) -> None:
        self._place = rig.anatomy.to_px(*place_mm)
        column, row = (int(np.clip(v / rig.size_px * GRID, 0, GRID - 1)) for v in self._place)
        self.cell = (row, column)
        self._shift = rig.fields.upper.reshape(-1, GRID, GRID, 2)[_HEAD, row, column].astype(np.float64)

    def motion(self, weights: Floats) -> NDArray[np.float64]:
        """The matrix (2, 3), px of the portrait to px of the frame."""
        (x, y), (dx, dy) = self._place, weights[_HEAD] @ self._shift
        angle, zoom = np.deg2rad(float(weights[_ROLL])), 1 + 0.01 * float(weights[_ZOOM])
        cos, sin = zoom * np.cos(angle), zoom * np.sin(angle)
        return np.array([[cos, -sin, x + dx - cos * x + sin * y], [sin, cos, y + dy - sin * x - cos * y]])


def _from_texture(motion: NDArray[np.float64], x: int, y: int, window: Window) -> NDArray[np.float64]:
    """The matrix (2, 3) from a piece of the texture with its corner at (`x`, `y`) to a window of the moved frame."""
    place = (np.array([x, y]) + 0.5) / TEXTURE_SCALE - 0.5
    matrix = np.empty((2, 3))
    matrix[:, :2] = motion[:, :2] / TEXTURE_SCALE
    matrix[:, 2] = motion[:, :2] @ place + motion[:, 2] - (window.x, window.y)
    return matrix


def _part(value: float, ends: tuple[float, float]) -> float:
    """0 at the first of `ends` to 1 at the second."""
    return min(max((value - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)


_HEAD = [CONTROLS.index(name) for name in HEAD]
_BLINKS = [CONTROLS.index(name) for name in ("blink_l", "blink_r")]
_JAW, _ROLL, _ZOOM = (CONTROLS.index(name) for name in ("jaw", "roll", "zoom"))
