"""A flow that takes the voice out of latent frames, or puts one in (Dinh et al., 2017; Kim et al., 2021)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from services.tts.openvoice.masks import masked

STEPS = 4


class Coupling(nn.Module):  # type: ignore[misc]
    """Shifts one half of the channels by what a network reads from the other half and the voice.

    Args:
        latent: Channels of a frame.
        hidden: Channels of the network.
        network: Maps (B, hidden, T), a mask and a voice to (B, hidden, T).
    """

    def __init__(self, latent: int, hidden: int, network: nn.Module) -> None:
        super().__init__()
        self.pre = nn.Conv1d(latent // 2, hidden, 1)
        self.enc = network
        self.post = nn.Conv1d(hidden, latent // 2, 1)

    def forward(self, frames: Tensor, mask: Tensor | None, voice: Tensor, sign: int) -> Tensor:
        """Returns `frames` (B, latent, T) shifted forth (`sign` 1) or back (-1)."""
        kept, moved = frames.chunk(2, dim=1)
        shift = masked(self.post(self.enc(masked(self.pre(kept), mask), mask, voice)), mask)
        return torch.cat([kept, masked(moved + sign * shift, mask)], dim=1)


class Flow(nn.Module):  # type: ignore[misc]
    """Couplings with the channels turned around after each.

    Args:
        latent: Channels of a frame.
        hidden: Channels of the networks.
        network: Makes the network of one coupling.
    """

    def __init__(self, latent: int, hidden: int, network: Callable[[], nn.Module]) -> None:
        super().__init__()
        # Upstream counts the turnings as layers too: its couplings have the even numbers.
        self.flows = nn.ModuleDict({str(2 * step): Coupling(latent, hidden, network()) for step in range(STEPS)})

    def forward(self, frames: Tensor, mask: Tensor | None, voice: Tensor) -> Tensor:
        """Takes `voice` (B, condition, 1) out of `frames` (B, latent, T)."""
        for coupling in self.flows.values():
            frames = coupling(frames, mask, voice, 1).flip(1)
        return frames

    def inverse(self, frames: Tensor, mask: Tensor | None, voice: Tensor) -> Tensor:
        """Puts `voice` (B, condition, 1) into `frames` (B, latent, T)."""
        for coupling in reversed(self.flows.values()):
            frames = coupling(frames.flip(1), mask, voice, -1)
        return frames
