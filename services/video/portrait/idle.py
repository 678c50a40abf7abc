"""What a living face does without meaning to: it blinks, sways, breathes and looks about a little."""

import math
from dataclasses import dataclass

import numpy as np

BLINK = (0.45, 1.0, 0.9, 0.55, 0.22, 0.08)
"""Closure in each frame of a blink at 25 fps: lids fall faster than they rise."""
BLINK_GAP_SHAPE, BLINK_GAP_SCALE_S = 4.0, 0.9
"""Gaps are gamma distributed: 3.6 s on average, as in conversation (Bentivoglio et al. 1997: 17 to 26 a minute)."""
DOUBLE_BLINK = 0.12
SETTLE_S = 0.6
"""The sway grows from nothing in this time, so that a reply begins as the portrait is."""
SWAY = {"yaw": 1.8, "pitch": 0.9, "roll": 0.9, "shift_x": 0.7, "shift_y": 0.5, "zoom": 0.5}
"""Amplitudes: degrees, mm, percent. Small, because beyond three degrees a flat picture shows that it is flat."""
SWAY_HZ = (0.09, 0.17, 0.29)
SWAY_PARTS = (0.5, 0.35, 0.15)
BREATH_HZ = 0.26
GAZE_MM = 0.5
GAZE_HOLD_S = (0.8, 2.4)


@dataclass(frozen=True)
class Idle:
    """One moment: weights of head controls, closure of the lids (0 to 1), gaze (x, y), mm."""

    head: dict[str, float]
    blink: float
    gaze_mm: tuple[float, float]


class IdleMotion:
    """Idle motion of one reply; the same seed gives the same motion.

    Args:
        seed: Of the random numbers.
        blinks: Blink rate, relative to calm.
        motion: Amplitude of the sway, relative to calm.
        fps: Frames per second.
    """

    def __init__(self, seed: int, blinks: float, motion: float, fps: int) -> None:
        self._random = np.random.default_rng(seed)
        self._fps, self._motion, self._blinks = fps, motion, blinks
        self._phases = {name: self._random.uniform(0, 2 * math.pi, len(SWAY_HZ)).tolist() for name in SWAY}
        self._blink_start = self._next_blink(0.6)
        self._gaze, self._gaze_until = (0.0, 0.0), 0.0

    def at(self, frame: int) -> Idle:
        """The motion in a frame; frames are asked for in order."""
        time = frame / self._fps
        settled = self._motion * (1 - math.exp(-time / SETTLE_S))
        head = {name: settled * size * self._wave(self._phases[name], time) for name, size in SWAY.items()}
        head["breath"] = 0.5 - 0.5 * math.cos(2 * math.pi * BREATH_HZ * time)
        return Idle(head, self._blink(frame), self._look(time))

    def _wave(self, phases: list[float], time: float) -> float:
        wave = 0.0
        for part, hz, phase in zip(SWAY_PARTS, SWAY_HZ, phases, strict=True):
            wave += part * (math.sin(2 * math.pi * hz * time + phase) - math.sin(phase))
        return max(-1.2, min(1.2, wave))

    def _blink(self, frame: int) -> float:
        step = frame - self._blink_start
        if step >= len(BLINK):
            gap = 0.32 if self._random.random() < DOUBLE_BLINK else 0.0
            self._blink_start = frame + round(gap * self._fps) if gap else self._next_blink(frame / self._fps)
            step = frame - self._blink_start
        return BLINK[step] if step >= 0 else 0.0

    def _next_blink(self, after_s: float) -> int:
        gap = self._random.gamma(BLINK_GAP_SHAPE, BLINK_GAP_SCALE_S / self._blinks)
        return round((after_s + max(gap, 0.5)) * self._fps)

    def _look(self, time: float) -> tuple[float, float]:
        """Small jumps of the eyes, as people make who look someone in the face."""
        if time >= self._gaze_until:
            self._gaze_until = time + float(self._random.uniform(*GAZE_HOLD_S))
            x, y = (self._random.normal(0, 1, 2) * GAZE_MM * (1.0, 0.5)).clip(-1.2, 1.2).tolist()
            self._gaze = (x, y) if time > 0 else (0.0, 0.0)
        return self._gaze
