"""The picture of where the face is becomes features."""

import torch
from diffusers import ModelMixin
from torch.nn import functional


class PoseGuider(ModelMixin):  # type: ignore[misc]
    """Called with (batch, 3, frames, height, width); answers (batch, channels, frames, height / 8, width / 8)."""

    def __init__(self, *, block_out_channels: tuple[int, ...], conditioning_embedding_channels: int) -> None:
        super().__init__()
        self.inner = torch.nn.Conv3d(3, block_out_channels[0], 1)
        self.outer = torch.nn.Conv3d(block_out_channels[0], conditioning_embedding_channels, 1)

    def forward(self, conditioning: torch.Tensor) -> torch.Tensor:
        small = conditioning.unflatten(4, (-1, 8)).mean(5).unflatten(3, (-1, 8)).mean(4)
        return self.outer(functional.silu(self.inner(small)))
