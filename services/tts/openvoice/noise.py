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
        """Returns the noise of a single row whose length is not yet known."""


class Strand(Protocol):
    """The noise of one row, piece after piece."""

    def take(self, length: int) -> Tensor:
        """Returns the next float32 (1, channels, length)."""


class Gaussian:
    """Normal noise, from one generator per row.

    Args:
        generators: On the CPU, so that a seed says the same on every device. Each drawing takes one number from each.
    """

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._generators = generators

    def draw(self, channels: int, length: int) -> Tensor:
        """Returns float32 (B, channels, length); the first frames do not depend on `length`."""
        return torch.cat([_Blocks(generator, channels).take(length) for generator in self._generators])

    def open(self, channels: int) -> Strand:
        """Returns the noise of the only row, piece after piece: together what `draw` gives."""
        (generator,) = self._generators
        return _Blocks(generator, channels)


class _Blocks:
    """Normal noise in blocks of equal length, from a seed that is drawn at the start."""

    def __init__(self, generator: torch.Generator, channels: int) -> None:
        seed = int(torch.randint(2**62, (1,), generator=generator))
        self._generator = torch.Generator().manual_seed(seed)
        self._channels = channels
        self._left = torch.zeros(1, channels, 0)

    def take(self, length: int) -> Tensor:
        blocks = [self._left]
        known = self._left.shape[2]
        while known < length:
            blocks.append(torch.randn(1, self._channels, BLOCK_FRAMES, generator=self._generator))
            known += BLOCK_FRAMES
        together = torch.cat(blocks, dim=2)
        self._left = together[:, :, length:]
        return together[:, :, :length]
