"""A tiny tokenizer of the kind that GPT-2, Llama 3 and Qwen have."""

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers


def byte_pairs(texts: Iterable[str], special: Sequence[str], size: int) -> Tokenizer:
    """Trains a byte-level BPE of `size` pieces on `texts`; `special` comes last, as theirs does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in special])
    return tokenizer
