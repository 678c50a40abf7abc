"""Spells out a message of signs alone, so that those who read words can read it."""

import unicodedata
from collections.abc import Iterator

SIGNS_MAX = 8
BETTER = {
    "POUTING FACE": "angry face",
    "HEAVY BLACK HEART": "red heart",
    "SMILING FACE WITH SUNGLASSES": "smiling face with sunglasses",
    "FACE WITH OPEN MOUTH AND COLD SWEAT": "anxious face with sweat",
    "THUMBS UP SIGN": "thumbs up",
    "THUMBS DOWN SIGN": "thumbs down",
}
"""Names of today for some of Unicode's first ones."""
SIGN_CATEGORIES = {"So"}


def spelled(text: str) -> str:
    """Return the names of the signs of a text of emoji alone, as "angry face, broken heart"; else the text itself."""
    if any(letter.isalnum() for letter in text):
        return text
    names = list(dict.fromkeys(_names(text)))[:SIGNS_MAX]
    return ", ".join(names) or text


def with_names(text: str) -> str:
    """Return a text with its first signs in words, for a model that was taught none: "Great. upside-down face"."""
    named: list[str] = []
    signs = 0
    for letter in text:
        name = next(_names(letter), "") if signs < SIGNS_MAX else ""
        signs += bool(name)
        named.append(f" {name} " if name else letter)
    return "".join(named)


def _names(text: str) -> Iterator[str]:
    for sign in text:
        if unicodedata.category(sign) in SIGN_CATEGORIES and (name := unicodedata.name(sign, "")):
            yield BETTER.get(name, name.lower())
