"""The inputs of the comparison with upstream, which the golden arrays answer: two rows, the second shorter."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from services.tts.openvoice.converter import Converter
from services.tts.openvoice.melo import BERT_WIDTH, JA_BERT_WIDTH, Melo, load_melo
from services.tts.openvoice.noise import Gaussian, Noise, Strand
from services.tts.openvoice.spoken import Latents, Spoken
from services.tts.openvoice.synthesizer import BaseSpeaker, load_base_speaker
from tests.models.openvoice.tiny import numbers

ALLOWED = 1e-4
"""The largest error."""
FULL = torch.float32
SAMPLES = torch.tensor([5300, 3000])
"""Of the recordings."""
LENGTHS = torch.tensor([9, 6])
"""Symbols of the sentences."""
SPEAKERS = torch.tensor([1, 0])
TAU = 0.3
SCALES = {"noise_scale": 0.667, "noise_scale_w": 0.6, "length_scale": 0.7, "sdp_ratio": 0.2}
ROWS = ("first", "second")
"""Names of the rows' noise."""


def load_speaker(folders: Mapping[str, Path], name: str, dtype: torch.dtype) -> BaseSpeaker | Melo:
    """Loads "base_speaker" or "melo"."""
    load: Callable[..., BaseSpeaker | Melo] = load_melo if name == "melo" else load_base_speaker
    return load(folders[name], "cpu", dtype)


def noise(*seeds: int) -> Gaussian:
    """Returns noise of as many rows as seeds."""
    return Gaussian([torch.Generator().manual_seed(seed) for seed in seeds])


def apart(one: Tensor, other: Tensor) -> float:
    """Returns the largest difference of two tensors of the same shape."""
    assert one.shape == other.shape
    return float((one - other).abs().max())


class Given:
    """Noise that follows from names, one per row, and from how often was drawn."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._drawn = 0

    def draw(self, channels: int, length: int) -> Tensor:
        """Returns float32 (B, channels, length); the first frames do not depend on `length`."""
        self._drawn += 1
        return torch.stack(
            [torch.from_numpy(numbers(f"{row} {self._drawn}", length, channels)).T for row in self._rows]
        )

    def open(self, channels: int) -> Strand:
        """Returns the noise of the only row, piece after piece."""
        return _Pieces(self.draw(channels, 1000))


class _Pieces:
    def __init__(self, noise: Tensor) -> None:
        self._noise = noise

    def take(self, length: int) -> Tensor:
        now, self._noise = self._noise[:, :, :length], self._noise[:, :, length:]
        return now


def recording() -> Tensor:
    """Returns the recordings, float32 (2, n); behind the end of the shorter is noise that must not be heard."""
    return torch.from_numpy(numbers("recording", 2, int(SAMPLES.max()))) * 0.2


def long_recording() -> Tensor:
    """Returns a recording, float32 (1, n), in which frames in the middle hear neither its beginning nor its end."""
    return torch.from_numpy(numbers("long recording", 1, 61_500)) * 0.2


def tones(converter: Converter) -> tuple[Tensor, Tensor]:
    """Returns two tone colours, float32 (1, width)."""
    source, target = (torch.from_numpy(numbers(name, 1, converter.width)) for name in ("source", "target"))
    return source, target


def symbols(count: int) -> Tensor:
    """Returns the sentences, int64 (2, T), of `count` symbols."""
    return torch.from_numpy(numbers("symbols", 2, int(LENGTHS.max()))).mul(1000).long().remainder(count)


def features() -> tuple[Tensor, Tensor]:
    """Returns features of the words, float32 (2, 1024, T) and (2, 768, T)."""
    bert, ja_bert = (
        torch.from_numpy(numbers("words", 2, width, int(LENGTHS.max()))) for width in (BERT_WIDTH, JA_BERT_WIDTH)
    )
    return bert, ja_bert


def one_of(spoken: Spoken, row: int) -> Spoken:
    """Returns one row of a batch, without what was padded."""
    rows, length = slice(row, row + 1), int(spoken.frames[row])
    durations = spoken.durations[rows, : int(spoken.durations[row].count_nonzero())]
    return Spoken(spoken.latents[rows, :, :length], spoken.frames[rows], spoken.condition[rows], durations)


def convert(converter: Converter, noise: Noise) -> Tensor:
    """Converts the recordings."""
    return converter.convert(recording(), SAMPLES, *tones(converter), TAU, noise)


def hear(converter: Converter, noise: Noise) -> Latents:
    """Converts the recordings up to the frames."""
    return converter.latents(recording(), SAMPLES, *tones(converter), TAU, noise)


def speak(speaker: BaseSpeaker | Melo, noise: Noise) -> Spoken:
    """Says the sentences up to the frames."""
    ids = symbols(len(speaker.symbols))
    if isinstance(speaker, BaseSpeaker):
        return speaker.infer(ids, LENGTHS, SPEAKERS, noise, **SCALES)
    bert, ja_bert = features()
    others = (ids % speaker.tones, ids % speaker.languages)
    return speaker.infer(ids, *others, LENGTHS, SPEAKERS, noise, bert=bert, ja_bert=ja_bert, **SCALES)
