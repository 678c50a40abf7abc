"""A transformer whose attention knows how far apart near places are (Shaw et al., 2018), as VITS uses it."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from services.tts.openvoice.masks import masked

NEAR = 4
"""Distances up to this have embeddings of their own."""
NEVER = -1e4
"""The score of a place behind the end; fits half precision."""
VOICED_LAYER = 2
"""A voice enters before this layer, the third (VITS2; Kong et al., 2023)."""


class ChannelNorm(nn.Module):  # type: ignore[misc]
    """Layer normalisation over the channels of (B, C, T)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, frames: Tensor) -> Tensor:
        """Returns the normalised frames."""
        last = frames.transpose(1, 2)
        return functional.layer_norm(last, self.gamma.shape, self.gamma, self.beta).transpose(1, 2)


class Attention(nn.Module):  # type: ignore[misc]
    """Self-attention with heads that share the embeddings of distances."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.conv_q = nn.Conv1d(channels, channels, 1)
        self.conv_k = nn.Conv1d(channels, channels, 1)
        self.conv_v = nn.Conv1d(channels, channels, 1)
        self.conv_o = nn.Conv1d(channels, channels, 1)
        self.emb_rel_k = nn.Parameter(torch.zeros(1, 2 * NEAR + 1, channels // heads))
        self.emb_rel_v = nn.Parameter(torch.zeros(1, 2 * NEAR + 1, channels // heads))

    def forward(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """Returns (B, C, T) of `frames` (B, C, T)."""
        query, key, value = (
            conv(frames).unflatten(1, (self.heads, -1)).transpose(2, 3)
            for conv in (self.conv_q, self.conv_k, self.conv_v)
        )
        query = query / math.sqrt(query.shape[-1])
        places = torch.arange(frames.shape[2], device=frames.device)
        apart = places[None] - places[:, None]
        scores = query @ key.transpose(2, 3)
        by_distance = (query @ self.emb_rel_k.transpose(1, 2)).gather(
            3, (apart + NEAR).clamp(0, 2 * NEAR).expand(scores.shape)
        )
        scores = scores + by_distance.masked_fill(apart.abs() > NEAR, 0)
        if mask is not None:
            scores = scores.masked_fill(mask[:, :, None] == 0, NEVER)
        shares = torch.softmax(scores, dim=-1)
        # The share of the place at each distance: column t of the row of place i is place i + t - NEAR.
        window = places[:, None] + torch.arange(2 * NEAR + 1, device=frames.device)
        nearby = functional.pad(shares, (NEAR, NEAR)).gather(3, window.expand(*shares.shape[:3], -1))
        heard = shares @ value + nearby @ self.emb_rel_v
        return self.conv_o(heard.transpose(2, 3).flatten(1, 2))


class FeedForward(nn.Module):  # type: ignore[misc]
    """Two convolutions with a rectifier between them."""

    def __init__(self, channels: int, wide: int, kernel: int) -> None:
        super().__init__()
        self.padding = ((kernel - 1) // 2, kernel // 2)
        self.conv_1 = nn.Conv1d(channels, wide, kernel)
        self.conv_2 = nn.Conv1d(wide, channels, kernel)

    def forward(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """Returns (B, C, T) of `frames` (B, C, T)."""
        inner = torch.relu(self.conv_1(functional.pad(masked(frames, mask), self.padding)))
        return masked(self.conv_2(functional.pad(masked(inner, mask), self.padding)), mask)


class Transformer(nn.Module):  # type: ignore[misc]
    """Layers of attention and feed-forward parts, normalised after each.

    Args:
        channels: In and out.
        wide: Inside the feed-forward parts.
        heads: Of the attention.
        layers: How many.
        kernel: Of the feed-forward parts.
        condition: Width of a voice that enters at the third layer; 0 for none.
    """

    def __init__(self, channels: int, wide: int, heads: int, layers: int, kernel: int, condition: int) -> None:
        super().__init__()
        self.attn_layers = nn.ModuleList(Attention(channels, heads) for _ in range(layers))
        self.norm_layers_1 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))
        self.ffn_layers = nn.ModuleList(FeedForward(channels, wide, kernel) for _ in range(layers))
        self.norm_layers_2 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))
        self.voiced = condition > 0
        if self.voiced:
            self.spk_emb_linear = nn.Linear(condition, channels)

    def forward(self, frames: Tensor, mask: Tensor | None, voice: Tensor | None) -> Tensor:
        """Returns (B, channels, T) of `frames` (B, channels, T); `voice` is (B, condition, 1)."""
        frames = masked(frames, mask)
        layers = zip(self.attn_layers, self.norm_layers_1, self.ffn_layers, self.norm_layers_2, strict=True)
        for place, (attend, settle, feed, settle_again) in enumerate(layers):
            if self.voiced and place == VOICED_LAYER and voice is not None:
                frames = masked(frames + self.spk_emb_linear(voice[:, :, 0])[:, :, None], mask)
            frames = settle(frames + attend(frames, mask))
            frames = settle_again(frames + feed(frames, mask))
        return masked(frames, mask)
