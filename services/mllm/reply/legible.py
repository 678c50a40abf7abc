"""Tells a text that the models can read from one they cannot: all of them learned from English only."""

import re
import unicodedata
from collections import Counter

NOT_LATIN_SHARE = 0.5
"""With a larger share of letters of other scripts a text is not English, whatever names or brands it has in it."""
HELD_KEY = re.compile(r"(.)\1{3,}")
"""One letter four times over and nothing else is no word of English."""
NO_WORD = "no words in the text"
NOT_LATIN = "the text is not in Latin script; this model reads English only"


def unreadable(text: str) -> str:
    """Returns why a model of English cannot read `text`, in words for the caller, or an empty string when it can."""
    scripts = _scripts(text)
    if scripts and scripts["Latin"] < (1 - NOT_LATIN_SHARE) * scripts.total():
        return NOT_LATIN
    return "" if any(map(_is_word, re.findall(r"[^\W\d_]+", text.lower()))) else NO_WORD


def found(text: str) -> str:
    """Names what an unreadable text consists of: the script of most of its letters, or its beginning."""
    foreign = [(count, name) for name, count in _scripts(text).items() if name != "Latin"]
    if unreadable(text) == NOT_LATIN:
        return f"is mostly in {max(foreign)[1]} script"
    return f"holds no word ({text.strip()[:20]!r})"


def _is_word(letters: str) -> bool:
    return HELD_KEY.fullmatch(letters) is None


def _scripts(text: str) -> Counter[str]:
    # Compatibility forms first: full-width and "bold" letters are Latin ones. A letter's name begins with its script.
    names = (unicodedata.name(letter, "unknown") for letter in unicodedata.normalize("NFKC", text) if letter.isalpha())
    return Counter(name.split()[0].split("-")[0].capitalize() for name in names)
