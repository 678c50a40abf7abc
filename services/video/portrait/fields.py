"""Turns each control into two displacement fields of the picture: one for what lies above an opening, one for below.

A face has three openings (mouth, eyes). Across them skin moves apart, so one smooth field would smear lips and lids.
The upper field carries the upper lip's (upper lid's) motion on across the opening, the lower field the lower lip's;
away from the openings both are the same. Each is smooth, so it can be inverted and never tears.
"""

import tomllib
from dataclasses import dataclass
from importlib import resources

import cv2
import numpy as np

from services.video.framing import ORIGIN
from services.video.portrait.anatomy import FACE_OVAL, Anatomy, Eye, Floats

GRID = 64
"""Points of a field per side. Twice as many double the time of a frame, and no difference is seen (46 to 54 dB)."""

BRUSHED = tomllib.loads(resources.files("services.video.portrait").joinpath("controls.toml").read_text("utf-8"))
SHAPED = ("jaw", "close", "pucker", "funnel", "blink_l", "blink_r")
PARTS = (None, "upper_lip", "lower_lip", "upper_lid", "lower_lid")
HEAD = ("yaw", "pitch", "roll", "shift_x", "shift_y", "zoom", "breath")
CONTROLS: tuple[str, ...] = (*BRUSHED, *SHAPED, *HEAD)

JAW_DROP_MM = 14.0
NECK_PIVOT_MM = (85.0, 75.0)
"""Where the head turns: this far below and behind the point between the eyes."""
LIP_BLEND_MM = 18.0
LID_BLEND_MM = 14.0
"""Over this distance beyond an opening its two fields become one."""
LID_CLOSED = 1.12
"""Part of the opening that a full blink closes: a little more than all, over the moist rim of the lower lid."""


@dataclass(frozen=True)
class Fields:
    """The displacements of all controls at weight 1.

    Attributes:
        upper, lower: float32 (controls, GRID * GRID * 2), px of the picture, in the order of `CONTROLS`; a field is
            (GRID, GRID, 2) with x first, its points at the centres of equal cells of the picture.
    """

    upper: Floats
    lower: Floats


def build(anatomy: Anatomy, size_px: int) -> Fields:
    """Makes the fields of a face in a square picture."""
    axis = (np.arange(GRID) + 0.5) * (size_px / GRID) - 0.5
    px_x, px_y = np.meshgrid(axis, axis)
    x, y = anatomy.to_mm(px_x, px_y)
    face = _Face(anatomy, x, y)
    upper = np.empty((len(CONTROLS), GRID, GRID, 2), np.float32)
    lower = np.empty_like(upper)
    for index, name in enumerate(CONTROLS):
        upper[index], lower[index] = face.sides(name)
    turn = anatomy.axes.astype(np.float32)
    return Fields(*((side @ turn).reshape(len(CONTROLS), -1) for side in (upper, lower)))


class _Face:
    """A face over a grid of places `x`, `y` (GRID, GRID), mm."""

    def __init__(self, anatomy: Anatomy, x: Floats, y: Floats) -> None:
        self.anatomy, self.x, self.y = anatomy, x, y
        self.across = (x - anatomy.mouth[0]) / anatomy.mouth_half_width
        self.below_seam = y - anatomy.upper_lip.at(x)
        self.depth = _depth(anatomy, x, y)
        self.rigid = _rigid(anatomy, x, y)
        self.skin = _skin(anatomy, x, y)
        self.calm = _calm_lids(anatomy, x, y)

    def sides(self, name: str) -> tuple[Floats, Floats]:
        """The field above and below the openings, each (GRID, GRID, 2), mm."""
        if name in HEAD:
            field = self.head(name)
            return field, field
        if name in ("blink_l", "blink_r"):
            return self.blink(self.anatomy.eyes[name == "blink_r"])
        if name in SHAPED:
            return self._across_mouth(*getattr(self, name)())
        return self.brushed(name)

    def brushed(self, name: str) -> tuple[Floats, Floats]:
        parts = {part: np.zeros((GRID, GRID, 2), np.float32) for part in PARTS}
        for brush in BRUSHED[name]:
            part = brush.get("part")
            if "corners" in brush:
                stroke = self._corners(brush["corners"], brush["move"], brush["spread"], brush["bend"])
            else:
                stroke = self._stroke(brush["points"], brush["move"], brush["spread"], brush.get("mirror", False))
            # Brows and cheeks pull at the lids only a little: the eye keeps its shape.
            parts[part] += stroke if part in ("upper_lid", "lower_lid") else stroke * self.calm[..., None]
        lips = self._across_mouth(parts[None] + parts["upper_lip"], parts[None] + parts["lower_lip"])
        lids = [self._across_eye(eye, parts["upper_lid"], parts["lower_lid"]) for eye in self.anatomy.eyes]
        skin = self.skin[..., None]
        upper, lower = (lips[side] + lids[0][side] + lids[1][side] for side in (0, 1))
        return upper * skin, lower * skin

    def _stroke(self, points: list[int], move: list[float], spread: list[float], mirror: bool) -> Floats:
        field = np.zeros((GRID, GRID, 2), np.float32)
        middle = self.anatomy.points[ORIGIN, 0]
        for sign in (-1.0, 1.0):
            places = [self.anatomy.points[i] for i in points]
            if mirror:
                places = [place for place in places if (place[0] > middle) == (sign > 0)]
            near = np.zeros((GRID, GRID), np.float32)
            for place in places:
                reach = ((self.x - place[0]) / spread[0]) ** 2 + ((self.y - place[1]) / spread[1]) ** 2
                near = np.maximum(near, np.exp(-reach / 2))
            field[..., 0] += near * move[0] * (sign if mirror else 1.0)
            field[..., 1] += near * move[1]
            if not mirror:
                break
        # The greatest of several bells has creases between them.
        return np.asarray(cv2.GaussianBlur(field, (0, 0), GRID / 100))

    def _corners(self, which: str, move: list[float], spread: list[float], bend: float) -> Floats:
        field = np.zeros((GRID, GRID, 2), np.float32)
        beyond = np.clip(np.abs(self.across) - 1, 0, None) * self.anatomy.mouth_half_width
        near = np.exp(-((beyond / spread[0]) ** 2) / 2 - (self.below_seam / spread[1]) ** 2 / 2)
        part = np.clip(np.abs(self.across), 0, 1)
        for name, sign in (("l", -1.0), ("r", 1.0)):
            if which in (name, "both"):
                side = near * (self.across * sign > 0)
                field[..., 0] += sign * move[0] * side * part
                field[..., 1] += move[1] * side * part**bend
        return field

    def _across_mouth(self, above: Floats, below: Floats) -> tuple[Floats, Floats]:
        """Joins the upper lip's and the lower lip's motion into the two fields."""
        inside = 1 - _step((np.abs(self.across) - 0.85) / 0.4)
        shared = _step((self.below_seam + 7) / 14)
        # Straight ramps: steeper ones, as wide as a jaw drops, could not be inverted.
        upper = inside * np.clip(self.below_seam / LIP_BLEND_MM, 0, 1) + (1 - inside) * shared
        lower = inside * np.clip(self.below_seam / LIP_BLEND_MM + 1, 0, 1) + (1 - inside) * shared
        change = below - above
        return above + upper[..., None] * change, above + lower[..., None] * change

    def _across_eye(self, eye: Eye, above: Floats, below: Floats) -> tuple[Floats, Floats]:
        """Joins the upper lid's and the lower lid's motion into the two fields."""
        high, low = eye.upper.at(self.x), eye.lower.at(self.x)
        inside = 1 - _step((np.abs(self.x - eye.centre[0]) / eye.half_width - 0.85) / 0.35)
        shared = _step((self.y - (high + low) / 2 + 4) / 8)
        upper = inside * np.clip((self.y - low) / LID_BLEND_MM, 0, 1) + (1 - inside) * shared
        lower = inside * np.clip((self.y - high) / LID_BLEND_MM + 1, 0, 1) + (1 - inside) * shared
        change, near = below - above, _eye_window(eye, self.x)[..., None]
        return (above + upper[..., None] * change) * near, (above + lower[..., None] * change) * near

    def jaw(self) -> tuple[Floats, Floats]:
        """The lower jaw drops, turning about its joint; corners follow half way, cheeks are drawn in."""
        u = np.clip(np.abs(self.across), 0, 1)
        chin = float(self.anatomy.points[152, 1])
        seam = self.anatomy.mouth[1]
        lip = 0.42 + 0.53 * np.sqrt(1 - u**2.6)
        toward_chin = np.clip(self.below_seam / (chin - seam), 0, 1)
        drop_below = lip + (1 - lip) * _step(toward_chin * 1.6)
        # Upward from the corners the cheek stretches; downward the neck takes the drop up.
        drop_above = 0.42 * u**3 * np.exp(-np.clip(-self.below_seam, 0, None) / 16)
        beyond = np.clip(np.abs(self.x - self.anatomy.mouth[0]) - self.anatomy.mouth_half_width, 0, None)
        fade_side = np.exp(-((beyond / 24) ** 2))
        fade_neck = np.exp(-((np.clip(self.y - chin, 0, None) / 26) ** 2))
        above, below = np.zeros((GRID, GRID, 2), np.float32), np.zeros((GRID, GRID, 2), np.float32)
        above[..., 1] = JAW_DROP_MM * drop_above * fade_side
        below[..., 1] = JAW_DROP_MM * drop_below * fade_side * fade_neck
        cheek = np.exp(-(((np.abs(self.across) - 1.25) / 0.4) ** 2) - ((self.below_seam - 6) / 14) ** 2)
        # The corners come inward, so that an open mouth is an oval and not a lens.
        corner = np.exp(-(((np.abs(self.across) - 0.95) / 0.55) ** 2) - (self.below_seam / 11) ** 2)
        drawn = -np.sign(self.across) * (2.0 * cheek + 2.6 * corner * u)
        above[..., 0] = drawn
        below[..., 0] = drawn
        above[..., 1] -= 1.2 * np.exp(-((self.across / 0.6) ** 2) - (self.below_seam / 9) ** 2)
        return above, below

    def close(self) -> tuple[Floats, Floats]:
        """Brings parted lips together; nothing when they already meet."""
        lips = (self.anatomy.upper_lip, self.anatomy.lower_lip)
        gap = lips[1].at(self.x) - lips[0].at(self.x)
        near = np.exp(-((self.below_seam / 12) ** 2)) * (np.abs(self.across) < 1)
        above, below = np.zeros((GRID, GRID, 2), np.float32), np.zeros((GRID, GRID, 2), np.float32)
        above[..., 1], below[..., 1] = 0.48 * gap * near, -0.52 * gap * near
        return above, below

    def pucker(self) -> tuple[Floats, Floats]:
        """The lips draw together into a small round."""
        return self._rounded(0.34, -0.9, 1.2)

    def funnel(self) -> tuple[Floats, Floats]:
        """The lips round and turn outward."""
        return self._rounded(0.22, -1.8, 2.4)

    def _rounded(self, squeeze: float, raise_mm: float, drop_mm: float) -> tuple[Floats, Floats]:
        near = np.exp(-((self.across / 1.45) ** 4) - ((self.below_seam / 17) ** 2))
        middle = np.exp(-((self.across / 0.75) ** 2))
        above, below = np.zeros((GRID, GRID, 2), np.float32), np.zeros((GRID, GRID, 2), np.float32)
        for field, lift in ((above, raise_mm), (below, drop_mm)):
            field[..., 0] = -squeeze * (self.x - self.anatomy.mouth[0]) * near
            field[..., 1] = lift * middle * np.exp(-((self.below_seam / 12) ** 2))
        return above, below

    def blink(self, eye: Eye) -> tuple[Floats, Floats]:
        """The upper lid slides down over the eye, the lower rises a little, the crease follows."""
        gap = np.clip(eye.lower.at(self.x) - eye.upper.at(self.x), 0, None)
        # Beyond the corners the skin still follows, fading.
        beyond = np.clip(np.abs(self.x - eye.centre[0]) - eye.half_width, 0, None)
        gap = gap + 0.12 * eye.half_width * np.exp(-((beyond / 3.0) ** 2)) * (beyond > 0)
        over = np.clip(eye.upper.at(self.x) - self.y, 0, None)
        under = np.clip(self.y - eye.lower.at(self.x), 0, None)
        above, below = np.zeros((GRID, GRID, 2), np.float32), np.zeros((GRID, GRID, 2), np.float32)
        above[..., 1] = (LID_CLOSED - 0.10) * gap * np.exp(-((over / 10.5) ** 2))
        below[..., 1] = -0.10 * gap * np.exp(-((under / 7) ** 2))
        return self._across_eye(eye, above, below)

    def head(self, name: str) -> Floats:
        """Turns of 1 degree about the neck, shifts of 1 mm, a zoom of 1 %, one breath."""
        below, behind = NECK_PIVOT_MM
        field = np.zeros((GRID, GRID, 2), np.float32)
        angle = np.float32(np.deg2rad(1.0))
        if name == "yaw":
            field[..., 0] = angle * (behind - self.depth)
        elif name == "pitch":
            field[..., 1] = angle * (behind - self.depth) * 0.8
        elif name == "roll":
            field[..., 0], field[..., 1] = -angle * (self.y - below), angle * self.x
        elif name == "shift_x":
            field[..., 0] = 1.0
        elif name == "shift_y":
            field[..., 1] = 1.0
        elif name == "zoom":
            field[..., 0], field[..., 1] = 0.01 * self.x, 0.01 * (self.y - below)
        else:
            shoulders = _step((self.y - self.anatomy.points[152, 1] - 10) / 40)
            field[..., 1] = -1.0 * shoulders - 0.3 * (1 - shoulders) * self.rigid
            return field
        return field * self.rigid[..., None]


def _step(t: Floats) -> Floats:
    """Smooth rise from 0 at t = 0 to 1 at t = 1."""
    t = np.clip(t, 0, 1)
    return (t * t * (3 - 2 * t)).astype(np.float32)


def _eye_window(eye: Eye, x: Floats) -> Floats:
    """1 at this eye, 0 at the other."""
    return 1 - _step((np.abs(x - eye.centre[0]) / eye.half_width - 1.2) / 0.7)


def _depth(anatomy: Anatomy, x: Floats, y: Floats) -> Floats:
    """How far behind the point between the eyes each place lies: the landmarks' depths, spread smoothly."""
    total, weight = np.zeros_like(x), np.full_like(x, 1e-6)
    for (px, py), depth in zip(anatomy.points[:468:2], anatomy.depths[:468:2], strict=True):
        near = 1 / (((x - px) ** 2 + (y - py) ** 2) / 81 + 1) ** 3
        total += near * depth
        weight += near
    return np.asarray(cv2.GaussianBlur(total / weight, (0, 0), GRID / 40), np.float32)


def _rigid(anatomy: Anatomy, x: Floats, y: Floats) -> Floats:
    """1 on the head and its hair, fading over the neck and into the background."""
    oval = anatomy.points[FACE_OVAL]
    centre_x = float(oval[:, 0].mean())
    half_width = float(np.ptp(oval[:, 0])) / 2
    top, chin = float(oval[:, 1].min()), float(oval[:, 1].max())
    height = chin - top
    # Hair rises about a third of the face above the forehead's landmarks.
    middle, half_height = (chin + top - 0.35 * height) / 2, (1.35 * height) / 2
    radius = np.hypot((x - centre_x) / (half_width * 1.28), (y - middle) / (half_height * 1.12))
    around = 1 - _step((radius - 1.0) / 0.75)
    neck = 1 - _step((y - chin + 6) / 62)
    return np.asarray(around * (0.12 + 0.88 * neck) * neck**0.3, np.float32)


def _skin(anatomy: Anatomy, x: Floats, y: Floats) -> Floats:
    """1 on the face, 0 on the background: brushes do not pull at what is behind the head."""
    oval = anatomy.points[FACE_OVAL]
    centre = oval.mean(axis=0)
    half = np.ptp(oval, axis=0) / 2
    radius = np.hypot((x - centre[0]) / half[0], (y - centre[1]) / half[1])
    return 1 - _step((radius - 0.98) / 0.4)


def _calm_lids(anatomy: Anatomy, x: Floats, y: Floats) -> Floats:
    calm = np.ones_like(x)
    for eye in anatomy.eyes:
        over = eye.upper.at(x) - y
        under = y - eye.lower.at(x)
        off = np.clip(np.maximum(over, under), 0, None)
        wide = np.clip(np.abs(x - eye.centre[0]) / eye.half_width - 0.9, 0, None)
        calm *= 1 - 0.78 * np.exp(-((off / 5.5) ** 2) - (wide / 0.45) ** 2)
    return calm
