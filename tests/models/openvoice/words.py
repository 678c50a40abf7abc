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


def letters(texts: Sequence[str], is_lower: bool) -> Any:
    """Returns a tokenizer that cuts words into the letters of `texts`, in any language; accents stay."""
    found = dict.fromkeys(letter for text in texts for letter in (text.lower() if is_lower else text))
    kept = [*MARKS, *found, *(f"##{letter}" for letter in found)]
    vocabulary = {word: place for place, word in enumerate(kept)}
    return BertTokenizerFast(vocab=vocabulary, do_lower_case=is_lower, strip_accents=False)


def write_bert(folder: Path, words: Any, layers: int = 4) -> Path:
    """Writes a folder as transformers saves it, whose BERT knows the words of a tokenizer; returns it."""
    words.save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words), hidden_size=768, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=32
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder
