"""What a photograph of parted lids and closed lips shows wrong once they move: painted anew, and laid over when needed.

Lashes that point up lie flat on a closed lid, and the rim of the lower lid is a white line under it. The shadow between
closed lips, half of which the lower one would carry away, draws an outline around an open mouth.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.video.portrait.anatomy import Anatomy, Curve, Eye, Floats
from services.video.portrait.warping import Pixels, lay, sample

LASHES_MM = 6.5
"""How far above the edge of the lid its lashes reach."""
LASH_GAP_MM = 2.6
"""Wider than the tip of a lash."""
LIP_SHADOW_MM = 1.5
GRAIN = 6.0
"""Of 255, before it is blurred: painted skin without any looks like wax."""


@dataclass(frozen=True)
class Retouch:
    """A piece of a texture painted anew.

    Attributes:
        pixels: uint8 (height, width, 4): RGB, and how much of it is laid over the texture.
        x, y: Its top left corner, px of the texture.
    """

    pixels: Pixels
    x: int
    y: int

    def lay(self, picture: Pixels, places: Floats, strength: float) -> None:
        """Lays it, at a `strength` of 0 to 1, over a `picture` whose pixels are taken from `places` of the texture."""
        patch = sample(self.pixels, places - np.array([self.x, self.y], np.float32), border=cv2.BORDER_CONSTANT)
        lay(patch, picture, strength)


class Retoucher:
    """Paints on one portrait.

    Args:
        texture: uint8 (height, width, 3): the portrait, enlarged `scale` times.
        anatomy: The face.
        scale: Pixels of the texture per pixel of the portrait.
    """

    def __init__(self, texture: NDArray[np.uint8], anatomy: Anatomy, scale: int) -> None:
        self._texture, self._anatomy, self._scale = texture, anatomy, scale
        self._unit = anatomy.px_per_mm * scale

    def upper_lid(self, eye: Eye) -> Retouch:
        """The upper lid as it is when closed: skin, with the roots of the lashes as a line along its edge."""
        piece = self._piece(eye.centre, (1.6 * eye.half_width, 17.0))
        above = eye.upper.at(piece.x) - piece.y
        # Where lashes are, the lid is taken to be as it is over them; tips that reach there are closed over.
        bare = self._beside(piece, np.minimum(above - LASHES_MM, 0))
        size = round(LASH_GAP_MM * self._unit) | 1
        closed = cv2.morphologyEx(bare, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
        skin = cv2.GaussianBlur(closed.astype(np.float32), (0, 0), 1.2 * self._unit)
        grain = np.random.default_rng(0).normal(0, GRAIN, piece.x.shape).astype(np.float32)
        skin = skin + cv2.GaussianBlur(grain, (0, 0), 0.3 * self._unit)[..., None]
        across = np.abs(piece.x - eye.centre[0]) / eye.half_width
        # The ball of the eye lifts the lid's middle into the light; toward its edge it turns away.
        lit = 0.05 * np.exp(-(((above - 5) / 3) ** 2)) - 0.14 * np.exp(-np.clip(above, 0, None) / 1.6)
        skin = skin * (1 + np.exp(-((across / 0.8) ** 2)) * lit)[..., None]
        line = 0.85 * np.exp(-(((above - 0.1) / 0.55) ** 2)) * (1 - _step((across - 0.8) / 0.25))
        skin = skin + (self._lash_colour(eye) - skin) * line[..., None]
        weight = (1 - _step((above - LASHES_MM - 0.5) / 3.0)) * (1 - _step((across - 1.2) / 0.4))
        return piece.painted(skin, weight)

    def lower_lid(self, eye: Eye) -> Retouch:
        """The lower lid under a closed upper one: its moist rim lies in the shadow of the lashes."""
        piece = self._piece(eye.centre, (1.4 * eye.half_width, 12.0))
        below = piece.y - eye.lower.at(piece.x)
        across = np.abs(piece.x - eye.centre[0]) / eye.half_width
        weight = (1 - _step((below - 1.2) / 1.6)) * (1 - _step((across - 1.0) / 0.4))
        skin: Floats = self._beside(piece, np.maximum(2.8 - below, 0)).astype(np.float32)
        lashes = 0.6 * (1 - _step((below + 0.2) / 1.4)) * (1 - _step((across - 0.75) / 0.3))
        return piece.painted(skin + (self._lash_colour(eye) - skin) * lashes[..., None], weight)

    def lower_lip(self) -> Retouch:
        """The edge of the lower lip without the shadow of the upper one: as the lip is a little below."""
        anatomy = self._anatomy
        piece = self._piece(anatomy.mouth, (1.1 * anatomy.mouth_half_width, 9.0))
        below = piece.y - anatomy.lower_lip.at(piece.x)
        across = np.abs(piece.x - anatomy.mouth[0]) / anatomy.mouth_half_width
        lip: Floats = self._beside(piece, np.maximum(LIP_SHADOW_MM - below, 0) * 0.9).astype(np.float32)
        # The inside of a lip is moist and redder than its outside.
        lip *= 1 - np.exp(-np.clip(below + 0.4, 0, None) / 0.8)[..., None] * np.array([0.03, 0.10, 0.08], np.float32)
        weight = (1 - _step((below - 0.5) / LIP_SHADOW_MM)) * (1 - _step((across - 0.72) / 0.26))
        return piece.painted(lip, weight)

    def _piece(self, centre: tuple[float, float], reach: tuple[float, float]) -> "_Piece":
        x, y = (v * self._scale for v in self._anatomy.to_px(*centre))
        half = [round(v * self._unit) for v in reach]
        left, top = max(round(x) - half[0], 0), max(round(y) - half[1], 0)
        height, width = (min(2 * half[axis], self._texture.shape[1 - axis] - at) for axis, at in ((1, top), (0, left)))
        rows, columns = np.mgrid[top : top + height, left : left + width]
        middle = (self._scale - 1) / 2
        mm = self._anatomy.to_mm((columns - middle) / self._scale, (rows - middle) / self._scale)
        return _Piece(left, top, *mm, np.stack([columns, rows], axis=-1).astype(np.float32))

    def _beside(self, piece: "_Piece", down_mm: Floats) -> NDArray[np.uint8]:
        """The texture as it is farther down the face, (height, width, 3)."""
        down = self._anatomy.axes[1].astype(np.float32) * self._scale
        return sample(self._texture, (piece.places + down_mm[..., None] * down).astype(np.float32))

    def _lash_colour(self, eye: Eye) -> Floats:
        """The darkest that is found along the edge of the upper lid, (3,)."""
        x = np.linspace(-0.9, 0.9, 60) * eye.half_width + eye.centre[0]
        edge = Curve(eye.upper.x, eye.upper.y - 0.6).at(x.astype(np.float32))
        places = (np.stack([x, edge], axis=-1) @ self._anatomy.axes + self._anatomy.origin) * self._scale
        found = sample(self._texture, places[None].astype(np.float32))[0].astype(np.float32)
        darkest = found[np.argsort(found.sum(axis=1))[:15]]
        # Halfway to the dark of the skin: a line of lashes lets some through.
        return np.asarray(0.45 * darkest.mean(axis=0) + 0.15 * found.mean(axis=0), np.float32)


@dataclass(frozen=True)
class _Piece:
    """A part of the texture from (`left`, `top`): where its pixels lie, mm (`x`, `y`) and px of the texture."""

    left: int
    top: int
    x: Floats
    y: Floats
    places: Floats

    def painted(self, colour: Floats, weight: Floats) -> Retouch:
        pixels = np.dstack([colour, 255 * weight])
        return Retouch(np.clip(pixels + 0.5, 0, 255).astype(np.uint8), self.left, self.top)


def _step(t: Floats) -> Floats:
    t = np.clip(t, 0, 1)
    return np.asarray(t * t * (3 - 2 * t))
