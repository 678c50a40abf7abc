"""Turns Japanese into the symbols of MeloTTS: everything becomes katakana, and katakana become sounds.

Chinese characters are read by pykakasi (GPL-3-or-later, so that only who asks for it installs it), for MeloTTS was
trained with its readings. fugashi and unidic-lite are what the tokenizer of Japanese BERTs cuts words with.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pykakasi
from num2words import num2words

from services.tts.openvoice.shapes import JAPANESE, Shapes
from services.tts.openvoice.text import word_pieces
from services.tts.openvoice.text.cutting import cut
from services.tts.openvoice.text.kana import KANA, sounds
from services.tts.openvoice.text.word_pieces import Phones
from services.tts.speech.sentences import Sentence

TONE: Final = 6
"""It has one, behind the six of Chinese."""
CHARACTERS_MAX: Final = 60
"""About 14 s of speech."""
BERT_PACKAGES: Final = ("fugashi", "unidic_lite")
_MONEY: Final = {"$": "ドル", "¥": "円", "£": "ポンド", "€": "ユーロ"}
_AMOUNT: Final = re.compile(f"([{''.join(_MONEY)}])([0-9.]*[0-9])")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff"
_UNSPOKEN: Final = re.compile(f"[^\u3040-\u30ff{_HAN}]")
"""All but kana and Chinese characters: MeloTTS was trained without marks."""
_BREAK: Final = re.compile(rf"[^\u3040-\u30ff{_HAN}0-9$¥£€.,]+|(?<![0-9])[.,]|[.,](?![0-9])")
"""Where no word goes on."""
_REPEATED: Final = re.compile(f"[{_HAN}]+々[々{_HAN}ぁ-ん]*")
_LENGTHENED: Final = re.compile("(?<=([ぁ-ん]))[ー〜~]+")
_CAPITALS: Final = re.compile("(?<![A-Za-z])[A-Z]+(?![A-Za-z])")
_LETTERS: Final = {
    **{"A": "エイ", "B": "ビイ", "C": "シイ", "D": "ディイ", "E": "イイ", "F": "エフ", "G": "ジイ", "H": "エイチ"},
    **{"I": "アイ", "J": "ジェイ", "K": "ケイ", "L": "エル", "M": "エム", "N": "エヌ", "O": "オオ", "P": "ピイ"},
    **{"Q": "キュウ", "R": "アアル", "S": "エス", "T": "ティイ", "U": "ユウ", "V": "ブイ", "W": "ダブリュウ"},
    **{"X": "エックス", "Y": "ワイ", "Z": "ゼット"},
}
"""Their names, with two vowels where ー would not be heard."""
_TO_KATAKANA: Final = ord("ァ") - ord("ぁ")
_VOWELS: Final = {"a": "あ", "i": "い", "u": "う", "e": "え", "o": "お"}


class Japanese:
    """Reads Japanese.

    Args:
        katakana: Returns a text with its Chinese characters and hiragana in katakana.
    """

    shapes: Shapes = JAPANESE
    needs: AbstractSet[str] = frozenset([*JAPANESE, "q"])
    audition = "あるとき北風と太陽が力くらべをして、旅人の上着を先に脱がせたほうが勝ちと決めました。"
    """The beginning of Aesop's fable, with which the International Phonetic Association shows languages."""

    def __init__(self, katakana: Callable[[str], str]) -> None:
        self._katakana = katakana

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return cut(self._written_out(text), CHARACTERS_MAX)

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, in katakana, and its symbols.

        Upstream takes the marks out first, so that it finds words across them: "今、日本" begins with 今日 there.
        """
        text = "".join(map(self.normal, _BREAK.split(sentence)))
        return text, word_pieces.phones(word_pieces.with_pauses(pieces(text)), sounds, known, TONE)

    def normal(self, text: str) -> str:
        """Returns the text as BERT is given it: katakana, without marks."""
        text = unicodedata.normalize("NFKC", text)
        text = _AMOUNT.sub(lambda found: found[2] + _MONEY[found[1]], re.sub("(?<=[0-9]),(?=[0-9]{3})", "", text))
        text = _NUMBER.sub(lambda found: str(num2words(found[0], lang="ja")), text)
        return self._katakana(_UNSPOKEN.sub("", text))

    def _written_out(self, text: str) -> str:
        """Writes out what upstream loses or misreads.

        These are percents, degrees, capitals, the sign that repeats a character, a small ka between numbers and what
        is counted (upstream stops at it), and long vowels of hiragana, where it says the syllable twice.
        """
        text = unicodedata.normalize("NFKC", text).replace("ヵ", "ヶ")
        text = re.sub("°C?", "度", re.sub(r"(?<=\d)\s?%", "パーセント", text))
        text = _CAPITALS.sub(lambda found: "".join(map(_LETTERS.__getitem__, found[0])), text)
        text = _LENGTHENED.sub(lambda found: _vowel(found[1]), text)
        return _REPEATED.sub(lambda found: self._katakana(found[0]), text)


def create(models_dir: Path) -> Japanese:
    """Opens the dictionary.

    Args:
        models_dir: Not asked: all of it comes with packages.

    Raises:
        ModuleNotFoundError: A package that BERT's tokenizer needs is not installed.
    """
    for package in BERT_PACKAGES:
        import_module(package)
    # The old interface: the new one loses the neighbours of characters that it does not know. Its version is pinned.
    kakasi: Any = pykakasi.kakasi()
    kakasi.setMode("J", "K")
    kakasi.setMode("H", "K")
    return Japanese(kakasi.getConverter().do)


def _vowel(hiragana: str) -> str:
    """Returns the vowel in which a hiragana ends; none where it has none."""
    return _VOWELS.get(KANA[chr(ord(hiragana) + _TO_KATAKANA)][-1], "")
