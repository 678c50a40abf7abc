from pathlib import Path

import numpy as np
import pytest

from perception.text import DIMENSIONS, SentenceReader

MODELS_DIR = Path(".models")
DOG = "My dog died yesterday."
PET = "We had to bury our puppy last night."
SHOP = "What time does the shop close?"


@pytest.fixture(scope="module")
def reader() -> SentenceReader:
    return SentenceReader(MODELS_DIR)


def test_gives_one_unit_row_per_text(reader: SentenceReader) -> None:
    rows = reader.embed([DOG, SHOP, "Yes."])
    assert rows.shape == (3, DIMENSIONS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(reader: SentenceReader) -> None:
    assert reader.embed([]).shape == (0, DIMENSIONS)


def test_texts_that_mean_alike_lie_nearer_than_others(reader: SentenceReader) -> None:
    dog, pet, shop = reader.embed([DOG, PET, SHOP])
    assert dog @ pet > dog @ shop + 0.2


def test_a_row_does_not_depend_on_its_company(reader: SentenceReader) -> None:
    # The long text makes the others be padded.
    together = reader.embed([DOG, "and so on " * 60, SHOP])
    np.testing.assert_allclose(together[[0, 2]], np.concatenate([reader.embed([DOG]), reader.embed([SHOP])]), atol=1e-4)


def test_rows_come_in_the_order_of_the_texts_over_many_batches(reader: SentenceReader) -> None:
    texts = [f"{'very ' * (index % 7)}number {index}" for index in range(40)]
    rows = reader.embed(texts)
    for index in (0, 17, 39):
        np.testing.assert_allclose(rows[index], reader.embed([texts[index]])[0], atol=1e-4)


def test_reads_no_further_than_the_model_was_trained_to(reader: SentenceReader) -> None:
    start = "one " * 300
    first, second = reader.embed([start, start + "and then a dragon ate the moon"])
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_an_empty_text_has_a_finite_row(reader: SentenceReader) -> None:
    assert np.isfinite(reader.embed([""])).all()


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"minilm/model\.onnx.*make models"):
        SentenceReader(tmp_path)
