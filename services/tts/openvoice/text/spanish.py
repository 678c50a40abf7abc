"""Turns Spanish into the symbols of MeloTTS: IPA, letter by letter."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from num2words import num2words

from services.tts.openvoice.shapes import SPANISH
from services.tts.openvoice.text import crf_words, signs, word_pieces
from services.tts.openvoice.text.crf_words import Dictionary
from services.tts.openvoice.text.word_pieces import Phones
from services.tts.speech import sentences
from services.tts.speech.sentences import Sentence

LANGUAGE: Final = "es"
TONE: Final = 12
"""It has one, behind the six of Chinese, one of Japanese, four of English and one of Korean."""
_SIGNS: Final = str.maketrans({**signs.PLAIN, **dict.fromkeys([*signs.QUOTES, signs.DASH], "")})
_UNSPOKEN: Final = "<>\"«»'"
_TITLES: Final = {"Sr": "señor", "Sra": "señora", "Srta": "señorita", "Dr": "doctor", "Dra": "doctora", "Ud": "usted"}


class Spanish:
    """Reads Spanish."""

    shapes: Mapping[str, tuple[str, ...]] = SPANISH
    needs: AbstractSet[str] = frozenset(SPANISH)
    audition = "El viento norte y el sol discutían sobre quién de los dos era el más fuerte."
    """The beginning of Aesop's fable, with which the International Phonetic Association shows languages."""

    def __init__(self) -> None:
        self._dictionary = Dictionary("gruut_lang_es")

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return sentences.split(sentences.clean(written_out(text)))

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, and its symbols."""
        text = normal(amounts(sentence))
        return text, word_pieces.phones(pieces(text), self.say, known, TONE)

    def say(self, token: str) -> Iterable[str]:
        """Returns the symbols of a word, a number or a mark."""
        return crf_words.letters(crf_words.sounds(token, self._dictionary.phonemes, LANGUAGE))


def create(models_dir: Path) -> Spanish:
    """Opens the dictionary; nothing of `make models` is needed."""
    return Spanish()


def written_out(text: str) -> str:
    """Writes out titles, whose points end no sentence, and signs of degrees and ordinals."""
    text = re.sub(rf"\b({'|'.join(_TITLES)})\.", lambda found: _TITLES[found[1]], text)
    text = re.sub(r"(\d{1,3})\s?º", lambda found: num2words(int(found[1]), lang=LANGUAGE, to="ordinal"), text)
    return re.sub("\N{DEGREE CELSIUS}|°C?", " grados ", text)


def amounts(text: str) -> str:
    """Writes numbers so that BERT does not cut them in two, and names euros and percents: upstream loses them."""
    text = re.sub(r"(?<=\d)\.(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"€\s?(\d+(?:[.,]\d+)?)", r"\1 euros", text)
    text = re.sub(r"(\d)[.,](\d)", r"\1 coma \2", text)
    text = re.sub(r"(?<=\d)\s?€", " euros", text)
    return re.sub(r"(?<=\d)\s?%", " por ciento", text)


def normal(text: str) -> str:
    """Returns the text as BERT and the dictionary are given it."""
    # An ampersand is a word without spaces around it, and apostrophes are nothing, as ever.
    return signs.tidy(text.lower().replace("&", "y").replace("'", ""), _SIGNS, _UNSPOKEN)
