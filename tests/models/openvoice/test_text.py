# ruff: noqa: RUF001 - phonetic symbols are not the letters that they look like
"""Text becomes the symbols that upstream makes of it, and BERT's features go where upstream puts them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from services.tts.openvoice import lips
from services.tts.openvoice.text import melo, numbers, openvoice
from services.tts.openvoice.text.bert import WordFeatures
from services.tts.openvoice.text.lexicon import Lexicon
from services.tts.openvoice.text.openvoice import Pronouncer
from tests.models.openvoice import words
from tests.models.openvoice.words import MODELS

GOLDEN: dict[str, Any] = json.loads((Path(__file__).with_name("golden") / "text.json").read_text("utf-8"))
SENTENCES = {row["text"]: row for row in GOLDEN["sentences"]}


@pytest.fixture(scope="module")
def pronouncer() -> Pronouncer:
    return Pronouncer()


@pytest.fixture(scope="module")
def lexicon(pronouncer: Pronouncer) -> Lexicon:
    return Lexicon(MODELS / "english", pronouncer)


@pytest.mark.parametrize("text", SENTENCES)
def test_v1_reads_what_upstream_reads(text: str, pronouncer: Pronouncer) -> None:
    known = set("_,.!?-~…NQabdefghijklmnopstuvwxyzɑæʃʑçɯɪɔɛɹðəɫɥɸʊɾʒθβŋɦ⁼ʰ`^#*=ˈˌ→↓↑ ")
    pieces = openvoice.pieces(text)
    assert pieces == SENTENCES[text]["openvoice"]["pieces"]
    said = ["".join(s for s in openvoice.symbols(piece, pronouncer) if s in known) for piece in pieces]
    assert said == SENTENCES[text]["openvoice"]["said"]


@pytest.mark.parametrize("text", SENTENCES)
def test_melo_reads_what_upstream_reads(text: str, lexicon: Lexicon) -> None:
    wanted = SENTENCES[text]["melo"]
    assert melo.normal(text) == wanted["normal"]
    read = melo.phones(wanted["word_pieces"], frozenset(GOLDEN["melo_symbols"]), lexicon)
    assert [list(read.symbols), list(read.tones), list(read.counts)] == [
        wanted["phones"],
        wanted["tones"],
        wanted["counts"],
    ]


def test_a_word_that_no_dictionary_has_is_spelled_out_by_the_network(lexicon: Lexicon) -> None:
    assert " ".join(lexicon.phonemes("zyxoprane")) == "Z IH1 K S P R EY2 N"  # as g2p_en spells it
    assert lexicon.phonemes("?") == ("?",)
    assert lexicon.phonemes("…") == ()


def test_a_sign_that_bert_does_not_know_is_passed_over(lexicon: Lexicon) -> None:
    read = melo.phones(["[UNK]", "no"], frozenset(GOLDEN["melo_symbols"]), lexicon)
    assert (read.symbols, read.counts) == (("_", "n", "ow", "_"), (1, 0, 2, 1))


@pytest.mark.parametrize(
    ("text", "v1", "of_melo"),
    [
        ("$4,250.75", "four thousand, two hundred fifty dollars, seventy-five cents", None),
        ("£3", "three pounds", "three pounds sterling"),
        ("¥100", "¥one hundred", "one hundred yen"),
        ("1984 2005 1900 2000", "nineteen eighty-four two thousand five nineteen hundred two thousand", None),
        ("3.14", "three point fourteen", "three point fourteen"),
        ("-5", "-five", "minus five"),
        ("the 21st", "the twenty-first", "the twenty-first"),
        ("9" * 40, "nine " * 39 + "nine", "nine " * 39 + "nine"),
    ],
)
def test_numbers_are_spelled_out(text: str, v1: str, of_melo: str | None) -> None:
    assert numbers.openvoice(text) == v1
    assert of_melo is None or numbers.melo(text) == of_melo


def test_a_number_is_not_cut_at_its_comma_or_point(pronouncer: Pronouncer) -> None:
    (piece,) = openvoice.pieces("It costs $4,250.75 a year.")
    assert piece == "It costs $4,250.75 a year."
    assert "θ" in openvoice.symbols(piece, pronouncer)  # thousand


def test_signs_of_money_are_not_lost(pronouncer: Pronouncer) -> None:
    said = [openvoice.symbols(text, pronouncer) for text in ("£1,250", "€20", "¥5", "20 euros")]
    assert said[0] == openvoice.symbols("1,250 pounds", pronouncer)
    assert said[1] == said[3]
    assert said[2] == openvoice.symbols("5 yen", pronouncer)
    assert melo.normal("€20 and £3") == "twenty euros and three pounds sterling"


def test_word_features_are_those_of_the_third_layer_from_the_end(tmp_path: Path) -> None:
    texts = ["hello there, how are you?", "good."]
    folder = words.write_bert(tmp_path / "bert-base-uncased", words.tokenizer(texts))
    ours = WordFeatures(folder, "cpu", torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    counts = [[3, 4, 0, 2, 5, 1, 7, 2, 2][: len(tokenizer(text)["input_ids"])] for text in texts]
    found = ours.of(texts, counts, 30)
    assert found.shape == (2, 768, 30)
    for row, (text, repeats) in enumerate(zip(texts, counts, strict=True)):
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[-3][0]
        wanted = torch.cat([state[None].expand(times, -1) for state, times in zip(hidden, repeats, strict=True)])
        assert torch.allclose(found[row, :, : len(wanted)].T, wanted, atol=1e-5)
        assert not found[row, :, len(wanted) :].any()


def test_sounds_last_to_the_end_and_short_gaps_belong_to_their_neighbours() -> None:
    symbols = ["_", "h", "_", "a", "_", "ɪ", "_", " ", "_", "ˈ", "_", "ð", "_", ".", "_"]
    ends = [100 * (place + 1) for place in range(len(symbols))]
    sounds = lips.timeline(symbols, ends, lips.IPA, rest=1000)
    assert [(sound.symbol, sound.viseme, sound.end) for sound in sounds] == [
        ("_", "sil", 100),
        ("h", "kk", 250),
        ("a", "aa", 450),
        ("ɪ", "I", 850),
        ("ð", "TH", 1200),
        ("_", "sil", 1500),
    ]
    assert [sound.symbol for sound in lips.timeline(symbols, ends, lips.IPA, rest=300)].count("_") == 3
    moved = lips.timeline(["ay"], [1000], lips.ARPABET, rest=300)
    assert [(sound.viseme, sound.end) for sound in moved] == [("aa", 600), ("I", 1000)]


def test_a_file_of_bert_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        WordFeatures(tmp_path, "cpu", torch.float32)
