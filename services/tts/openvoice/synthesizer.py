"""OpenVoice V1's base speaker: reads symbols aloud in one of several styles."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from services.tts.openvoice.attention import Transformer
from services.tts.openvoice.config import Sizes, load, read_config, read_sizes, setting
from services.tts.openvoice.flow import Flow
from services.tts.openvoice.masks import check_lengths, mask_of, masked
from services.tts.openvoice.noise import Noise
from services.tts.openvoice.spoken import Spoken
from services.tts.openvoice.synthesis import TRAINING_ONLY, Synthesis
from services.tts.openvoice.wavenet import WaveNet

FLOW_LAYERS = 4


class Reader(nn.Module):  # type: ignore[misc]
    """Reads symbols: what is said, and the mean and deviation of the frames that say it.

    Args:
        sizes: Of the checkpoint.
        symbols: How many there are.
    """

    def __init__(self, sizes: Sizes, symbols: int) -> None:
        super().__init__()
        self.scale = math.sqrt(sizes.hidden)
        self.emb = nn.Embedding(symbols, sizes.hidden)
        self.encoder = Transformer(sizes.hidden, sizes.wide, sizes.heads, sizes.layers, sizes.kernel, 0)
        self.proj = nn.Conv1d(sizes.hidden, 2 * sizes.latent, 1)

    def forward(self, symbols: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Returns hidden (B, hidden, T), mean and log deviation (B, latent, T) of `symbols` int64 (B, T)."""
        hidden = self.encoder((self.emb(symbols) * self.scale).transpose(1, 2), mask, None)
        mean, spread = masked(self.proj(hidden), mask).chunk(2, dim=1)
        return hidden, mean, spread


class BaseSpeaker(Synthesis):
    """The speaker. Its parameters have the checkpoint's names.

    Args:
        config: Of the official folder.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        sizes = read_sizes(config)
        super().__init__(
            config,
            sizes,
            Reader(sizes, len(setting(config, "symbols"))),
            Flow(sizes.latent, sizes.hidden, lambda: WaveNet(sizes.hidden, FLOW_LAYERS, sizes.condition)),
            setting(config, "speakers"),
        )

    def infer(
        self,
        symbols: Tensor,
        lengths: Tensor,
        speakers: Tensor,
        noise: Noise,
        *,
        noise_scale: float,
        noise_scale_w: float,
        length_scale: float,
        sdp_ratio: float,
    ) -> Spoken:
        """Reads symbols aloud, up to the frames.

        Args:
            symbols: int64 (B, T): ids.
            lengths: int64 (B,): symbols of each row.
            speakers: int64 (B,): ids; or float (B, condition): rows of `emb_g.weight`, or between such rows.
            noise: Of as many rows.
            noise_scale: Variation of the sound; upstream speaks with 0.667.
            noise_scale_w: Variation of the drawn durations; upstream: 0.6.
            length_scale: 1 over the pace.
            sdp_ratio: Share of drawn durations, 0 to 1; upstream: 0.2.

        Raises:
            ValueError: An id or a length is out of range.
        """
        lengths = check_lengths("symbols", lengths, symbols.shape[0], symbols.shape[1], 1)
        mask = mask_of(lengths, symbols.shape[1], self.emb_g.weight)
        text = self.enc_p(self.ids("symbols", symbols, len(self.symbols)), mask)
        scales = (noise_scale, noise_scale_w, length_scale, sdp_ratio)
        return self.say(text, mask, self.voice(speakers), noise, *scales)


def load_base_speaker(folder: Path, device: str, dtype: torch.dtype) -> BaseSpeaker:
    """Returns the speaker in an official folder, `base_speakers/EN` or `base_speakers/ZH`.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The configuration or the checkpoint is not that of a base speaker; the message says why.
    """
    with torch.device("meta"):
        speaker = BaseSpeaker(read_config(folder))
    load(speaker, folder, TRAINING_ONLY)
    speaker.to(device=device, dtype=dtype)
    return speaker
