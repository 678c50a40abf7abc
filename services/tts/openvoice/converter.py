"""OpenVoice's tone colour converter, V1 and V2: the same words in the same manner, in another voice."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from services.tts.openvoice.config import Sizes, load, read_config, read_sizes, setting
from services.tts.openvoice.flow import Flow
from services.tts.openvoice.masks import mask_of, masked
from services.tts.openvoice.noise import Noise
from services.tts.openvoice.reference import ReferenceEncoder
from services.tts.openvoice.spectrogram import Spectrogram
from services.tts.openvoice.spoken import Latents
from services.tts.openvoice.stream import Conversion, Pictures, Window
from services.tts.openvoice.synthesizer import FLOW_LAYERS
from services.tts.openvoice.vocoder import Vocoder
from services.tts.openvoice.wavenet import WaveNet

LISTENER_LAYERS = 16


class Listener(nn.Module):  # type: ignore[misc]
    """Hears sound as latent frames: the mean and deviation of each.

    Args:
        sizes: Of the checkpoint.
        bins: Frequencies of the spectrogram.
    """

    def __init__(self, sizes: Sizes, bins: int) -> None:
        super().__init__()
        self.pre = nn.Conv1d(bins, sizes.hidden, 1)
        self.enc = WaveNet(sizes.hidden, LISTENER_LAYERS, sizes.condition)
        self.proj = nn.Conv1d(sizes.hidden, 2 * sizes.latent, 1)

    def forward(self, frames: Tensor, mask: Tensor | None, voice: Tensor) -> Tensor:
        """Returns mean and log deviation, (B, 2 · latent, T), of linear magnitudes (B, bins, T)."""
        return masked(self.proj(self.enc(masked(self.pre(frames), mask), mask, voice)), mask)


class Network(nn.Module):  # type: ignore[misc]
    """The converter's networks. Their parameters have the checkpoint's names.

    Args:
        sizes: Of the checkpoint.
        bins: Frequencies of the spectrogram.
    """

    def __init__(self, sizes: Sizes, bins: int) -> None:
        super().__init__()
        self.ref_enc = ReferenceEncoder(bins, sizes.condition)
        self.enc_q = Listener(sizes, bins)
        self.flow = Flow(sizes.latent, sizes.hidden, lambda: WaveNet(sizes.hidden, FLOW_LAYERS, sizes.condition))
        self.dec = Vocoder(sizes)


class Converter:
    """Gives speech the tone colour of a reference.

    Args:
        network: Loaded.
        config: Of the official folder.

    Attributes:
        network: Its parts are `ref_enc`, `enc_q`, `flow` and `dec`; `dec` does nine tenths of the work.
        version: "v1" or "v2". Embeddings of one mean nothing to the other.
        sample_rate_hz: Samples per second, in and out.
        hop_samples: Samples per frame.
        width: Of an embedding.
    """

    def __init__(self, network: Network, config: dict[str, Any]) -> None:
        self.network = network
        self.version = str(config.get("_version_", "v1"))
        self.sample_rate_hz = int(setting(config, "data", "sampling_rate"))
        self.hop_samples = network.dec.hop
        self.width = network.ref_enc.proj.out_features
        self._device = network.dec.conv_pre.weight.device
        self._spectrogram = _spectrogram(config)
        self._blind = bool(setting(config, "model").get("zero_g", False))

    def embed(self, samples: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Returns the tone colours of recordings; the mean of several is that of their speaker.

        Always in full precision: it is done once per voice, and kept.

        Args:
            samples: float32 (B, n), -1 to 1.
            lengths: int64 (B,); None where all rows are full.

        Returns:
            float32 (B, width).

        Raises:
            ValueError: A row has no more than 384 samples.
        """
        frames, counts = self._frames(samples, lengths)
        return self.network.ref_enc(frames, counts)

    def convert(
        self, samples: Tensor, lengths: Tensor, source: Tensor, target: Tensor, tau: float, noise: Noise
    ) -> Tensor:
        """Returns the speech in the target's tone colour.

        Args:
            samples: float32 (B, n), -1 to 1.
            lengths: int64 (B,): samples of each row, more than 384.
            source: float32 (1 or B, width): tone colour of the speech.
            target: float32 (1 or B, width).
            tau: How much the frames vary around their mean; upstream converts with 0.3.
            noise: Of as many rows.

        Returns:
            float32 (B, n // hop · hop), zero behind each row's own whole frames.

        Raises:
            ValueError: A length or a shape is wrong.
        """
        heard = self.latents(samples, lengths, source, target, tau, noise)
        mask = mask_of(heard.frames, heard.latents.shape[2], heard.latents)
        return self.network.dec(heard.latents, mask, heard.condition).float()

    def latents(
        self, samples: Tensor, lengths: Tensor, source: Tensor, target: Tensor, tau: float, noise: Noise
    ) -> Latents:
        """Returns the converted speech before it becomes sound, the cheap tenth of the work. As `convert`."""
        frames, counts = self._frames(samples, lengths)
        old, new = self._voice("source", source, len(frames)), self._voice("target", target, len(frames))
        frames = frames.to(old.dtype)
        mask = mask_of(counts, frames.shape[2], frames)
        stats = self.network.enc_q(frames, mask, self._told(old))
        heard = masked(_draw(stats, noise.draw(stats.shape[1] // 2, stats.shape[2]), tau), mask)
        turned = self.network.flow.inverse(self.network.flow(heard, mask, old), mask, new)
        return Latents(masked(turned, mask), counts, self._told(new))

    def stream(self, lengths: Tensor, source: Tensor, target: Tensor, tau: float, noise: Noise) -> Conversion:
        """Returns the conversion of sentences that are still being spoken: together it gives what `convert` gives.

        It lags behind what it is fed by the reach of all networks, 111 frames of the published sizes (1.3 s).

        Args:
            lengths: int64 (B,): samples of each row, more than 384.
            source: As in `convert`, and so are the others.
            target: Tone colour of the identity.
            tau: How much the frames vary.
            noise: Of as many rows.
        """
        network, rows = self.network, len(lengths)
        old, new = self._voice("source", source, rows), self._voice("target", target, rows)
        told_old, told_new = self._told(old), self._told(new)
        strand = noise.open(network.dec.conv_pre.in_channels)
        listening = network.enc_q.enc.reach
        flowing = sum(coupling.enc.reach for coupling in network.flow.flows.values())

        def hear(near: Tensor, mask: Tensor | None, begin: int, end: int) -> Tensor:
            stats = network.enc_q(near.to(old), mask, told_old)[:, :, begin:end]
            # Behind a row's end there is no noise either.
            return masked(_draw(stats, strand.take(end - begin), tau), None if mask is None else mask[:, :, begin:end])

        def leave(near: Tensor, mask: Tensor | None, begin: int, end: int) -> Tensor:
            return network.flow(near, mask, old)[:, :, begin:end]

        def enter(near: Tensor, mask: Tensor | None, begin: int, end: int) -> Tensor:
            return masked(network.flow.inverse(near, mask, new), mask)[:, :, begin:end]

        def sound(near: Tensor, mask: Tensor | None, begin: int, end: int) -> Tensor:
            return network.dec(near, mask, told_new, begin, end)

        counts = lengths.cpu() // self.hop_samples
        reaches = ((hear, listening, listening), (leave, flowing, flowing), (enter, flowing, flowing))
        stages = [Window(run, counts, *reach) for run, *reach in (*reaches, (sound, *network.dec.reach))]
        return Conversion(self._device, Pictures(self._spectrogram, lengths), stages)

    def _frames(self, samples: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        if lengths is None:
            lengths = torch.full((samples.shape[0],), samples.shape[1])
        frames = self._spectrogram.of(samples.to(self._device, torch.float32), lengths)
        return frames, lengths.cpu() // self.hop_samples

    def _voice(self, name: str, voice: Tensor, rows: int) -> Tensor:
        if voice.shape not in {(1, self.width), (rows, self.width)}:
            raise ValueError(f"{name}: shape {tuple(voice.shape)}; send (1 or {rows}, {self.width})")
        return voice.to(self.network.dec.conv_pre.weight)[:, :, None].expand(rows, -1, -1)

    def _told(self, voice: Tensor) -> Tensor:
        """What listener and vocoder are told of a voice: V2's were trained on zeros, so that only the flow knows it."""
        return torch.zeros_like(voice) if self._blind else voice


def load_converter(folder: Path, device: str, dtype: torch.dtype) -> Converter:
    """Returns the converter in an official folder, V1's or V2's `converter`.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The configuration or the checkpoint is not that of a converter; the message says why.
    """
    config = read_config(folder)
    with torch.device("meta"):
        network = Network(read_sizes(config), _spectrogram(config).bins)
    load(network, folder, ())
    network.to(device)
    for part in (network.enc_q, network.flow, network.dec):
        part.to(dtype)
    return Converter(network, config)


def _spectrogram(config: dict[str, Any]) -> Spectrogram:
    size, window = setting(config, "data", "filter_length"), setting(config, "data", "win_length")
    if size != window:
        raise ValueError(f"config.json: data.win_length is {window}; it must be data.filter_length, {size}")
    return Spectrogram(size, setting(config, "data", "hop_length"))


def _draw(stats: Tensor, noise: Tensor, tau: float) -> Tensor:
    mean, spread = stats.chunk(2, dim=1)
    return mean + noise.to(mean) * tau * torch.exp(spread)
