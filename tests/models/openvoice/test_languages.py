# ruff: noqa: RUF001 - signs and phonetic symbols of every script are meant
"""MeloTTS' other languages: texts become the symbols that upstream makes of them, and are spoken."""

import json
import sys
from pathlib import Path
from typing import Any

import grpc
import jieba
import numpy as np
import pytest

from e3rg.tts.v1 import tts_pb2 as pb
from e3rg.tts.v1 import tts_pb2_grpc
from services.common.errors import InvalidRequest
from services.tts.backends import openvoice
from services.tts.domain import VISEMES, Delivery, Profile, Voices
from services.tts.openvoice.speakers import language_of
from services.tts.openvoice.text import chinese, cutting
from services.tts.openvoice.text.languages import LANGUAGES, Reader, open_reader
from services.tts.openvoice.text.word_pieces import Phones
from tests.conformance.voice import CALM, asked, joined, recording
from tests.models.openvoice import layout, tiny
from tests.models.openvoice.words import MODELS, tokenizer
from tests.models.serving import service

GOLDEN = {
    code: json.loads((Path(__file__).with_name("golden") / f"{code}.json").read_text("utf-8"))
    for code in layout.LANGUAGES
}
KNOWN = frozenset(json.loads((Path(__file__).with_name("golden") / "text.json").read_text("utf-8"))["melo_symbols"])
"""The symbols that upstream has now."""
TEXTS = {
    "es": "¡Qué noticia! Cuesta 1.250 euros; el Sr. García nació en 1984. Hoy hace 5 °C.",
    "fr": "Quelle nouvelle ! L’œuf de M. Dupont coûte 12,5 €, n'est-ce pas ?",
    "ja": "おめでとう！すごーい、本当によく頑張りましたね。合格は12.5%、時々は1,250人だそうです。",
    "ko": "축하해요! 정말 잘했어요. 사과 3개와 AI 회사.",
    "zh": "太好了！恭喜你，这是你应得的。我们去shopping mall吧，打9.5折。",
}
TIMEOUT_S = 300
SILENT = set("_ˈˌː\u0303ᄋq…,.!?¿¡'-")
"""Symbols that the mouth does not move for."""


@pytest.fixture(scope="module")
def readers() -> dict[str, Any]:
    return {language.code: open_reader(language, MODELS) for language in LANGUAGES if language.code in GOLDEN}


def said(phones: Phones, first_tone: int) -> list[list[Any]]:
    """Upstream counts the tones of every language from 0."""
    return [list(phones.symbols), [tone - first_tone for tone in phones.tones], list(phones.counts)]


def wanted(row: dict[str, Any]) -> list[list[Any]]:
    return [row["phones"], row["tones"], row["counts"]]


@pytest.mark.parametrize(("code", "first_tone"), [("es", 12), ("fr", 13), ("ja", 6), ("ko", 11)])
def test_words_are_read_as_upstream_reads_them(code: str, first_tone: int, readers: dict[str, Any]) -> None:
    for row in GOLDEN[code]:
        text, phones = readers[code].read(row["text"], lambda _, pieces=row["pieces"]: pieces, KNOWN)
        assert text == row["normal"]
        assert said(phones, first_tone) == wanted(row), text


def test_chinese_is_read_as_upstream_reads_it_with_its_english_words(readers: dict[str, Any]) -> None:
    pieces = tokenizer().tokenize
    for row in GOLDEN["zh"]:
        text = chinese.normal(row["text"])
        assert text == row["normal"]
        assert said(readers["zh"].phones(text, pieces, KNOWN), 0) == wanted(row), text


@pytest.mark.parametrize("code", GOLDEN)
def test_every_sound_has_a_shape_of_the_mouth(code: str, readers: dict[str, Reader]) -> None:
    shapes = readers[code].shapes
    assert {symbol for row in GOLDEN[code] for symbol in row["phones"]} <= {*shapes, *SILENT}
    assert {viseme for each in shapes.values() for viseme in each} <= set(VISEMES)


