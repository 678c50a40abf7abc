# ruff: noqa: RUF001 - quotes of every kind, and phonetic symbols that look like letters, are meant
"""Turns English into the symbols of OpenVoice V1's base speaker: IPA, letter by letter.

The same steps and the same dictionary (that of `eng_to_ipa`, CMUdict 0.7b) as the speaker was trained with.
"""

import re
import sqlite3
import warnings
from collections import defaultdict
from contextlib import closing
from importlib.resources import as_file, files
from typing import Final

from text_unidecode import unidecode

from services.tts.openvoice.text import numbers

with warnings.catch_warnings():
    # Its patterns are no raw strings, which the compiler minds.
    warnings.simplefilter("ignore")
    from eng_to_ipa.transcribe import cmu_to_ipa, preserve_punc

WORDS_MIN: Final = 10
"""A clause of at most this many words is spoken with the next one: the speaker knows no shorter stretches."""
MERGED_WORDS_MAX: Final = 2
"""A sentence of so few words is spoken with its neighbour."""

_STRAIGHT: Final = str.maketrans({**dict.fromkeys("。！？；", "."), "，": ",", **dict.fromkeys("‘’", "'")})
_UNSPOKEN = re.compile(r"[<>()\[\]\"«»“”]+")
# Not within a number: upstream cuts "1,250" there, and says "one, two hundred fifty".
_CLAUSE_END = re.compile(r"(?<=[,.!?;])(?!(?<=[0-9][,.])[0-9])")
_DARK = re.compile(r"l([^aeiouæɑɔəɛɪʊ ]*(?: |$))")
_LETTERS: Final = str.maketrans({"r": "ɹ", "ʤ": "dʒ", "ʧ": "tʃ"})


class Pronouncer:
    """Looks words up in the dictionary that comes with `eng_to_ipa`."""

    def __init__(self) -> None:
        self.words: defaultdict[str, list[str]] = defaultdict(list)
        with (
            as_file(files("eng_to_ipa") / "resources" / "CMU_dict.db") as path,
            closing(sqlite3.connect(path)) as database,
        ):
            for word, phonemes in database.execute("SELECT word, phonemes FROM dictionary"):
                self.words[word].append(phonemes)

    def ipa(self, text: str) -> str:
        """Returns the IPA of lower-case words; what is unknown keeps its letters and gets an asterisk."""
        pieces = [preserve_punc(word)[0] for word in text.split()]
        known = [self.words.get(bare, [f"__IGNORE__{bare}"]) for _, bare, _ in pieces]
        # Of several pronunciations the last in alphabetical order is taken, as ever.
        said = [options[-1] for options in cmu_to_ipa(known, stress_marking="both")]
        return " ".join(f"{before}{word}{after}" for (before, _, after), word in zip(pieces, said, strict=True))

    def first(self, word: str) -> tuple[str, ...]:
        """Returns the ARPAbet of the first pronunciation of a lower-case word, in capitals; empty when unknown."""
        options = self.words.get(word)
        return tuple(options[0].upper().split()) if options else ()


def pieces(text: str) -> list[str]:
    """Cuts text into the stretches that the speaker is asked for at once: clauses of more than ten words."""
    clean = " ".join(_UNSPOKEN.sub("", text.translate(_STRAIGHT)).split())
    cut: list[list[str]] = [[]]
    for clause in _CLAUSE_END.split(clean):
        if not clause.strip():
            continue
        if sum(len(part.split()) for part in cut[-1]) > WORDS_MIN:
            cut.append([])
        cut[-1].append(clause.strip())
    return _merged([" ".join(parts) for parts in cut if parts])


def symbols(piece: str, pronouncer: Pronouncer) -> str:
    """Returns the IPA of a piece of English, a symbol a letter; symbols that the speaker lacks are still in it."""
    text = numbers.money(re.sub(r"([a-z])([A-Z])", r"\1 \2", piece), "£€¥")
    text = unidecode(text).replace("[?]", "").lower()
    text = numbers.openvoice(numbers.abbreviations(text))
    sounds = re.sub(r"\s+", " ", pronouncer.ipa(text))
    sounds = _DARK.sub(r"ɫ\1", sounds).translate(_LETTERS).replace("...", "…")
    return re.sub(r"([^.,!?\-…~])$", r"\1.", sounds.rstrip())


def _merged(cut: list[str]) -> list[str]:
    merged: list[str] = []
    for piece in cut:
        if merged and len(merged[-1].split()) <= MERGED_WORDS_MAX:
            merged[-1] = f"{merged[-1]} {piece}"
        else:
            merged.append(piece)
    if len(merged) > 1 and len(merged[-1].split()) <= MERGED_WORDS_MAX:
        last = merged.pop()
        merged[-1] = f"{merged[-1]} {last}"
    return merged
