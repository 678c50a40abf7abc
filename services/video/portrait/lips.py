"""From visemes and sound to the shape of the mouth at any moment."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.video.domain import VisemeSpan

CLOSURES = ("PP", "FF")
"""Shapes that are seen as wrong when the lips miss them: each is reached in full on the frame nearest to its middle."""
OPENERS = ("jaw", "au25", "au16", "au10", "au9_lip", "funnel", "pucker")
"""Controls that part the lips: a closure overrides them."""
REST = "sil"
REACH_S = 0.25
"""Beyond this a shape's pull is nothing."""
LOUDNESS_FALL = 0.997
"""Per frame, how fast the remembered loudest moment is forgotten."""
LOUDNESS_MIN = 400.0
"""RMS below which there is only noise, of 32768."""


@dataclass(frozen=True)
class MouthShape:
    """The mouth at one moment: control weights, the tongue's height, how much it is speaking (0 to 1)."""

    controls: dict[str, float]
    tongue: float
    speaking: float
    closure: float


class Lips:
    """Blends the shapes of neighbouring visemes by dominance (Cohen and Massaro 1993).

    Args:
        shapes: Viseme to control weights (and `tongue`).
        dominance: Viseme to strength, and the two times of fading.
        fps: Frames per second, for which closures are placed.
    """

    def __init__(self, shapes: dict[str, dict[str, float]], dominance: dict[str, float], fps: int) -> None:
        self._shapes, self._dominance, self._fps = shapes, dominance, fps
        self._spans: list[VisemeSpan] = []
        self._closures: dict[int, str] = {}

    def add(self, span: VisemeSpan) -> None:
        """Takes the next viseme.

        Raises:
            KeyError: It is not one of the fifteen.
        """
        if span.viseme not in self._shapes:
            raise KeyError(f"{span.viseme!r} is not a viseme; use one of: {', '.join(self._shapes)}")
        self._spans.append(span)
        if span.viseme in CLOSURES:
            middle = span.start_s + span.duration_s / 2
            self._closures[max(0, round(middle * self._fps - 0.5))] = span.viseme

    def at(self, frame: int) -> MouthShape:
        """The shape in the middle of a frame. Frames are asked for in order; what is long past is forgotten."""
        time = (frame + 0.5) / self._fps
        self._spans = [span for span in self._spans if span.start_s + span.duration_s > time - REACH_S]
        weights = {REST: 1e-3}
        for span in self._spans:
            if span.start_s > time + REACH_S:
                continue
            weights[span.viseme] = weights.get(span.viseme, 0.0) + self._pull(span, time)
        total = sum(weights.values())
        mixed: dict[str, float] = {}
        for viseme, weight in weights.items():
            for control, value in self._shapes[viseme].items():
                mixed[control] = mixed.get(control, 0.0) + value * weight / total
        closure = self._closure(frame, mixed)
        return MouthShape(mixed, mixed.pop("tongue", 0.0), 1 - weights[REST] / total, closure)

    def _pull(self, span: VisemeSpan, time: float) -> float:
        """Full inside the span, less near its ends (neighbours blend), then fading."""
        middle, half = span.start_s + span.duration_s / 2, span.duration_s / 2
        distance = max(0.0, abs(time - middle) - 0.5 * half)
        fade = self._dominance["fade_silence_s" if span.viseme == REST else "fade_s"]
        return self._dominance[span.viseme] * math.exp(-distance / fade)

    def _closure(self, frame: int, mixed: dict[str, float]) -> float:
        """Forces a closure on its frame and leads halfway into it; returns how far the lips are held."""
        held = 0.0
        for place, strength in ((frame, 1.0), (frame + 1, 0.45), (frame - 1, 0.35)):
            viseme = self._closures.get(place)
            if viseme is None or strength <= held:
                continue
            held = strength
            target = self._shapes[viseme]
            for control in {*mixed, *target} - {"tongue"}:
                now = mixed.get(control, 0.0)
                mixed[control] = now + (target.get(control, 0.0) - now) * strength
        return held


class Loudness:
    """How loud each frame's stretch of speech is, 0 to 1 of the loudest so far."""

    def __init__(self, fps: int) -> None:
        self._fps = fps
        self._peak = LOUDNESS_MIN * 4
        self._left = np.zeros(0, np.int16)
        self._levels: list[float] = []
        self.duration_s = 0.0
        """Speech taken so far."""

    def add(self, samples: NDArray[np.int16], sample_rate_hz: int) -> None:
        """Takes the next stretch, int16 (n,)."""
        self.duration_s += len(samples) / sample_rate_hz
        self._left = np.concatenate([self._left, samples])
        while len(self._left) >= (step := self._step(sample_rate_hz)):
            part, self._left = self._left[:step], self._left[step:]
            level = float(np.sqrt(np.mean(part.astype(np.float64) ** 2)))
            self._peak = max(level, self._peak * LOUDNESS_FALL, LOUDNESS_MIN * 4)
            self._levels.append(level / self._peak)

    def _step(self, rate: int) -> int:
        """Samples of the next frame; they differ by one when the rate is not a multiple of the frame rate."""
        done = len(self._levels)
        return (done + 1) * rate // self._fps - done * rate // self._fps

    def at(self, frame: int) -> float:
        """The loudness during a frame; 0 after the end."""
        return self._levels[frame] if frame < len(self._levels) else 0.0
