"""Hears the voice in a recording: its tone colour becomes one vector (after Wang et al., 2018)."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from services.tts.openvoice.masks import mask_of

WIDTHS = (1, 32, 32, 64, 64, 128, 128)
MEMORY = 128


class ReferenceEncoder(nn.Module):  # type: ignore[misc]
    """Halves the picture of a recording six times, reads it from left to right and keeps the last thought.

    Args:
        bins: Frequencies of the spectrogram.
        condition: Width of the embedding.
    """

    def __init__(self, bins: int, condition: int) -> None:
        super().__init__()
        self.layernorm = nn.LayerNorm(bins)
        self.convs = nn.ModuleList(nn.Conv2d(narrow, wide, 3, stride=2, padding=1) for narrow, wide in pairwise(WIDTHS))
        for _ in self.convs:
            bins = (bins + 1) // 2
        self.gru = nn.GRU(WIDTHS[-1] * bins, MEMORY, batch_first=True)
        self.proj = nn.Linear(MEMORY, condition)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """Returns the embeddings, each as if its recording were alone.

        Args:
            frames: Linear magnitudes, (B, bins, T).
            lengths: int64 (B,) on the CPU: frames of each row.

        Returns:
            (B, condition).
        """
        picture = self.layernorm(frames.transpose(1, 2))[:, None]
        for conv in self.convs:
            mask = mask_of(lengths, picture.shape[2], picture)
            picture = torch.relu(conv(picture if mask is None else picture * mask[..., None]))
            lengths = (lengths + 1) // 2
        thoughts, _ = self.gru(picture.transpose(1, 2).flatten(2))
        rows = torch.arange(len(lengths), device=thoughts.device)
        return self.proj(thoughts[rows, lengths.to(thoughts.device) - 1])
