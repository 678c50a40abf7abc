"""BERTs with made-up weights: with the words of `bert-base-uncased`, with letters, with kana."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, BertJapaneseTokenizer, BertTokenizerFast

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


def kana(folder: Path, pieces: Sequence[str] = ()) -> Any:
    """Returns the tokenizer of `bert-base-japanese-v3`: UniDic's words, cut into kana and the given pieces.

    Args:
        folder: Where its words are written to, for it reads them from a file.
        pieces: Of words; those that go on begin with "##".
    """
    signs = [chr(code) for code in range(ord("ァ"), ord("ー") + 1)]
    path = folder / "vocab.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(dict.fromkeys([*MARKS, *signs, *(f"##{sign}" for sign in signs), *pieces])), "utf-8")
    return BertJapaneseTokenizer(
        str(path), do_lower_case=False, word_tokenizer_type="mecab", mecab_kwargs={"mecab_dic": "unidic_lite"}
    )


def write_bert(folder: Path, words: Any, layers: int = 4) -> Path:
    """Writes a folder as transformers saves it, whose BERT knows the words of a tokenizer; returns it."""
    words.save_pretrained(folder)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(words), hidden_size=768, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=32
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder
