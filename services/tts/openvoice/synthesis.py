"""From text that was read to sound: what OpenVoice's speaker and MeloTTS have in common (VITS; Kim et al., 2021)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from services.tts.openvoice.config import Sizes, setting
from services.tts.openvoice.durations import DrawnDurations, PlainDurations
from services.tts.openvoice.flow import Flow
from services.tts.openvoice.masks import mask_of, masked
from services.tts.openvoice.noise import Noise
from services.tts.openvoice.spoken import Latents, Spoken
from services.tts.openvoice.vocoder import Vocoder

TRAINING_ONLY = ("enc_q.", "sdp.post_", "sdp.flows.1.")
"""Weights that are saved but not used when speaking: what hears recordings, and half of the drawing of durations."""


class Synthesis(nn.Module):  # type: ignore[misc]
    """A voice with several speakers.

    Args:
        config: Of the official folder.
        sizes: What it tells.
        reader: The text encoder.
        flow: Puts the speaker into the frames.
        speakers: Names and ids.

    Attributes:
        sample_rate_hz: Samples per second.
        hop_samples: Samples per frame.
        symbols: What can be said; the position is the id.
        speakers: Names and ids.
        config: The whole configuration.
    """

    def __init__(
        self, config: dict[str, Any], sizes: Sizes, reader: nn.Module, flow: Flow, speakers: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.config = config
        self.sample_rate_hz = int(setting(config, "data", "sampling_rate"))
        self.hop_samples = int(setting(config, "data", "hop_length"))
        self.symbols = tuple(setting(config, "symbols"))
        self.speakers = dict(speakers)
        self.enc_p = reader
        self.sdp = DrawnDurations(sizes.hidden, sizes.condition)
        self.dp = PlainDurations(sizes.hidden, sizes.condition)
        self.flow = flow
        self.dec = Vocoder(sizes)
        self.emb_g = nn.Embedding(setting(config, "data", "n_speakers"), sizes.condition)

    def voice(self, speakers: Tensor) -> Tensor:
        """Returns what the networks are told of the speakers, (B, condition, 1).

        Args:
            speakers: int64 (B,): ids; or float (B, condition): rows of `emb_g.weight`, or between such rows.

        Raises:
            ValueError: An id is out of range, or the shape is wrong.
        """
        if not speakers.is_floating_point():
            return self.emb_g(self.ids("speakers", speakers, self.emb_g.num_embeddings))[:, :, None]
        if speakers.dim() != 2 or speakers.shape[1] != self.emb_g.embedding_dim:
            raise ValueError(f"speakers: shape {tuple(speakers.shape)}; send (B, {self.emb_g.embedding_dim})")
        return speakers.to(self.emb_g.weight)[:, :, None]

    def ids(self, name: str, ids: Tensor, count: int) -> Tensor:
        """Returns `ids` on the network's device after checking them: a wrong id would stop a GPU for good.

        Raises:
            ValueError: One is out of range; the message names `name`.
        """
        least, most = (int(bound) for bound in ids.aminmax())
        if least < 0 or most >= count:
            raise ValueError(f"{name}: ids {least} to {most}; the checkpoint has 0 to {count - 1}")
        return ids.to(self.emb_g.weight.device)

    def say(
        self,
        text: tuple[Tensor, Tensor, Tensor],
        mask: Tensor | None,
        voice: Tensor,
        noise: Noise,
        noise_scale: float,
        noise_scale_w: float,
        length_scale: float,
        sdp_ratio: float,
    ) -> Spoken:
        """Gives each symbol its time and draws the frames.

        Args:
            text: What the reader made of the symbols: hidden (B, hidden, T), mean and log deviation (B, latent, T).
            mask: (B, 1, T), or None where all rows are full.
            voice: (B, condition, 1).
            noise: Drawn from twice, for the durations and then for the frames.
            noise_scale: Variation of the frames, 0 for none.
            noise_scale_w: Variation of the drawn durations, 0 for none.
            length_scale: How much longer than in training the symbols last.
            sdp_ratio: Share of the drawn durations, 0 to 1; the rest is that of the plain ones.
        """
        hidden, mean, spread = text
        drawn = noise.draw(2, hidden.shape[2]).to(hidden.device) * noise_scale_w
        drawn_logs, plain_logs = self.sdp(hidden, mask, voice, drawn), self.dp(hidden, mask, voice)
        logs = drawn_logs * sdp_ratio + plain_logs * (1 - sdp_ratio)
        durations = masked(torch.ceil(torch.exp(logs) * length_scale), mask)[:, 0].long().cpu()
        frames = durations.sum(1).clamp_min(1)
        longest = int(frames.max())
        moments = torch.arange(longest).expand(len(frames), -1).contiguous()
        # A symbol is heard from the end of the one before it to its own end.
        place = torch.searchsorted(durations.cumsum(1), moments, right=True).clamp_max(durations.shape[1] - 1)
        place = place.to(mean.device)[:, None].expand(-1, mean.shape[1], -1)
        mean, spread = mean.gather(2, place), spread.gather(2, place)
        mask = mask_of(frames, longest, mean)
        noisy = mean + noise.draw(mean.shape[1], longest).to(mean) * torch.exp(spread) * noise_scale
        latents = masked(self.flow.inverse(masked(noisy, mask), mask, voice), mask)
        return Spoken(latents, frames, voice, durations)

    def decode(self, spoken: Latents) -> Tensor:
        """Returns the sound, float32 (B, frames · hop_samples), zero behind each row's end."""
        mask = mask_of(spoken.frames, spoken.latents.shape[2], spoken.latents)
        return self.dec(spoken.latents, mask, spoken.condition).float()

    def decode_chunks(self, spoken: Latents, sizes: Sequence[int]) -> Iterator[Tensor]:
        """Yields the samples of `decode` in pieces of `sizes` frames, of which the last repeats."""
        return self.dec.pieces(spoken.latents, spoken.frames, spoken.condition, sizes)
