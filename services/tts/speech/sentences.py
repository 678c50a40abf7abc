# ruff: noqa: RUF001 - quotes and dashes of every kind are meant
"""Cuts text into sentences that can be spoken, and leaves out what cannot."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

CHARACTERS_MAX = 220
"""A longer sentence is cut, at a clause where it has one: about 14 s of speech, 0.2 s of computing."""

BEFORE_NUMBERS = {
    "fig",
    "no",
    "vol",
    "pp",
    "ch",
    "sec",
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
}
"""Words that are shortened before a number: "No. 5" goes on, "No. I said no." does not."""
NEVER_LAST = {
    "mr",
    "mrs",
    "ms",
    "dr",
    "prof",
    "st",
    "e.g",
    "i.e",
    "u.s",
    "u.k",
    "vs",
    "approx",
    "gen",
    "gov",
    "hon",
    "sen",
    "rep",
    "rev",
    "capt",
    "col",
    "lt",
    "sgt",
}
"""Abbreviations that something must follow, so that even a capital after them starts no sentence."""

PAUSE_S = {".": 0.35, "!": 0.3, "?": 0.4, "…": 0.55, ",": 0.12}
PAUSE_OTHER_S = 0.3
PAUSE_CUT_S = 0.12
CLOSERS = "\"'”’)] "

_MARKUP = str.maketrans(dict.fromkeys("*_`~^|<>[]{}\\#", " "))
_LONG_NUMBER = re.compile(r"\d[\d,]{15,}")
# A run of end marks with the quotes or brackets that close behind it, then white space.
_END = re.compile(r"(?:[.!?…]+)[\"'”’)\]]*(?=\s|$)")
_CLAUSE = re.compile(r"(?<=[,;:—–)])\s+|\s+(?=[(—–])")
_LATIN_LAST = "\u024f"


@dataclass(frozen=True)
class Sentence:
    """A piece of text to speak at once. `is_cut`: it goes on in the next piece, so the pause after it is short."""

    text: str
    is_cut: bool = False


def is_not_latin(word: str) -> bool:
    """Tells whether a word has letters that no European language of the Latin script has."""
    return any(character.isalpha() and character > _LATIN_LAST for character in word)


def clean(text: str, is_foreign: Callable[[str], bool] = is_not_latin) -> str:
    """Leaves out what no speaker reads aloud: emoji, markup, control characters, words that `is_foreign`.

    Line ends stay, for they end sentences. Brackets of the form `[word](/sounds/)`, with which the text could give
    phonemes to the model, go with the markup.
    """
    kept = "".join(_spoken(character) for character in unicodedata.normalize("NFKC", text)).translate(_MARKUP)
    kept = kept.replace("...", "…")
    # Nobody reads such a number as one, and the dictionary has no words for it.
    kept = _LONG_NUMBER.sub(lambda number: " ".join(number.group().replace(",", "")), kept)
    kept = kept.replace("°C", " degrees Celsius").replace("°F", " degrees Fahrenheit").replace("°", " degrees")
    lines = (" ".join(word for word in line.split() if not is_foreign(word)) for line in kept.splitlines())
    return "\n".join(line for line in lines if line)


def split(text: str) -> list[Sentence]:
    """Cuts cleaned text into sentences of at most `CHARACTERS_MAX` characters, in order."""
    return [piece for line in text.splitlines() for sentence in _sentences(line) for piece in _pieces(sentence)]


def pause_s(sentence: Sentence) -> float:
    """How long a calm speaker is silent after it."""
    return PAUSE_CUT_S if sentence.is_cut else PAUSE_S.get(sentence.text.rstrip(CLOSERS)[-1:], PAUSE_OTHER_S)


def _spoken(character: str) -> str:
    if character in "\n\r\u2028\u2029":
        return "\n"
    category = unicodedata.category(character)
    if character == "°":
        return character
    if category in ("Cf", "Mn", "Me") or "\ufe00" <= character <= "\ufe0f":
        return ""
    return " " if category in ("So", "Sk", "Cc", "Cs", "Co", "Cn", "Zs", "Mc") else character


def _sentences(line: str) -> list[str]:
    found, start = [], 0
    for end in _END.finditer(line):
        rest = line[end.end() :].lstrip()
        if rest and not _is_end(line[start : end.start()], end.group(), rest):
            continue
        found.append(line[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in [*found, line[start:].strip()] if sentence]


def _is_end(before: str, mark: str, rest: str) -> bool:
    opener = rest.lstrip("\"'“‘([")[:1]
    if opener.islower():
        # "well... maybe", "p.m. on", "'Stop!' he said"
        return False
    if mark != ".":
        return True
    last = before.rsplit(None, 1)[-1].lstrip("\"'“‘([").lower() if before.strip() else ""
    if last in NEVER_LAST or (len(last) == 1 and last.isalpha() and last != "i"):
        return False
    return not (last in BEFORE_NUMBERS and opener.isdigit())


def _pieces(sentence: str) -> list[Sentence]:
    if len(sentence) <= CHARACTERS_MAX:
        return [Sentence(sentence)]
    pieces = [""]
    for clause in _CLAUSE.split(sentence):
        for part in _words(clause):
            joined = f"{pieces[-1]} {part}".strip()
            if len(joined) <= CHARACTERS_MAX:
                pieces[-1] = joined
            else:
                pieces.append(part)
    pieces = [piece for piece in pieces if piece]
    return [Sentence(piece, is_cut=index < len(pieces) - 1) for index, piece in enumerate(pieces)]


def _words(clause: str) -> list[str]:
    """Cuts a clause that is too long itself at words, and a word that is too long anywhere."""
    if len(clause) <= CHARACTERS_MAX:
        return [clause]
    words = (
        word[start : start + CHARACTERS_MAX] for word in clause.split() for start in range(0, len(word), CHARACTERS_MAX)
    )
    parts = [""]
    for word in words:
        if len(parts[-1]) + len(word) + 1 > CHARACTERS_MAX:
            parts.append(word)
        else:
            parts[-1] = f"{parts[-1]} {word}".strip()
    return [part for part in parts if part]
