"""Randomness that belongs to a sentence: it is the same alone, in a batch, and while the sentence is still growing."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

BLOCK_FRAMES = 64
"""So many frames are drawn at once, however many are asked for: a prefix is the same for every length."""


class Noise(Protocol):
    """Where a network's noise comes from."""

    def draw(self, channels: int, length: int) -> Tensor:
        """Returns float32 (B, channels, length) with mean 0 and deviation 1."""

    def open(self, channels: int) -> "Strand":
        """Returns the noise of rows whose length is not yet known."""


class Strand(Protocol):
    """The noise of rows, piece after piece."""

    def take(self, length: int) -> Tensor:
        """Returns the next float32 (B, channels, length)."""


class Gaussian:
    """Normal noise, from one generator per row.

    Args:
        generators: On the CPU, so that a seed says the same on every device. Each drawing takes one number from each.
    """

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._generators = generators

    def draw(self, channels: int, length: int) -> Tensor:
        """Returns float32 (B, channels, length); the first frames do not depend on `length`."""
        return self.open(channels).take(length)

    def open(self, channels: int) -> Strand:
        """Returns the noise piece after piece: together what `draw` gives."""
        return _Blocks(self._generators, channels)


class _Blocks:
    """Normal noise in blocks of equal length, from seeds that are drawn at the start, one per row."""

    def __init__(self, generators: Sequence[torch.Generator], channels: int) -> None:
        seeds = [int(torch.randint(2**62, (1,), generator=generator)) for generator in generators]
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._shape = (channels, BLOCK_FRAMES)
        self._left = torch.zeros(len(seeds), channels, 0)

    def take(self, length: int) -> Tensor:
        missing = range(0, length - self._left.shape[2], BLOCK_FRAMES)
        together = torch.cat([self._left, *(self._block() for _ in missing)], dim=2)
        self._left = together[:, :, length:]
        return together[:, :, :length]

    def _block(self) -> Tensor:
        return torch.stack([torch.randn(self._shape, generator=each) for each in self._generators])
