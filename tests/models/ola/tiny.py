"""A tiny Ola with random weights: a tokenizer of the class that it has, and its files laid out as published."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Tokenizer
from transformers.models.qwen2.tokenization_qwen2 import bytes_to_unicode

from services.mllm.backends.ola import MEL_BANDS, Settings
from services.mllm.ola.checkout import open_checkout

STANDIN = Path(__file__).with_name("standin")
WIDTH = 32


def write_tokenizer(folder: Path) -> int:
    """Writes a tokenizer of single bytes, with ChatML's marks, to `folder`; returns how many tokens it knows."""
    letters = {letter: place for place, letter in enumerate(bytes_to_unicode().values())}
    (folder / "vocab.json").write_text(json.dumps(letters), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    tokenizer = Qwen2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def write(place: Path, **other: Any) -> Settings:
    """Writes a model for the code that stands in for Ola's; `other` goes into its configuration."""
    weights = place / "Ola-7b"
    weights.mkdir()
    settings = Settings(
        checkout=STANDIN,
        weights=weights,
        speech_encoder=place / "large-v3.pt",
        music_encoder=place / "BEATs.pt",
        device="cpu",
    )
    torch.manual_seed(3)
    torch.save(torch.nn.Linear(MEL_BANDS, WIDTH).state_dict(), settings.speech_encoder)
    torch.save(torch.nn.Linear(1, WIDTH).state_dict(), settings.music_encoder)
    code = open_checkout(STANDIN)
    config = code.config(
        vocab_size=write_tokenizer(weights) + 10,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        tie_word_embeddings=False,
        speech_encoder=str(settings.speech_encoder),
        music_encoder=str(settings.music_encoder),
        **other,
    )
    code.model(config).save_pretrained(weights)
    relocate(weights)
    return settings


def relocate(weights: Path) -> None:
    """Names the encoders' places in a model's configuration as published: by where a script is started."""
    file = weights / "config.json"
    saved = json.loads(file.read_text())
    saved.update(speech_encoder="./large-v3.pt", music_encoder="./BEATs.pt")
    file.write_text(json.dumps(saved))
