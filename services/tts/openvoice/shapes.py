# ruff: noqa: RUF001 - phonetic symbols are not the letters that they look like
"""The mouth shapes (Oculus) of the sounds of MeloTTS' other languages. Of sounds that move the mouth two, for `lips`.

The classes are those of `lips`: a sound has the shape of the English sound that is made at the same place. Stress and
length marks, the tilde of French, the silent first letter of Korean and the held consonant of Japanese (q) have none:
their time goes to their neighbours.
"""

from collections.abc import Mapping
from typing import Final

Shapes = Mapping[str, tuple[str, ...]]


def _shapes(classes: Mapping[str, str]) -> Shapes:
    """Reads "I aa": "ia", the first shape turning into the second."""
    return {symbol: tuple(shape.split()) for shape, symbols in classes.items() for symbol in symbols.split()}


SPANISH: Final = _shapes(
    {
        "PP": "p b m β",
        "FF": "f",
        "TH": "θ ð",
        "DD": "t d",
        "kk": "k ɡ ɣ x ŋ",
        "CH": "ʃ j ʝ ʎ",
        "SS": "s",
        "nn": "n l ɲ",
        "RR": "ɾ r",
        "aa": "a",
        "E": "e ɛ",
        "I": "i ɪ",
        "O": "o",
        "U": "u ʊ w",
    }
)
"""IPA, letter by letter."""

FRENCH: Final = _shapes(
    {
        "PP": "p b m",
        "FF": "f v",
        "TH": "θ ð",
        "DD": "t d",
        "kk": "k ɡ ŋ h ʁ",
        "CH": "ʃ ʒ j",
        "SS": "s z",
        "nn": "n l ɲ",
        "RR": "ɹ",
        "aa": "a ɑ ʌ ɐ",
        "E": "e ɛ ə ɜ",
        "I": "i ɪ",
        "O": "o ɔ ɒ ø œ",
        "U": "u ʊ w y",
    }
)
"""IPA, letter by letter; the rounded ø, œ and y have the shapes of O and U."""

PINYIN: Final = _shapes(
    {
        "PP": "b p m",
        "FF": "f",
        "DD": "d t",
        "kk": "g k h",
        "CH": "j q x zh ch sh y",
        "SS": "z c s",
        "nn": "n l",
        "RR": "r er",
        "aa": "a AA",
        "E": "e E EE",
        "I": "i i0 ir",
        "O": "o OO",
        "U": "u v w",
        "aa I": "ai",
        "aa U": "ao",
        "aa nn": "an",
        "aa kk": "ang",
        "E I": "ei",
        "E nn": "en En",
        "E kk": "eng",
        "I aa": "ia iang iao",
        "I E": "ian ie",
        "I nn": "in",
        "I kk": "ing",
        "I O": "iong",
        "I U": "iu",
        "O kk": "ong",
        "O U": "ou",
        "U aa": "ua uai uan uang",
        "U I": "ui",
        "U nn": "un vn",
        "U O": "uo",
        "U E": "van ve",
    }
)
"""Initials and finals, as MeloTTS writes them; a final of three sounds shows the first two."""

JAPANESE: Final = _shapes(
    {
        "PP": "p py b by m my",
        "FF": "f",
        "DD": "t ty d dy",
        "kk": "k ky g gy h hy",
        "CH": "ch j sh y zy",
        "SS": "s ts z",
        "nn": "n ny N",
        "RR": "r ry",
        "aa": "a a:",
        "E": "e e:",
        "I": "i i:",
        "O": "o o:",
        "U": "u u: w",
    }
)
"""Long vowels are sounds of their own; N is the nasal that is a syllable."""

JAMO: Final = _shapes(
    {
        "PP": "ᄆ ᄇ ᄈ ᄑ ᆷ ᆸ",
        "DD": "ᄃ ᄄ ᄐ ᆮ",
        "kk": "ᄀ ᄁ ᄏ ᄒ ᆨ ᆼ",
        "CH": "ᄌ ᄍ ᄎ",
        "SS": "ᄉ ᄊ",
        "nn": "ᄂ ᆫ ᆯ",
        "RR": "ᄅ",
        "aa": "ᅡ",
        "E": "ᅢ ᅦ",
        "I": "ᅵ ᅳ",
        "O": "ᅥ ᅩ",
        "U": "ᅮ",
        "I aa": "ᅣ",
        "I E": "ᅤ ᅨ",
        "I O": "ᅧ ᅭ",
        "I U": "ᅲ",
        "U aa": "ᅪ",
        "U E": "ᅫ ᅬ ᅰ",
        "U O": "ᅯ",
        "U I": "ᅱ ᅴ",
    }
)
"""Letters of Hangul: first ones, vowels and the seven last ones that are heard."""
