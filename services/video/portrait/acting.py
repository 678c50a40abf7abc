"""Says what a face does in each frame of a reply: the emotion, the speech over it, and idle motion."""

import math
import tomllib
from importlib import resources

from services.video.domain import Expression
from services.video.portrait.drawing import Pose
from services.video.portrait.idle import IdleMotion
from services.video.portrait.lips import OPENERS, Lips, Loudness, MouthShape

SCORE = tomllib.loads(resources.files("services.video.portrait").joinpath("acting.toml").read_text("utf-8"))
CLASSES = tuple(SCORE["emotions"])

ONSET_S = 0.35
"""Time constant with which the emotion appears."""
ONSET_LEAD_S = 0.10
"""A reply begins with a part of it already in the face: its first moments are short."""
STRENGTH_BEND = 0.75
"""Between nothing and full an expression is this power of the intensity: faint ones are not noticed at all."""
PULSE = {"jaw": (0.45, 0.80), "au25": (0.70, 0.35)}
"""A viseme opens the mouth by its measure times the first plus the second times the loudness's root."""
NOD_DEG = 0.9
FOLD_STEPS = 16
"""Folds deepen in steps too small to see, for every change of them redraws the portrait."""
SMOOTHING = 0.35
GAZE = ("gaze_y",)
LID_HOLDS = ("au5", "au7")


class Actor:
    """Plays one reply. Frames are asked for in order.

    Args:
        expression: What the face shows.
        lips: The mouth shapes of the speech.
        loudness: How loud it is.
        rest: Weights of controls that bring the portrait to rest.
        seed: Of the idle motion.
        fps: Frames per second.
    """

    def __init__(
        self, expression: Expression, lips: Lips, loudness: Loudness, rest: dict[str, float], seed: int, fps: int
    ) -> None:
        temper = SCORE["temper"][expression.face_class]
        self._emotion: dict[str, float] = SCORE["emotions"][expression.face_class]
        self._clench: float = SCORE["clench"].get(expression.face_class, 0.0)
        self._strength, self._fps = expression.intensity**STRENGTH_BEND, fps
        self._lips, self._loudness, self._rest = lips, loudness, rest
        liveliness = 1 + (temper["motion"] - 1) * expression.intensity
        self._idle = IdleMotion(seed, 1 + (temper["blinks"] - 1) * expression.intensity, liveliness, fps)
        self._speaking = 0.0
        self._nod = 0.0

    def pose(self, frame: int) -> Pose:
        """What the face does in a frame."""
        level = self._strength * (1 - math.exp(-(frame / self._fps + ONSET_LEAD_S) / ONSET_S))
        mouth, loudness = self._lips.at(frame), self._loudness.at(frame)
        idle = self._idle.at(frame)
        self._speaking += SMOOTHING * (mouth.speaking - self._speaking)
        self._nod += 0.12 * (loudness - self._nod)
        weights = self._face(level, mouth)
        self._speak(weights, mouth, loudness, level)
        for name, value in idle.head.items():
            weights[name] = weights.get(name, 0.0) + value
        weights["pitch"] = weights.get("pitch", 0.0) + NOD_DEG * self._nod
        weights["blink_l"] = weights["blink_r"] = idle.blink
        for name in LID_HOLDS:
            # A blink closes wide and narrowed eyes alike.
            weights[name] = weights.get(name, 0.0) * (1 - idle.blink)
        gaze = (idle.gaze_mm[0], idle.gaze_mm[1] + level * self._emotion.get("gaze_y", 0.0))
        return Pose(weights, mouth.tongue, gaze, self._folds(level))

    def _face(self, level: float, mouth: MouthShape) -> dict[str, float]:
        weights = {name: value * level for name, value in self._emotion.items() if name not in GAZE}
        for name, part in SCORE["yield_to_speech"].items():
            if name in weights:
                weights[name] *= (1 - part * self._speaking) * (1 - part * mouth.closure)
        for name, value in self._rest.items():
            # What the emotion does itself need not be undone first: a smile is a smile.
            shown = min(max(self._emotion.get(name, 0.0) * level, 0.0), 1.0)
            weights[name] = weights.get(name, 0.0) + value * (1 - shown)
        return weights

    def _speak(self, weights: dict[str, float], mouth: MouthShape, loudness: float, level: float) -> None:
        for name, value in mouth.controls.items():
            least, more = PULSE.get(name, (1.0, 0.0))
            held = self._clench * level if name == "jaw" else 0.0
            weights[name] = weights.get(name, 0.0) + value * (1 - held) * (least + more * math.sqrt(loudness))
        if mouth.closure == 1.0:
            for name in OPENERS:
                weights[name] = min(weights.get(name, 0.0), mouth.controls.get(name, 0.0))

    def _folds(self, level: float) -> dict[str, float]:
        step = round(level * FOLD_STEPS) / FOLD_STEPS
        folds: dict[str, float] = {}
        for control, maps in SCORE["shading"].items():
            weight = max(self._emotion.get(control, 0.0), 0.0) * step
            for name, depth in maps.items():
                folds[name] = folds.get(name, 0.0) + weight * depth
        return folds
