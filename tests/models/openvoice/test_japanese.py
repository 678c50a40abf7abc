# ruff: noqa: RUF001 - Japanese signs are meant
"""What only Japanese has; what is the same in every language of MeloTTS stands in test_languages."""

import pytest

from services.tts.openvoice.text import japanese
from services.tts.openvoice.text.japanese import Japanese
from services.tts.openvoice.text.word_pieces import PADDING, Phones
from tests.models.openvoice.words import MODELS


@pytest.fixture(scope="module")
def reader() -> Japanese:
    return japanese.create(MODELS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("うーん、すごーい。わあ〜", ["ウウンスゴオイ", "ワアア"]),
        ("時々、佐々木さんは生々しい。", ["トキドキササキサンハナマナマシイ"]),
        ("三ヵ月", ["サンカゲツ"]),
        ("ＡＩとNHKとiPhone", ["エイアイトエヌエイチケイト"]),
        ("今、日本で春、夏。", ["イマニッポンデハルナツ"]),
        ("番号は1234567890123456", ["バンゴウハイチニサンシゴロクシチハチキュウレイイチニサンシゴロク"]),
    ],
)
def test_japanese_says_what_upstream_loses_or_misreads(text: str, wanted: list[str], reader: Japanese) -> None:
    assert [reader.read(sentence.text, list, reader.needs)[0] for sentence in reader.cut(text)] == wanted


def test_what_bert_does_not_know_is_a_pause_in_japanese(reader: Japanese) -> None:
    _, phones = reader.read("はい", lambda _: ["ハ", "[UNK]", "イ"], {*reader.needs, PADDING})
    assert phones == Phones(("_", "h", "a", "_", "i", "_"), (6,) * 6, (1, 2, 1, 1, 1))
