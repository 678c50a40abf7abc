"""MeloTTS: reads symbols with tones, helped by a language model's view of the words (after VITS2 and Bert-VITS2)."""

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

BERT_WIDTH = 1024
"""Of the features for Chinese."""
JA_BERT_WIDTH = 768
"""Of the features for Japanese, and for every other language since."""
FLOW_KERNEL = 5
AS_PUBLISHED = {
    "use_spk_conditioned_encoder": True,
    "use_transformer_flow": True,
    "flow_share_parameter": False,
    "use_vc": False,
    "n_flow_layer": 4,
}
"""Settings that would make another network, with the values of all published checkpoints, which are the defaults."""


class Reader(nn.Module):  # type: ignore[misc]
    """Reads symbols with their tones: what is said, and the mean and deviation of the frames that say it.

    Args:
        sizes: Of the checkpoint.
        symbols: How many there are.
        tones: Likewise.
        languages: Likewise.
    """

    def __init__(self, sizes: Sizes, symbols: int, tones: int, languages: int) -> None:
        super().__init__()
        self.scale = math.sqrt(sizes.hidden)
        self.emb = nn.Embedding(symbols, sizes.hidden)
        self.tone_emb = nn.Embedding(tones, sizes.hidden)
        self.language_emb = nn.Embedding(languages, sizes.hidden)
        self.bert_proj = nn.Conv1d(BERT_WIDTH, sizes.hidden, 1)
        self.ja_bert_proj = nn.Conv1d(JA_BERT_WIDTH, sizes.hidden, 1)
        self.encoder = Transformer(sizes.hidden, sizes.wide, sizes.heads, sizes.layers, sizes.kernel, sizes.condition)
        self.proj = nn.Conv1d(sizes.hidden, 2 * sizes.latent, 1)

    def forward(
        self,
        symbols: Tensor,
        tones: Tensor,
        languages: Tensor,
        bert: Tensor | None,
        ja_bert: Tensor | None,
        mask: Tensor | None,
        voice: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns hidden (B, hidden, T), mean and log deviation (B, latent, T)."""
        read = (self.emb(symbols) + self.tone_emb(tones) + self.language_emb(languages)).transpose(1, 2)
        read = read + _view(self.bert_proj, bert) + _view(self.ja_bert_proj, ja_bert)
        hidden = self.encoder(read * self.scale, mask, voice)
        mean, spread = masked(self.proj(hidden), mask).chunk(2, dim=1)
        return hidden, mean, spread


class Melo(Synthesis):
    """The speaker. Its parameters have the checkpoint's names.

    Args:
        config: Of the official folder.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        sizes = read_sizes(config)
        model = setting(config, "model")
        for name, published in AS_PUBLISHED.items():
            if model.get(name, published) != published:
                raise ValueError(f"config.json: model.{name} is {model[name]!r}; the published models have {published}")
        self.tones, self.languages = int(setting(config, "num_tones")), int(setting(config, "num_languages"))
        super().__init__(
            config,
            sizes,
            Reader(sizes, len(setting(config, "symbols")), self.tones, self.languages),
            Flow(
                sizes.latent,
                sizes.hidden,
                lambda: Transformer(
                    sizes.hidden, sizes.wide, sizes.heads, sizes.flow_layers, FLOW_KERNEL, sizes.condition
                ),
            ),
            setting(config, "data", "spk2id"),
        )

    def infer(
        self,
        symbols: Tensor,
        tones: Tensor,
        languages: Tensor,
        lengths: Tensor,
        speakers: Tensor,
        noise: Noise,
        *,
        bert: Tensor | None,
        ja_bert: Tensor | None,
        noise_scale: float,
        noise_scale_w: float,
        length_scale: float,
        sdp_ratio: float,
    ) -> Spoken:
        """Reads symbols aloud, up to the frames.

        Args:
            symbols: int64 (B, T): ids.
            tones: int64 (B, T): ids, counted on from language to language.
            languages: int64 (B, T): ids.
            lengths: int64 (B,): symbols of each row.
            speakers: int64 (B,): ids; or float (B, condition): rows of `emb_g.weight`, or between such rows.
            noise: Of as many rows.
            bert: Features of the words, (B, 1024, T), for Chinese; None for zeros.
            ja_bert: Features of the words, (B, 768, T), for other languages; None for zeros.
            noise_scale: Variation of the sound; upstream speaks with 0.6.
            noise_scale_w: Variation of the drawn durations; upstream: 0.8.
            length_scale: 1 over the pace.
            sdp_ratio: Share of drawn durations, 0 to 1; upstream: 0.2.

        Raises:
            ValueError: An id, a length or a shape is wrong.
        """
        lengths = check_lengths("symbols", lengths, symbols.shape[0], symbols.shape[1], 1)
        mask = mask_of(lengths, symbols.shape[1], self.emb_g.weight)
        voice = self.voice(speakers)
        text = self.enc_p(
            self.ids("symbols", symbols, len(self.symbols)),
            self.ids("tones", tones, self.tones),
            self.ids("languages", languages, self.languages),
            self._features("bert", bert, (symbols.shape[0], BERT_WIDTH, symbols.shape[1])),
            self._features("ja_bert", ja_bert, (symbols.shape[0], JA_BERT_WIDTH, symbols.shape[1])),
            mask,
            voice,
        )
        return self.say(text, mask, voice, noise, noise_scale, noise_scale_w, length_scale, sdp_ratio)

    def _features(self, name: str, features: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
        if features is None:
            return None
        if features.shape != shape:
            raise ValueError(f"{name}: shape {tuple(features.shape)}; send {shape}")
        return features.to(self.emb_g.weight)


def load_melo(folder: Path, device: str, dtype: torch.dtype) -> Melo:
    """Returns the speaker in a folder with the `config.json` and `checkpoint.pth` of one language.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The configuration or the checkpoint is not that of MeloTTS; the message says why.
    """
    with torch.device("meta"):
        speaker = Melo(read_config(folder))
    load(speaker, folder, TRAINING_ONLY)
    speaker.to(device=device, dtype=dtype)
    return speaker


def _view(layer: nn.Conv1d, features: Tensor | None) -> Tensor:
    """What a layer makes of features; of zeros, its bias."""
    return layer.bias[:, None] if features is None else layer(features)
