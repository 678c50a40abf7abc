"""What a face does: some of the action units of the Facial Action Coding System (Ekman & Friesen, 1978), 0 to 1.

The blendshape network alone hardly reacts to lowered mouth corners, wrinkled noses and one-sided smiles, so each unit
is measured on the landmarks too, in distances between the eyes, in the frame of the eyes' line. Where a measure rests
differs from face to face, and a short clip does not tell where this person's does: the ramps begin at the edge of what
neutral faces show, and are wide.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perception.face import Face

UNITS: Mapping[str, str] = {
    "smile": "AU12",
    "squint": "AU7",
    "brow_raise": "AU1+2",
    "inner_brow_raise": "AU1",
    "brow_lower": "AU4",
    "eye_wide": "AU5",
    "nose_wrinkle": "AU9+10",
    "one_sided_mouth": "AU12/14 on one side",
    "mouth_frown": "AU15",
    "chin_raise": "AU17",
    "lip_stretch": "AU20",
    "lip_press": "AU23+24",
    "jaw_drop": "AU26",
}
"""The actions that are measured, with their numbers in the coding system."""

# Numbers of the canonical face mesh; "right" is the person's own, at the left of the image.
_RIGHT_EYE, _LEFT_EYE = (33, 133), (263, 362)
_RIGHT_CORNER, _LEFT_CORNER = 61, 291
_UPPER_LIP, _LOWER_LIP, _LIP_TOP, _UNDER_NOSE = 13, 14, 0, 2
_INNER_BROWS, _MIDDLE_BROWS, _OUTER_BROWS = (107, 336), (105, 334), (70, 300)
_NOSE_TIP, _RIGHT_CHEEK, _LEFT_CHEEK = 1, 234, 454


@dataclass(frozen=True)
class Actions:
    """One face in one frame.

    Attributes:
        strength: 0 to 1 for each of `UNITS`.
        frontal: 1 for a face turned to the camera, down to 0 for one turned away, whose measures mean little.
    """

    strength: Mapping[str, float]
    frontal: float


@dataclass(frozen=True)
class _Shape:
    """Distances on the landmarks, each in distances between the eyes; heights grow upwards."""

    corner_height: float
    left_corner_above_right: float
    brow_height: float
    brow_tilt: float
    eye_opening: float
    lip_to_nose: float
    mouth_width: float
    turn: float


def read_actions(face: Face) -> Actions:
    """Measures the actions of `face`."""
    shape, weights = _shape(face.landmarks), face.blendshapes

    def both(name: str) -> float:
        return (weights[f"{name}Left"] + weights[f"{name}Right"]) / 2

    smile = _mean(both("mouthSmile"), _ramp(shape.corner_height, 0.045, 0.12))
    # A broad smile lifts the lip, squeezes the eyes and draws the brows in this network: no disgust, no anger.
    earnest = 1 - smile
    frontal = 1 - _ramp(abs(shape.turn), 0.15, 0.55)
    lopsided = weights["mouthSmileLeft"] - weights["mouthSmileRight"]
    same_side = lopsided * shape.left_corner_above_right > 0
    brow_raise = max(
        _mean(_ramp(weights["browInnerUp"], 0.1, 0.5), _ramp(both("browOuterUp"), 0.05, 0.3)),
        _ramp(shape.brow_height, 0.355, 0.40),
    )
    strength = {
        "smile": smile,
        "squint": _ramp(both("eyeSquint"), 0.4, 0.7) * earnest,
        "brow_raise": brow_raise,
        "inner_brow_raise": _ramp(shape.brow_tilt, 0.13, 0.18) * _ramp(weights["browInnerUp"] + 0.1, 0.1, 0.4),
        "brow_lower": max(_ramp(both("browDown"), 0.25, 0.85), _ramp(-shape.brow_tilt, -0.095, -0.05)) * earnest,
        "eye_wide": max(both("eyeWide"), _ramp(shape.eye_opening, 0.355, 0.41)),
        "nose_wrinkle": max(
            both("noseSneer"), _ramp(both("mouthUpperUp"), 0.1, 0.5), _ramp(-shape.lip_to_nose, -0.215, -0.17)
        )
        * earnest,
        "one_sided_mouth": same_side
        * frontal
        * _mean(_ramp(abs(lopsided), 0.1, 0.3), _ramp(abs(shape.left_corner_above_right), 0.03, 0.08)),
        "mouth_frown": max(both("mouthFrown"), _ramp(-shape.corner_height, 0.005, 0.06)),
        "chin_raise": _ramp(weights["mouthShrugLower"], 0.1, 0.5),
        "lip_stretch": max(both("mouthStretch"), _ramp(shape.mouth_width, 0.92, 1.05)) * earnest,
        "lip_press": max(both("mouthPress"), weights["mouthRollLower"]) * earnest,
        "jaw_drop": _ramp(weights["jawOpen"], 0.1, 0.6),
    }
    return Actions({name: float(value) for name, value in strength.items()}, float(frontal))


def _shape(landmarks: NDArray[np.float32]) -> _Shape:
    points = _upright(landmarks)

    def height(*numbers: int) -> float:
        return -float(points[list(numbers), 1].mean())

    right_px, left_px = (
        float(np.linalg.norm(points[_NOSE_TIP] - points[cheek])) for cheek in (_RIGHT_CHEEK, _LEFT_CHEEK)
    )
    openings = [
        float(np.linalg.norm(points[upper] - points[lower]) / np.linalg.norm(points[outer] - points[inner]))
        for upper, lower, (outer, inner) in ((159, 145, _RIGHT_EYE), (386, 374, _LEFT_EYE))
    ]
    return _Shape(
        corner_height=height(_RIGHT_CORNER, _LEFT_CORNER) - height(_UPPER_LIP, _LOWER_LIP),
        left_corner_above_right=height(_LEFT_CORNER) - height(_RIGHT_CORNER),
        brow_height=height(*_MIDDLE_BROWS, *_OUTER_BROWS),
        brow_tilt=height(*_INNER_BROWS) - height(*_OUTER_BROWS),
        eye_opening=_mean(*openings),
        lip_to_nose=height(_UNDER_NOSE) - height(_LIP_TOP),
        mouth_width=float(points[_LEFT_CORNER, 0] - points[_RIGHT_CORNER, 0]),
        turn=(right_px - left_px) / (right_px + left_px),
    )


def _upright(landmarks: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns float64 (478, 2): origin between the eyes, x along their line, y down, unit their distance."""
    points = landmarks[:, :2].astype(np.float64)
    right, left = points[list(_RIGHT_EYE)].mean(axis=0), points[list(_LEFT_EYE)].mean(axis=0)
    dx, dy = (left - right).tolist()
    distance = math.hypot(dx, dy)
    turn = np.array([[dx, dy], [-dy, dx]]) / distance
    return np.asarray((points - (right + left) / 2) @ turn.T / distance)


def _ramp(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _mean(*values: float) -> float:
    return sum(values) / len(values)
