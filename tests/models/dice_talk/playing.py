"""Plays a segment as a servicer would."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.video.backends.dice_talk import DiceTalkBackend
from services.video.dice_talk.identity import Identity
from services.video.domain import Expression, Frame, Progress, Speech

RATE_HZ = 16_000
HAPPY = Expression("happy", 1.0)


def noise(seconds: float, rate_hz: int = RATE_HZ) -> Speech:
    samples = np.random.default_rng(2).normal(size=round(seconds * rate_hz)) * 4000
    return Speech(samples.clip(-32768, 32767).astype(np.int16), rate_hz, ())


@dataclass(frozen=True)
class Played:
    """What a segment gave."""

    progress: list[float]
    frames: list[Frame]

    @property
    def film(self) -> NDArray[np.int16]:
        return np.stack(self.frames).astype(np.int16)


def play(
    backend: DiceTalkBackend,
    rig: Identity,
    *speech: Speech,
    expression: Expression = HAPPY,
    seed: int = 1,
    quality: str = "draft",
) -> Played:
    """Plays one segment."""
    performance = backend.perform(rig, expression, seed, quality)
    items = [item for part in speech for item in performance.feed(part)]
    assert not items  # before all of a segment is there, nothing can be shown
    items = list(performance.finish())
    progress = [item.done for item in items if isinstance(item, Progress)]
    return Played(progress, [item for item in items if not isinstance(item, Progress)])
