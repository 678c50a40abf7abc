"""Tone colours: read from official files, and heard in recordings."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from perception.voice import FRAME_S, VoiceReader, resample
from services.tts.domain import VoiceReference
from services.tts.openvoice.converter import Converter
from services.tts.openvoice.manner import DEFAULT
from services.tts.speech.likeness import listen

Floats = NDArray[np.float32]

FITTING: Final = 1
"""Raised with every change of how a tone colour is heard or packed."""
MARGIN_S: Final = 0.1
"""Kept around what is heard, so that no soft consonant is cut off."""
PART_S: Final = 10.0
"""A longer recording is heard in parts of about this length, as upstream does: the listener remembers the end best."""


@dataclass(frozen=True, eq=False)
class Colour:
    """An identity's tone colour as one converter hears it.

    Attributes:
        version: Of the converter, "v1" or "v2".
        embedding: float32 (width,).
        level_dbfs: Loudness of the default style in this colour, before it is levelled.
    """

    version: str
    embedding: Floats
    level_dbfs: float


def of_styles(folder: Path, styles: Sequence[str]) -> dict[str, Path]:
    """Returns the official files of V1's speaker for V1's converter: one for the default, one for all styles."""
    return {style: folder / f"en_{'default' if style == DEFAULT else 'style'}_se.pth" for style in styles}


def of_accent(converter: Path, accent: str) -> Path:
    """Returns the official file of an accent of MeloTTS for V2's converter, beside whose folder it comes."""
    return converter.parent / "base_speakers" / "ses" / f"{accent.lower().replace('_', '-')}.pth"


def read_file(path: Path, width: int) -> Tensor:
    """Returns an official tone colour (`en_default_se.pth`) as float32 (1, width).

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It holds no tone colour.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; it belongs to the official checkpoints")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is no tensor of PyTorch: {error}") from error
    if not isinstance(content, Tensor) or content.numel() != width or not torch.isfinite(content).all():
        found = tuple(content.shape) if isinstance(content, Tensor) else type(content).__name__
        raise ValueError(f"{path} holds {found}; a tone colour is (1, {width}, 1)")
    return content.float().reshape(1, width)


def hear(references: Sequence[VoiceReference], converter: Converter, reader: VoiceReader) -> Tensor:
    """Returns the tone colour of recordings of one person, float32 (1, width): a mean, weighted by their speech.

    Raises:
        InvalidRequest: One of them is too short, silent or not speech.
    """
    parts = [part for reference in references for part in _parts(speech(reference, reader), reference.sample_rate_hz)]
    rate_hz = converter.sample_rate_hz
    sounds = [torch.from_numpy(resample(samples, from_hz, rate_hz)) for samples, from_hz in parts]
    total = sum(len(sound) for sound in sounds)
    colours = [converter.embed(sound[None]).cpu() * (len(sound) / total) for sound in sounds]
    return torch.stack(colours).sum(dim=0)


def speech(reference: VoiceReference, reader: VoiceReader) -> Floats:
    """Returns a recording without its silence, float32 (n,).

    Raises:
        InvalidRequest: It is too short, silent or not speech.
    """
    listen(reference, reader)
    track = reader.track(reference.samples, reference.sample_rate_hz)
    margin = round(MARGIN_S / FRAME_S)
    heard = np.convolve(track.active, np.ones(2 * margin + 1), mode="same") > 0.5
    places = np.arange(len(reference.samples)) / reference.sample_rate_hz / FRAME_S
    return reference.samples[heard[np.minimum(places.astype(np.int64), len(heard) - 1)]]


def pack(colour: Colour) -> bytes:
    """Returns a tone colour as JSON."""
    content = {"version": colour.version, "level_dbfs": colour.level_dbfs, "embedding": colour.embedding.tolist()}
    return json.dumps(content).encode()


def unpack(content: bytes, version: str, width: int) -> Colour:
    """Returns a tone colour of a converter.

    Raises:
        ValueError: These are no bytes of `pack`, or another converter's.
    """
    try:
        found = json.loads(content)
        embedding = np.asarray(found["embedding"], np.float32)
        colour = Colour(str(found["version"]), embedding, float(found["level_dbfs"]))
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"no packed tone colour: {error!r}") from error
    if embedding.shape != (width,) or not np.isfinite([*embedding, colour.level_dbfs]).all():
        raise ValueError(f"a tone colour of shape {embedding.shape}; this converter's have ({width},) finite numbers")
    if colour.version != version:
        raise ValueError(f"a tone colour of converter {colour.version!r}; this one is {version!r}")
    return colour


def _parts(samples: Floats, rate_hz: int) -> list[tuple[Floats, int]]:
    count = max(1, round(len(samples) / rate_hz / PART_S))
    return [(part, rate_hz) for part in np.array_split(samples, count)]
