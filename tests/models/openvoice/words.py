"""A BERT with the words of `bert-base-uncased` and made-up weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

MODELS = Path(__file__).parents[3] / ".models"
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tokenizer(texts: Sequence[str] = ()) -> Any:
    """Returns BERT's tokenizer; with `texts` one that knows no more words than these need."""
    # MiniLM was trained with the words of bert-base-uncased.
    words: dict[str, int] = json.loads((MODELS / "minilm" / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    whole = BertTokenizerFast(vocab=words)
    if not texts:
        return whole
    kept = dict.fromkeys([*MARKS, *(piece for text in texts for piece in whole.tokenize(text))])
    return BertTokenizerFast(vocab={word: place for place, word in enumerate(kept)})


def write_bert(folder: Path, texts: Sequence[str], layers: int = 4) -> Path:
    """Writes a folder as transformers saves it, whose BERT knows the words of `texts`; returns it."""
    words = tokenizer(texts)
    words.save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words), hidden_size=768, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=32
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder
