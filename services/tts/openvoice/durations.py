"""How long each symbol lasts: a plain predictor and one that draws (Kim et al., 2021, section 2.2.2)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from services.tts.openvoice.attention import ChannelNorm
from services.tts.openvoice.masks import masked
from services.tts.openvoice.spline import inverse

KERNEL = 3
LAYERS = 3
BINS = 10
PLAIN_CHANNELS = 256
COUPLINGS = ("3", "5", "7")
"""Names of the flow's bends. The published models leave out the first when they speak, number 1."""


class SeparableStack(nn.Module):  # type: ignore[misc]
    """Dilated convolutions, apart for each channel, with a mixing of channels after each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        steps = [KERNEL**layer for layer in range(LAYERS)]
        self.convs_sep = nn.ModuleList(
            nn.Conv1d(channels, channels, KERNEL, groups=channels, dilation=step, padding=step * (KERNEL // 2))
            for step in steps
        )
        self.convs_1x1 = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in steps)
        self.norms_1 = nn.ModuleList(ChannelNorm(channels) for _ in steps)
        self.norms_2 = nn.ModuleList(ChannelNorm(channels) for _ in steps)

    def forward(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """Returns (B, channels, T) of `frames` (B, channels, T)."""
        layers = zip(self.convs_sep, self.norms_1, self.convs_1x1, self.norms_2, strict=True)
        for apart, settle, mix, settle_again in layers:
            alone = functional.gelu(settle(apart(masked(frames, mask))))
            frames = frames + functional.gelu(settle_again(mix(alone)))
        return masked(frames, mask)


class SplineCoupling(nn.Module):  # type: ignore[misc]
    """Bends one of two channels by a spline that a network reads from the other and from the text."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = math.sqrt(channels)
        self.pre = nn.Conv1d(1, channels, 1)
        self.convs = SeparableStack(channels)
        self.proj = nn.Conv1d(channels, 3 * BINS - 1, 1)

    def inverse(self, pair: Tensor, mask: Tensor | None, text: Tensor) -> Tensor:
        """Returns `pair`, float32 (B, 2, T), with its second channel bent back; `text` is (B, channels, T)."""
        kept, bent = pair.chunk(2, dim=1)
        read = masked(self.proj(self.convs(self.pre(kept.to(text.dtype)) + text, mask)), mask)
        # In full precision: the roots of the spline cancel.
        widths, heights, slopes = read.float().transpose(1, 2)[:, None].split([BINS, BINS, BINS - 1], dim=-1)
        return masked(torch.cat([kept, inverse(bent, widths / self.scale, heights / self.scale, slopes)], dim=1), mask)


class Affine(nn.Module):  # type: ignore[misc]
    """Scales and shifts two channels."""

    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Parameter(torch.zeros(2, 1))
        self.logs = nn.Parameter(torch.zeros(2, 1))

    def inverse(self, pair: Tensor, mask: Tensor | None) -> Tensor:
        """Returns `pair`, float32 (B, 2, T), scaled and shifted back."""
        return masked((pair - self.m.float()) * torch.exp(-self.logs.float()), mask)


class DrawnDurations(nn.Module):  # type: ignore[misc]
    """Draws durations that vary as people's do.

    Args:
        channels: Of the text.
        condition: Width of the voice.
    """

    def __init__(self, channels: int, condition: int) -> None:
        super().__init__()
        self.pre = nn.Conv1d(channels, channels, 1)
        self.cond = nn.Conv1d(condition, channels, 1)
        self.convs = SeparableStack(channels)
        self.proj = nn.Conv1d(channels, channels, 1)
        self.flows = nn.ModuleDict({"0": Affine(), **{name: SplineCoupling(channels) for name in COUPLINGS}})

    def forward(self, text: Tensor, mask: Tensor | None, voice: Tensor, noise: Tensor) -> Tensor:
        """Returns the logarithms of durations in frames, float32 (B, 1, T); `noise` is float32 (B, 2, T)."""
        text = masked(self.proj(self.convs(self.pre(text) + self.cond(voice), mask)), mask)
        for name in reversed(COUPLINGS):
            noise = self.flows[name].inverse(noise.flip(1), mask, text)
        return self.flows["0"].inverse(noise.flip(1), mask)[:, :1]


class PlainDurations(nn.Module):  # type: ignore[misc]
    """Predicts the mean of durations.

    Args:
        channels: Of the text.
        condition: Width of the voice.
    """

    def __init__(self, channels: int, condition: int) -> None:
        super().__init__()
        self.cond = nn.Conv1d(condition, channels, 1)
        self.conv_1 = nn.Conv1d(channels, PLAIN_CHANNELS, KERNEL, padding=KERNEL // 2)
        self.norm_1 = ChannelNorm(PLAIN_CHANNELS)
        self.conv_2 = nn.Conv1d(PLAIN_CHANNELS, PLAIN_CHANNELS, KERNEL, padding=KERNEL // 2)
        self.norm_2 = ChannelNorm(PLAIN_CHANNELS)
        self.proj = nn.Conv1d(PLAIN_CHANNELS, 1, 1)

    def forward(self, text: Tensor, mask: Tensor | None, voice: Tensor) -> Tensor:
        """Returns the logarithms of durations in frames, float32 (B, 1, T), of `text` (B, channels, T)."""
        inner = self.norm_1(torch.relu(self.conv_1(masked(text + self.cond(voice), mask))))
        inner = self.norm_2(torch.relu(self.conv_2(masked(inner, mask))))
        return masked(self.proj(masked(inner, mask)), mask).float()
