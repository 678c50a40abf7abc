# ruff: noqa: RUF001 - phonetic symbols are not the letters that they look like
"""Says how Spanish and French words are pronounced, as MeloTTS was trained to: a dictionary, then a CRF.

Both come out of the packages `gruut-lang-es` and `gruut-lang-fr` (folder `espeak`): IPA of eSpeak for a list of words,
and a conditional random field that was trained on it. `gruut` itself is left out, with all it needs: the words come
from the tokens of BERT one by one, so that nothing of its cutting and dating of sentences is ever reached.
"""

import base64
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
import pycrfsuite
from num2words import num2words

DIGITS_MAX: Final = 30
"""A longer number is read digit by digit."""
MARKS: Final = frozenset(';:,.!?¡¿—…"«»“”')
"""Said as they are; every other sign is pronounced as if it were a word."""
CONTEXT: Final = 3
"""So many letters before and behind one decide its sound."""
NOTHING: Final = "_"

_NOT_IN_WORDS = re.compile(r"\W")
_NUMBER = re.compile(r"\d+")


class Dictionary:
    """Pronounces single words.

    The package's SQLite file has no index of its 600,000 words (Spanish); an array of their hashes is made
    instead, 7 MB where a dict takes 130.

    Args:
        package: `gruut_lang_es` or `gruut_lang_fr`.

    Raises:
        ModuleNotFoundError: There is no such package.
        FileNotFoundError: One of its two files is missing.
    """

    def __init__(self, package: str) -> None:
        folder = Path(str(files(package))) / "espeak"
        words, network = folder / "lexicon.db", folder / "g2p" / "model.crf"
        for path in (words, network):
            if not path.is_file():
                raise FileNotFoundError(f"{path} is missing; install the package {package} anew")
        # Loaded on one thread, asked on another, never by two at once.
        self._words = sqlite3.connect(f"{words.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        rows = self._words.execute("SELECT id, word FROM word_phonemes")
        found = np.fromiter(((hash(word), place) for place, word in rows), np.dtype((np.int64, 2)))
        ordered = found[np.argsort(found[:, 0], kind="stable")]
        self._hashes, self._places = ordered[:, 0].copy(), ordered[:, 1].astype(np.int32)
        self._tagger = pycrfsuite.Tagger()
        self._tagger.open(str(network))

    def phonemes(self, word: str) -> list[str]:
        """Returns the IPA of a word, phoneme by phoneme, with stresses; any sign has one."""
        word = word.lower()
        for spelling in (word, _NOT_IN_WORDS.sub("", word)):
            if known := self._known(spelling):
                return known.split()
        word = unicodedata.normalize("NFC", word)
        coded = self._tagger.tag([_context(word, place) for place in range(len(word))]) if word else []
        decoded = (base64.b64decode(code).decode() for code in coded)
        return [sound for sounds in decoded for sound in sounds.split("|") if sound != NOTHING]

    def _known(self, word: str) -> str:
        start, end = (int(np.searchsorted(self._hashes, hash(word), side)) for side in ("left", "right"))
        # Nine words have a second pronunciation, which is never taken.
        rows: list[tuple[int, str]] = []
        for place in self._places[start:end].tolist():
            query = "SELECT pron_order, phonemes FROM word_phonemes WHERE id = ? AND word = ?"
            rows += self._words.execute(query, (place, word))
        return min(rows, default=(0, ""))[1]


def number_words(digits: str, language: str) -> list[str]:
    """Returns what is said for a row of digits."""
    if len(digits) > DIGITS_MAX:
        return [word for digit in digits for word in number_words(digit, language)]
    said: str = num2words(int(digits), lang=language)
    return said.replace("-", " ").split()


def sounds(token: str, say: Callable[[str], list[str]], language: str) -> list[list[str]]:
    """Returns the phonemes of a token, word by word: only numbers have several."""
    if token in MARKS:
        return [[token]]
    words = number_words(token, language) if _NUMBER.fullmatch(token) else [token]
    return [list(say(word)) for word in words]


def letters(words: Iterable[Sequence[str]]) -> Iterator[str]:
    """Returns phonemes letter by letter: the symbols of MeloTTS."""
    return (letter.replace("g", "ɡ") for word in words for phoneme in word for letter in phoneme if letter != " ")


def _context(word: str, place: int) -> dict[str, str | float | bool]:
    features: dict[str, str | float | bool] = {"bias": 1.0, "grapheme": _coded(word[place])}
    for step in range(1, CONTEXT + 1):
        if place >= step:
            features[f"grapheme-{step}"] = _coded(word[place - step])
        if place + step < len(word):
            features[f"grapheme+{step}"] = _coded(word[place + step])
    if place == 0:
        features["begin"] = True
    if place == len(word) - 1:
        features["end"] = True
    return features


def _coded(letter: str) -> str:
    return base64.b64encode(letter.encode()).decode("ascii")
