"""Spells out what those who read words cannot read: signs, letters told apart, and short forms of danger."""

import re
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
EMOTICONS = {
    ":)": "smiling face",
    ":D": "grinning face",
    ";)": "winking face",
    ":(": "sad face",
    ":'(": "crying face",
    ":/": "unsure face",
    ":|": "neutral face",
    "<3": "red heart",
    "</3": "broken heart",
}
MARKS = {"?": "What?", "!": "Oh!"}
SIGN_CATEGORIES = {"So"}
APART = re.compile(r"\b(?:[^\W\d_][ .*-]){2,}[^\W\d_]\b")
"""A word told letter by letter: "k i l l"."""
LOOK_ALIKES = str.maketrans("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455013", "aeopcyxisoie")
DISGUISED = re.compile(
    r"\b(?=\w*[a-z])(?:\w*[\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455]\w*|[a-z]+[013][a-z]+)\b", re.I
)
"""A Latin word with letters of another script, or figures, in place of those that they look like: "d1e"."""
SHORT_FORMS = (
    (re.compile(r"(?<!\d)(?<!\d )\bkms\b(?! (?:away|from|to)\b)", re.IGNORECASE), "kill myself"),
    (re.compile(r"\bkys\b", re.IGNORECASE), "kill yourself"),
    (re.compile(r"\bunaliv(?:e\b|(?=ed\b|ing\b))", re.IGNORECASE), "kill"),
    (re.compile(r"\bsewer ?slide\b", re.IGNORECASE), "suicide"),
)
"""As young people write past the filters of other programs."""


def spelled(text: str) -> str:
    """Return the names of the signs of a text of signs alone, as "angry face, broken heart"; else the text itself.

    Marks and figures alone become the words that somebody would say: "..." is "Hm.", "31" is "It's 31".
    """
    if face := EMOTICONS.get("".join(text.split()).replace("-", "")):
        return face
    if any(letter.isalpha() for letter in text) or not text.strip():
        return text
    if any(letter.isdigit() for letter in text):
        return f"It's {text.strip()}"
    names = list(dict.fromkeys(_names(text)))[:SIGNS_MAX]
    return ", ".join(names) or next((word for mark, word in MARKS.items() if mark in text), "Hm.")


def readable(text: str) -> str:
    """Return a text for a model that was taught no signs: "Great. upside-down face", "I want to kill myself"."""
    text = unicodedata.normalize("NFKC", text)
    text = APART.sub(lambda found: re.sub(r"[ .*-]", "", found[0]), text)
    text = DISGUISED.sub(lambda found: found[0].translate(LOOK_ALIKES), text)
    for short, long in SHORT_FORMS:
        text = short.sub(long, text)
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
