# ruff: noqa: RUF001 - phonetic symbols are not the letters that they look like
"""Turns French into the symbols of MeloTTS: IPA, letter by letter."""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from pathlib import Path
from typing import Final

from services.tts.openvoice.shapes import FRENCH
from services.tts.openvoice.text import crf_words, signs, word_pieces
from services.tts.openvoice.text.crf_words import Dictionary
from services.tts.openvoice.text.tables import source
from services.tts.openvoice.text.word_pieces import Phones
from services.tts.speech import sentences
from services.tts.speech.sentences import Sentence

LANGUAGE: Final = "fr"
TONE: Final = 13
"""It has one, behind the twelve of Chinese, Japanese, English and Korean and the one of Spanish."""
LIAISON: Final = {"s": "z", "x": "z", "z": "z", "d": "t", "t": "t", "p": "p", "n": "n"}
"""What a silent letter at the end of a word sounds like before a vowel."""
VOWELS: Final = frozenset(["i", "y", "u", "e", "ø", "o", "ə", "ɛ", "œ", "ɔ", "a", "ɔ̃", "ɛ̃", "ɑ̃", "œ̃"])
NO_NUMERALS: Final = ("million", "milliard", "billion", "billiard")
"""They are nouns, which are not tied to what follows."""
_VOICED: Final = {"s": "sz", "x": "sz", "z": "sz", "d": "d", "t": "t", "p": "p", "n": "nŋ"}
"""The last sounds with which a letter is not silent."""
_SIGNS: Final = str.maketrans(
    {**signs.PLAIN, **dict.fromkeys([*signs.QUOTES, signs.DASH, "¿", "¡"], ""), **dict.fromkeys("～~", " ")}
)
_UNSPOKEN: Final = '<>"«»'

Abbreviations = Sequence[tuple[re.Pattern[str], str]]


class French:
    """Reads French.

    Args:
        abbreviations: Patterns and what is said for them.
    """

    shapes: Mapping[str, tuple[str, ...]] = FRENCH
    needs: AbstractSet[str] = frozenset([*FRENCH, "\N{COMBINING TILDE}"])
    audition = "La bise et le soleil se disputaient, chacun assurant qu'il était le plus fort."
    """The beginning of Aesop's fable, with which the International Phonetic Association shows languages."""

    def __init__(self, abbreviations: Abbreviations) -> None:
        self._dictionary = Dictionary("gruut_lang_fr")
        self._abbreviations = abbreviations

    def cut(self, text: str) -> list[Sentence]:
        """Returns what can be said of a text, in sentences."""
        return sentences.split(sentences.clean(self._written_out(text)))

    def read(
        self, sentence: str, pieces: Callable[[str], Sequence[str]], known: AbstractSet[str]
    ) -> tuple[str, Phones]:
        """Returns the sentence as BERT is given it, and its symbols."""
        text = normal(amounts(sentence), self._abbreviations)
        return text, word_pieces.phones(pieces(text), self.say, known, TONE)

    def say(self, token: str) -> Iterable[str]:
        """Returns the symbols of a word, a number or a mark."""
        words = crf_words.sounds(token, self._dictionary.phonemes, LANGUAGE)
        if len(words) > 1:
            _tie(crf_words.number_words(token, LANGUAGE), words)
        # A row of three is what upstream's liaisons pile up, and then takes out.
        return re.sub("t{3,}", "", "".join(crf_words.letters(words)))

    def _written_out(self, text: str) -> str:
        """Writes out abbreviations, whose points end no sentence, and degrees; straightens apostrophes."""
        text = re.sub(
            "\N{DEGREE CELSIUS}|(?<=[\\d ])°C?", " degrés ", text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        )
        return _replaced(re.sub(r"\b([Nn])°", "numéro ", text), self._abbreviations)


def create(models_dir: Path) -> French:
    """Opens the dictionary and the list of abbreviations.

    Raises:
        FileNotFoundError: `make models` has not brought the list.
    """
    return French(abbreviations(models_dir))


def abbreviations(models_dir: Path) -> Abbreviations:
    """Reads upstream's list: what stands before a point, in any case, and what stands alone."""
    tree = source(models_dir, "french_abbreviations.py")
    dotted, bare = (
        ast.literal_eval(node.generators[0].iter) for node in ast.walk(tree) if isinstance(node, ast.ListComp)
    )
    return [
        *((re.compile(rf"\b{short}\.", re.IGNORECASE), words) for short, words in dotted),
        *((re.compile(rf"\b{short}"), words) for short, words in bare),
    ]


def amounts(text: str) -> str:
    """Writes numbers so that BERT does not cut them in two, and names euros and percents: upstream loses them."""
    text = re.sub("(?<=\\d)[ .\N{NARROW NO-BREAK SPACE}\N{NO-BREAK SPACE}](?=\\d{3}(?!\\d))", "", text)
    text = re.sub(r"(\d),(\d)", r"\1 virgule \2", text)
    text = re.sub(r"(?<=\d)\s?€", " euros", text)
    return re.sub(r"(?<=\d)\s?%", " pour cent", text)


def normal(text: str, abbreviations: Abbreviations) -> str:
    """Returns the text as BERT and the dictionary are given it; capitals stay."""
    return signs.tidy(_replaced(text, abbreviations).replace("&", " et "), _SIGNS, _UNSPOKEN)


def _replaced(text: str, abbreviations: Abbreviations) -> str:
    for pattern, words in abbreviations:
        text = pattern.sub(words, text)
    return text


def _tie(spelled: Sequence[str], said: list[list[str]]) -> None:
    """Lets the last letters of numerals be heard before a vowel: "vingt et un"."""
    for place, (spelling, _) in enumerate(pairwise(spelled)):
        sounds, following = said[place], said[place + 1]
        last = spelling[-1]
        silent = last in LIAISON and sounds and sounds[-1] not in _VOICED[last]
        if silent and following and following[0] in VOWELS and not spelling.startswith(("et", *NO_NUMERALS)):
            sounds.append(LIAISON[last])
