"""The real embedding that turns are found by."""

from pathlib import Path

import pytest

from services.common.weights import digest_of
from services.memory.embedding import SentenceEmbedder

MODELS_DIR = Path(".models")


def test_what_means_the_same_is_nearer_than_what_uses_the_same_words() -> None:
    embedder = SentenceEmbedder(MODELS_DIR)
    mine, near, far = embedder.embed(
        ["My dog died last week.", "I lost my puppy some days ago.", "The last week of the sale is on."]
    )
    assert mine @ near > mine @ far + 0.2


def test_the_digest_is_that_of_model_and_tokenizer() -> None:
    files = MODELS_DIR / "minilm" / "model.onnx", MODELS_DIR / "minilm" / "tokenizer.json"
    assert SentenceEmbedder(MODELS_DIR).digest == digest_of(*files)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"minilm/model\.onnx is missing; `make models`"):
        SentenceEmbedder(tmp_path)
