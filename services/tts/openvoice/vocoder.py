"""Latent frames become sound (HiFi-GAN; Kong et al., 2020), whole or piece by piece with the same samples."""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from services.tts.openvoice.config import Sizes
from services.tts.openvoice.masks import mask_of, masked

SLOPE = 0.1
LAST_SLOPE = 0.01
"""Of the last activation: PyTorch's default, with which all of the models were trained."""
EDGE_KERNEL = 7


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Pairs of convolutions, the first of each dilated.

    Args:
        channels: In and out.
        kernel: Of all convolutions.
        dilations: One per pair.
    """

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=step, padding=step * (kernel - 1) // 2) for step in dilations
        )
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in dilations)

    def forward(self, sound: Tensor, mask: Tensor | None) -> Tensor:
        """Returns (B, channels, T) of `sound` (B, channels, T) that is zero behind each row's end."""
        for first, second in zip(self.convs1, self.convs2, strict=True):
            wide = masked(first(functional.leaky_relu(sound, SLOPE)), mask)
            sound = masked(sound + second(functional.leaky_relu(wide, SLOPE)), mask)
        return sound


class Stage(nn.Module):  # type: ignore[misc]
    """Upsamples by a rate and smooths with several blocks, of which the mean counts.

    Args:
        up: Upsamples.
        blocks: Smooth.
    """

    def __init__(self, up: nn.Module, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.up = up
        self.blocks = nn.ModuleList(blocks)

    def forward(self, sound: Tensor, mask: Tensor | None) -> Tensor:
        """Returns (B, C / 2, T · rate) of (B, C, T); `mask` is that of the output."""
        sound = masked(self.up(functional.leaky_relu(sound, SLOPE)), mask)
        smooth = [block(sound, mask) for block in self.blocks]
        return sum(smooth[1:], smooth[0]) / len(smooth)


class Vocoder(nn.Module):  # type: ignore[misc]
    """Upsamples frames to samples in stages; blocks of several widths smooth after each.

    Attributes:
        hop: Samples per frame.
        reach: How many frames before and behind its own a sample depends on.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.hop = math.prod(sizes.rates)
        self.reach, self._margins = reach(sizes)
        self.rates = sizes.rates
        self.conv_pre = nn.Conv1d(sizes.latent, sizes.start, EDGE_KERNEL, padding=EDGE_KERNEL // 2)
        self.cond = nn.Conv1d(sizes.condition, sizes.start, 1)
        widths = [sizes.start // 2**stage for stage in range(len(sizes.rates) + 1)]
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(width, width // 2, kernel, rate, padding=(kernel - rate) // 2)
            for width, kernel, rate in zip(widths, sizes.rate_kernels, sizes.rates, strict=False)
        )
        self.resblocks = nn.ModuleList(
            ResidualBlock(width, kernel, dilations) for width in widths[1:] for kernel, dilations in sizes.blocks
        )
        self.conv_post = nn.Conv1d(widths[-1], 1, EDGE_KERNEL, padding=EDGE_KERNEL // 2, bias=False)
        count = len(sizes.blocks)
        # Not registered: the checkpoint names the parts of all stages in two lists.
        self._stages = [Stage(up, self.resblocks[at * count : (at + 1) * count]) for at, up in enumerate(self.ups)]

    def compile(self, **options: Any) -> None:
        """Compiles the stages, each for itself, with the options of `torch.compile`.

        What lies between them cuts pieces by their place; as part of a graph it would cost minutes and gain nothing.
        """
        for stage in self._stages:
            # Else all stages would share one limit of how many shapes are compiled (PyTorch 2.13).
            stage.compile(isolate_recompiles=True, **options)

    def forward(
        self, frames: Tensor, mask: Tensor | None, voice: Tensor, begin: int = 0, end: int | None = None
    ) -> Tensor:
        """Returns the sound of the frames from `begin` to `end`.

        The frames around them are heard as far as they reach: each stage works on what the later ones need of it.

        Args:
            frames: (B, latent, T), zero behind each row's end.
            mask: (B, 1, T), or None where all rows are full.
            voice: (B or 1, condition, 1).
            begin: The first frame.
            end: Behind the last; None for T.

        Returns:
            (B, (end - begin) · hop), -1 to 1, zero behind each row's end.
        """
        end = frames.shape[2] if end is None else end
        sound = masked(self.conv_pre(frames) + self.cond(voice), mask)
        first, per_frame = 0, 1  # place of the first sample that is there, and samples per frame so far
        for stage, rate, (before, behind) in zip(self._stages, self.rates, self._margins, strict=True):
            near = slice(max(0, begin * per_frame - before - first), end * per_frame + behind - first)
            sound, mask = sound[:, :, near], None if mask is None else mask[:, :, near]
            first, per_frame = (first + near.start) * rate, per_frame * rate
            mask = None if mask is None else mask.repeat_interleave(rate, dim=2)
            sound = stage(sound, mask)
        sound = masked(torch.tanh(self.conv_post(functional.leaky_relu(sound, LAST_SLOPE))), mask)
        return sound[:, 0, begin * self.hop - first : end * self.hop - first]

    def pieces(self, frames: Tensor, lengths: Tensor, voice: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
        """Yields the sound of (B, latent, T) piece by piece, each computed with the frames around it that it hears.

        Args:
            frames: Zero behind each row's end.
            lengths: int64 (B,) on the CPU: frames of each row.
            voice: (B or 1, condition, 1).
            sizes: How many frames the pieces have; the last repeats.

        Yields:
            float32 (B, frames of the piece · hop); together what `forward` gives.

        Raises:
            ValueError: A size is less than 1.
        """
        if not sizes or min(sizes) < 1:
            raise ValueError(f"sizes: {list(sizes)}; send at least one, each of 1 frame or more")
        total = frames.shape[2]
        before, behind = self.reach
        begin = 0
        for end in accumulate(chain(sizes, repeat(sizes[-1]))):
            first, last = max(0, begin - before), min(total, end + behind)
            near = frames[:, :, first:last]
            mask = mask_of(lengths - first, last - first, near)
            yield self(near, mask, voice, begin - first, min(end, total) - first).float()
            if end >= total:
                return
            begin = end


def reach(sizes: Sizes) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Tells from the kernels how much before and behind a piece of sound is heard in it.

    Returns:
        Frames before and behind; and for each stage the same in samples of its input.
    """
    smoothing = max(sum((step + 1) * (kernel - 1) // 2 for step in dilations) for kernel, dilations in sizes.blocks)
    # Of the piece of one frame: the first and the last sample that is needed.
    first, last = -(EDGE_KERNEL // 2), math.prod(sizes.rates) - 1 + EDGE_KERNEL // 2
    margins: list[tuple[int, int]] = []
    for stage in reversed(range(len(sizes.rates))):
        rate, kernel = sizes.rates[stage], sizes.rate_kernels[stage]
        padding = (kernel - rate) // 2
        # Input i of the upsampling is heard in the samples i · rate - padding to i · rate - padding + kernel - 1.
        first = -((kernel - 1 - padding - (first - smoothing)) // rate)
        last = (last + smoothing + padding) // rate
        margins.insert(0, (-first, last + 1 - math.prod(sizes.rates[:stage])))
    before, behind = margins[0]
    return (before + EDGE_KERNEL // 2, behind + EDGE_KERNEL // 2), margins
