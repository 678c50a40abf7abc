"""A stack of gated convolutions that a voice steers (van den Oord et al., 2016), as VITS uses it."""

import torch
from torch import Tensor, nn

from services.tts.openvoice.masks import masked

KERNEL = 5


class WaveNet(nn.Module):  # type: ignore[misc]
    """Gated convolutions of kernel 5 with a residual and a skip path.

    Args:
        hidden: Channels in and out.
        layers: How many convolutions.
        condition: Width of the voice.
    """

    def __init__(self, hidden: int, layers: int, condition: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.reach = layers * (KERNEL // 2)
        self.cond_layer = nn.Conv1d(condition, 2 * hidden * layers, 1)
        self.in_layers = nn.ModuleList(
            nn.Conv1d(hidden, 2 * hidden, KERNEL, padding=KERNEL // 2) for _ in range(layers)
        )
        # The last layer's residual would go nowhere.
        self.res_skip_layers = nn.ModuleList(
            nn.Conv1d(hidden, hidden if last else 2 * hidden, 1) for last in [False] * (layers - 1) + [True]
        )

    def forward(self, frames: Tensor, mask: Tensor | None, voice: Tensor) -> Tensor:
        """Returns (B, hidden, T) of `frames` (B, hidden, T) that are zero behind each row's end."""
        steering = self.cond_layer(voice).chunk(len(self.in_layers), dim=1)
        *layers, last = zip(self.in_layers, self.res_skip_layers, steering, strict=True)
        skipped = torch.zeros_like(frames)
        for gated, split, steer in layers:
            residual, skip = split(_gate(gated(frames) + steer)).chunk(2, dim=1)
            frames = masked(frames + residual, mask)
            skipped = skipped + skip
        gated, split, steer = last
        return masked(skipped + split(_gate(gated(frames) + steer)), mask)


def _gate(both: Tensor) -> Tensor:
    signal, gate = both.chunk(2, dim=1)
    return torch.tanh(signal) * torch.sigmoid(gate)
