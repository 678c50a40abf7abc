"""Halves the sample rate of sound that is still growing: MeloTTS speaks at 44.1 kHz, the converter hears 22.05."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv1d

TAPS_PER_SIDE = 32
"""Of a low pass with 80 dB of attenuation whose edge is an eighth of the new bandwidth wide."""
KAISER_BETA = 8.0


class Decimation:
    """Takes every `factor`-th sample after a low pass; piece by piece it gives what it gives at once.

    Args:
        factor: Of the sample rates; 1 passes everything on.
    """

    def __init__(self, factor: int) -> None:
        self._factor = factor
        self._edge = TAPS_PER_SIDE * factor
        places = np.arange(-self._edge, self._edge + 1)
        taps = np.sinc(places * 0.94 / factor) * np.kaiser(len(places), KAISER_BETA)
        self._taps = torch.tensor(taps / taps.sum(), dtype=torch.float32)[None, None]
        self._waiting: Tensor | None = None

    def feed(self, samples: Tensor) -> Tensor:
        """Takes further float32 (B, n) samples and returns those that are ready, (B, m); m may be 0."""
        if self._factor == 1:
            self._waiting = samples[:, :0]
            return samples
        if self._waiting is None:
            self._waiting = samples.new_zeros(len(samples), self._edge)
        known = torch.cat([self._waiting, samples], dim=1)
        count = max(0, (known.shape[1] - 2 * self._edge - 1) // self._factor + 1)
        self._waiting = known[:, count * self._factor :]
        if not count:
            return known[:, :0]
        needed = known[:, : (count - 1) * self._factor + 2 * self._edge + 1]
        return conv1d(needed[:, None], self._taps.to(needed), stride=self._factor)[:, 0]

    def finish(self) -> Tensor:
        """Returns the rest, (B, m); altogether n // factor samples when n is a multiple of it."""
        if self._waiting is None:
            return torch.zeros(1, 0)
        if self._factor == 1:
            return self._waiting
        return self.feed(self._waiting.new_zeros(len(self._waiting), self._edge))
