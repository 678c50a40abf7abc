"""Writes the official folders as they unpack, tiny and with made-up weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tests.models.openvoice import tiny
from tests.models.openvoice.words import MODELS, write_bert

ACCENTS = ("EN-US", "EN_INDIA", "EN-Default")
PHONES = "aa ae ah ao aw ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw V w y z zh"
MELO_SYMBOLS = ("_", *PHONES.split(), "!", "?", "…", ",", ".", "'", "-", "SP", "UNK")
VOCABULARY = (
    "the boy was there when the sun rose. a rod is used to catch pink salmon. hello. how are you? first boat left "
    "harbour at nine. second one waited for mail. then it left as well. good. weather stays warm by river. it is late. "
    "lamp is on. sit down. good evening. seven thirty p m, yes! three hundred and fifty",
)


def write_openvoice(root: Path, sizes: Mapping[str, Any] = tiny.TINY) -> Path:
    """Writes V1's speaker and both converters below `root`; returns it."""
    tiny.write_converter(root / "checkpoints" / "converter", tiny.converter_config("v1", sizes))
    tiny.write_converter(root / "checkpoints_v2" / "converter", tiny.converter_config("v2", sizes))
    speaker = root / "checkpoints" / "base_speakers" / "EN"
    tiny.write_base_speaker(speaker, tiny.base_speaker_config(sizes))
    for name in ("default", "style"):
        _write_colour(speaker / f"en_{name}_se.pth", sizes["gin_channels"])
    return root


def write_melo(root: Path) -> Path:
    """Writes MeloTTS, its BERT and the official colours of its accents beside them; returns `root`."""
    config = tiny.melo_config(symbols=MELO_SYMBOLS, speakers=ACCENTS)
    tiny.write_melo(root / "MeloTTS-English", config)
    write_bert(root / "bert-base-uncased", VOCABULARY)
    for name in ("en-us", "en-india", "en-default"):
        path = root / "checkpoints_v2" / "base_speakers" / "ses" / f"{name}.pth"
        _write_colour(path, config["model"]["gin_channels"])
    return root


def settings(root: Path, **others: str) -> dict[str, str]:
    """Returns the environment of a back-end that loads these folders."""
    chosen = {"WEIGHTS": str(root), "MODELS_DIR": str(MODELS), "DEVICE": "cpu", **others}
    return {f"E3RG_TTS_{name}": value for name, value in chosen.items()}


def _write_colour(path: Path, width: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(tiny.numbers(path.name, 1, width, 1)), path)