@pytest.mark.parametrize("code", GOLDEN)
def test_a_checkpoint_of_the_language_speaks(
    code: str, tmp_path: Path, readers: dict[str, Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in layout.write_language(tmp_path, code, [TEXTS[code], readers[code].audition]).items():
        monkeypatch.setenv(name, value)
    backend = openvoice.create()
    assert backend.languages == (code,)
    assert backend.model == f"melotts-{layout.LANGUAGES[code][1].lower()}+converter-v2"
    voice = backend.prepare([recording("anna")], Profile("", "", "", code))
    stretches = list(backend.speak([TEXTS[code]], voice, CALM))
    assert stretches[-1].ends_text
    assert np.abs(joined(stretches)).max() > 0.01
    sounds = [sound for stretch in stretches for sound in stretch.phonemes]
    assert {sound.symbol for sound in sounds} <= {*readers[code].shapes, "_"}
    assert len({sound.symbol for sound in sounds}) > 12
    with pytest.raises(InvalidRequest, match=rf"header\.profile\.language: .*; .*{code}"):
        Voices(backend, 1).check(Profile("", "", "", "en"), Delivery("default", 0.0))
    with pytest.raises(InvalidRequest, match=r"nothing that can be said in (Spanish|French|Japanese|Korean|Chinese)"):
        list(backend.speak(["..."], voice, CALM))


def test_it_is_served_in_its_language(tmp_path: Path) -> None:
    chosen = layout.write_language(tmp_path, "zh", [TEXTS["zh"], chinese.Chinese.audition])
    environment = {name.removeprefix("E3RG_TTS_"): value for name, value in chosen.items()}
    with service("tts", {"BACKEND": "openvoice", **environment}, tmp_path / "log") as channel:
        stub = tts_pb2_grpc.TtsServiceStub(channel)
        assert list(stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT_S).languages) == ["zh"]
        header, *others = asked(TEXTS["zh"])
        with pytest.raises(grpc.RpcError, match=r"header\.profile\.language: 'en'; use one of: zh"):
            list(stub.Speak(iter([header, *others]), timeout=TIMEOUT_S))
        header.header.profile.language = "zh"
        parts = list(stub.Speak(iter([header, *others]), timeout=TIMEOUT_S))
        assert sum(len(part.chunk.samples) // 2 for part in parts) > 22_050
        assert [part.sentence_end.sentence for part in parts if part.HasField("sentence_end")] == [TEXTS["zh"]]


@pytest.mark.parametrize(
    ("code", "package", "modules"),
    [
        ("es", "num2words", ["spanish", "crf_words"]),
        ("fr", "pycrfsuite", ["french", "crf_words"]),
        ("fr", "gruut_lang_fr", []),
        ("ja", "pykakasi", ["japanese"]),
        ("ja", "fugashi", []),
        ("ja", "unidic_lite", []),
        ("ko", "jamo", ["korean"]),
        ("zh", "pypinyin", ["chinese", "tones"]),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    code: str, package: str, modules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in modules:
        monkeypatch.delitem(sys.modules, f"services.tts.openvoice.text.{module}", raising=False)
    language = next(each for each in LANGUAGES if each.code == code)
    with pytest.raises(ValueError, match=rf"{language.name} needs the package {package}.*e3rg\[tts-openvoice-{code}\]"):
        open_reader(language, MODELS)


@pytest.mark.parametrize("code", ["fr", "ko", "zh"])
def test_a_missing_table_is_named(code: str, tmp_path: Path) -> None:
    language = next(each for each in LANGUAGES if each.code == code)
    with pytest.raises(FileNotFoundError, match=r"is missing; `make models` puts it there"):
        open_reader(language, tmp_path)


def test_a_language_without_a_reader_is_refused_and_those_that_have_one_are_named(tmp_path: Path) -> None:
    tiny.write_melo(tmp_path / "MeloTTS-German", tiny.melo_config(speakers=("DE",)))
    with pytest.raises(
        ValueError, match=r"speaks DE, which has no reader.*: English, Spanish, French, Japanese, Korean, Chinese"
    ):
        language_of(tmp_path / "MeloTTS-German")


def test_a_checkpoint_without_the_symbols_of_its_language_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in layout.write_language(tmp_path, "es", [TEXTS["es"]]).items():
        monkeypatch.setenv(name, value)
    tiny.write_melo(tmp_path / "MeloTTS-Spanish", tiny.melo_config(speakers=("ES",)))
    with pytest.raises(ValueError, match=r"config\.json has no symbols .*ɾ.*: it is not MeloTTS' Spanish"):
        openvoice.create()


@pytest.mark.parametrize(
    ("code", "text", "wanted"),
    [
        ("es", "El Sr. García: 1.250 € y 12,5 %. 5 °C, 1º.", "el señor garcía, 1250 euros y 12 coma 5 por ciento."),
        ("fr", "Il coûte 1 250 € ou 12,5 %, M. Roy.", "Il coûte 1250 euros ou 12 virgule 5 pour cent, monsieur Roy."),
        ("ja", "1,250円の12.5%と25℃と$5。", "センニヒャクゴジュウエンノジュウニテンゴパーセントトニジュウゴドトゴドル"),
        ("ko", "1,250 명의 12.5% 25℃", "1250 명의 12 점 5퍼센트 25도"),
        ("zh", "1984年涨了12.5%，￥1,250。", "一九八四年涨了百分之十二点五,一千二百五十元."),
    ],
)
def test_numbers_keep_their_units_and_are_not_cut_in_two(
    code: str, text: str, wanted: str, readers: dict[str, Reader]
) -> None:
    sentence = readers[code].cut(text)[0]
    said, _ = readers[code].read(sentence.text, tokenizer().tokenize, KNOWN)
    assert said == wanted


def test_chinese_korean_and_japanese_are_cut_at_their_own_signs() -> None:
    assert [each.text for each in cutting.cut("太好了！恭喜你。“真的？”是1.75米；走吧……好", 60)] == [
        "太好了!",
        "恭喜你.",
        "“真的?”",
        "是1.75米;",
        "走吧……好",
    ]
    assert [each.text for each in cutting.cut("축하해요! 네. 잘했어요", 90)] == ["축하해요!", "네.", "잘했어요"]
    assert [each.text for each in cutting.cut("えっ？「はい。」と言った。そう、です", 60)] == [
        "えっ?",
        "「はい.」",
        "と言った.",
        "そう、です",
    ]
    pieces = cutting.cut("我们走" * 30 + "，" + "你" * 130, 60)
    assert all(len(each.text) <= 60 for each in pieces)
    assert "".join(each.text for each in pieces).replace(" ", "") == "我们走" * 30 + "," + "你" * 130
    assert [each.is_cut for each in pieces] == [True] * (len(pieces) - 1) + [False]


def test_every_syllable_that_pypinyin_writes_has_symbols() -> None:
    assert chinese.symbols_of("zhi") == ("zh", "ir")
    assert [chinese.symbols_of(each) for each in ("yan", "ju", "si", "ang")] == [
        ("y", "En"),
        ("j", "v"),
        ("s", "i0"),
        ("AA", "ang"),
    ]


def test_a_character_without_a_reading_is_passed_over_and_keeps_its_place(readers: dict[str, Any]) -> None:
    for text in ("好兙好.", "噷.", "兡瓩桛."):
        phones = readers["zh"].phones(text, tokenizer().tokenize, KNOWN)
        assert len(phones.counts) == len(text) + 2
        assert sum(phones.counts) == len(phones.symbols) == len(phones.tones)


def test_jieba_trusts_no_file_that_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jieba, "dt", jieba.Tokenizer())
    jieba.dt.tmp_dir = str(tmp_path)
    chinese._open_jieba()
    assert list(jieba.dt.cut("今天下午")) == ["今天下午"]
    assert not list(tmp_path.iterdir())
