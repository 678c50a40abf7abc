# ruff: noqa: RUF001 - phonetic symbols are not the letters that they look like
"""Writes the official folders as they unpack, tiny and with made-up weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from services.tts.openvoice import shapes
from services.tts.openvoice.lips import ARPABET
from tests.models.openvoice import tiny
from tests.models.openvoice.words import MODELS, kana, letters, tokenizer, write_bert

ACCENTS = ("EN-US", "EN_INDIA", "EN-Default")
MARKS = ("!", "?", "…", ",", ".", "'", "-", "¿", "¡", "SP", "UNK")
MELO_SYMBOLS = ("_", *ARPABET, *MARKS)
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
    write_bert(root / "bert-base-uncased", tokenizer(VOCABULARY))
    for name in ("en-us", "en-india", "en-default"):
        path = root / "checkpoints_v2" / "base_speakers" / "ses" / f"{name}.pth"
        _write_colour(path, config["model"]["gin_channels"])
    return root


LANGUAGES = {
    "es": ("MeloTTS-Spanish", "ES", "bert-base-spanish-wwm-uncased", [*shapes.SPANISH, "ˈ", "ˌ", "ː"]),
    "fr": ("MeloTTS-French", "FR", "bert-base-french-europeana-cased", [*shapes.FRENCH, "ˈ", "ˌ", "ː", "\u0303"]),
    "ja": ("MeloTTS-Japanese", "JP", "bert-base-japanese-v3", [*shapes.JAPANESE, "q"]),
    "ko": ("MeloTTS-Korean", "KR", "bert-kor-base", [*shapes.JAMO, "ᄋ"]),
    "zh": ("MeloTTS-Chinese", "ZH", "bert-base-multilingual-uncased", [*{**ARPABET, **shapes.PINYIN}]),
}
"""By code: the folder of MeloTTS, its only speaker, the folder of its BERT, its sounds."""


def write_language(root: Path, language: str, texts: Sequence[str]) -> dict[str, str]:
    """Writes MeloTTS in another language, what it needs and a converter; returns the environment that chooses it.

    Args:
        root: Where to.
        language: One of `LANGUAGES`.
        texts: Whose letters its BERT knows.
    """
    folder, speaker, bert, sounds = LANGUAGES[language]
    config = tiny.melo_config(symbols=("_", *sounds, *MARKS), speakers=(speaker,))
    tiny.write_melo(root / folder, config)
    tiny.write_converter(root / "checkpoints_v2" / "converter", tiny.converter_config("v2"))
    _write_colour(root / f"checkpoints_v2/base_speakers/ses/{speaker.lower()}.pth", config["model"]["gin_channels"])
    words = kana(root / bert) if language == "ja" else letters(texts, is_lower=bert.endswith("uncased"))
    write_bert(root / bert, words)
    return settings(root, BASE_SPEAKER="melo", MELO=folder)


def settings(root: Path, **others: str) -> dict[str, str]:
    """Returns the environment of a back-end that loads these folders."""
    chosen = {"WEIGHTS": str(root), "MODELS_DIR": str(MODELS), "DEVICE": "cpu", **others}
    return {f"E3RG_TTS_{name}": value for name, value in chosen.items()}


def _write_colour(path: Path, width: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(tiny.numbers(path.name, 1, width, 1)), path)
