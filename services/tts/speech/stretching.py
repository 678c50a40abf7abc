"""Plays curves and spectra faster or slower, without a change of their values."""

import numpy as np

from perception.voice import Floats


class Stretch:
    """Makes `frames` frames last for `target` frames. Times are in the last axis."""

    def __init__(self, frames: int, target: int) -> None:
        place = np.clip((np.arange(target) + 0.5) * frames / target - 0.5, 0, frames - 1)
        self._left = np.minimum(place.astype(int), max(0, frames - 2))
        self._right = np.minimum(self._left + 1, frames - 1)
        self._share = (place - self._left).astype(np.float32)
        self._nearest = np.where(self._share < 0.5, self._left, self._right)

    def between(self, values: Floats) -> Floats:
        """Interpolates float32 (..., frames)."""
        return np.asarray(
            values[..., self._left] * (1 - self._share) + values[..., self._right] * self._share, np.float32
        )

    def nearest(self, values: Floats) -> Floats:
        """Takes the nearest value of (..., frames): for what cannot be mixed, like a phase."""
        return np.asarray(values[..., self._nearest])

    def pitch(self, pitch_hz: Floats, voiced_hz: float) -> Floats:
        """Interpolates a pitch (frames,), and takes the nearest at the edge of silence (below `voiced_hz`)."""
        voiced = pitch_hz > voiced_hz
        inside = voiced[self._left] & voiced[self._right]
        return np.asarray(np.where(inside, self.between(pitch_hz), self.nearest(pitch_hz)), np.float32)
