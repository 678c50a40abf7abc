"""The sounds of Japanese syllables, as MeloTTS writes them: rows of kana by consonant, columns by vowel.

The syllabary is common knowledge; what MeloTTS makes of a long vowel, of rare pairs and of three Chinese characters is
its own, and has no rule.
"""

from collections.abc import Iterator, Mapping
from typing import Final

Sounds = tuple[str, ...]

_ROWS: Final = (
    *("アイウエオ", "k カキクケコ", "g ガギグゲゴ", "s サシスセソ", "z ザジズゼゾ", "t タチツテト", "d ダヂヅデド"),
    *("n ナニヌネノ", "h ハヒフヘホ", "b バビブベボ", "p パピプペポ", "m マミムメモ", "r ラリルレロ"),
)
_OTHERS: Final = "シ=sh ジ=j チ=ch ツ=ts ヂ=j ヅ=z フ=f"
"""Where a row has another consonant."""
_PLAIN: Final = {
    **{"ヤ": "y a", "ユ": "y u", "ヨ": "y o", "ワ": "w a", "ヰ": "i", "ヱ": "e", "ヲ": "o", "ヴ": "b u"},
    **{"ァ": "a", "ィ": "i", "ゥ": "u", "ェ": "e", "ォ": "o", "ャ": "y a", "ュ": "y u", "ョ": "y o", "ヮ": "w a"},
    **{"ン": "N", "ッ": "q", "ヶ": "k e", "・": ","},
    # A long vowel of katakana is not heard: MeloTTS was trained so.
    "ー": "",
    # The dictionary of readings lacks them.
    **{"琦": "ch i", "髙": "t a k a", "煞": "sh y a"},
}
_PALATAL: Final = (
    *("ky キク", "gy ギグ", "sh シス", "j ジヂ", "zy ズヅ", "ch チツ", "ty テト", "dy デド", "ny ニヌ", "hy ヒフ"),
    *("by ビ", "py ピプ", "my ミム", "ry リル"),
)
"""What a small ya, yu or yo makes of the consonant before it."""
_LOANS: Final = (
    *("f ファフィフゥフェフォ", "b ヴァヴィヴェヴォ", "w ウィウェウォ", "ts ツァツィツェツォ", "z ズィズゥズェズォ"),
    *("s スィ", "t ティトゥ", "d ディドゥ", "sh シェ", "j ジェヂェ", "ch チェ"),
)
"""Syllables of foreign words: the second kana has the vowel."""
_ODD: Final = {
    **{"アァ": "a a", "イィ": "i i", "エェ": "e e", "イャ": "y a", "ヅゥ": "d u:"},
    **{"ユャ": "y a:", "ユュ": "y u:", "ユョ": "y o:", "ブュ": "by u", "ヴュ": "by u"},
}
_LENGTHENED: Final = frozenset("ヤユヨワヲ")
"""Long with their own small vowel, like the rows."""


def sounds(kana: str) -> list[str]:
    """Returns the symbols of katakana; what is none stays as it is."""
    said: list[str] = []
    place = 0
    while place < len(kana):
        pair = kana[place : place + 2]
        known = pair if pair in KANA else pair[0]
        said += KANA.get(known, (known,))
        place += len(known)
    return said


def _single() -> Iterator[tuple[str, str]]:
    others = dict(pair.split("=") for pair in _OTHERS.split())
    for row in _ROWS:
        consonant, _, kana = row.rpartition(" ")
        for sign, vowel in zip(kana, "aiueo", strict=True):
            yield sign, f"{others.get(sign, consonant)} {vowel}"
    yield from _PLAIN.items()


def _pairs(single: Mapping[str, Sounds]) -> Iterator[tuple[str, str]]:
    small = {single[sign][-1]: sign for sign in "ァィゥェォ"}
    for sign in (*"".join(row.rpartition(" ")[2] for row in _ROWS), *_LENGTHENED):
        yield sign + small[single[sign][-1]], f"{' '.join(single[sign])}:"
    for row in _PALATAL:
        consonant, kana = row.split()
        for sign in kana:
            yield from ((sign + glide, f"{consonant} {single[glide][-1]}") for glide in "ャュョ")
    for row in _LOANS:
        consonant, kana = row.split()
        yield from (
            (kana[place : place + 2], f"{consonant} {single[kana[place + 1]][-1]}") for place in range(0, len(kana), 2)
        )
    yield from _ODD.items()


def _table() -> Mapping[str, Sounds]:
    single = {sign: tuple(said.split()) for sign, said in _single()}
    return single | {pair: tuple(said.split()) for pair, said in _pairs(single)}


KANA: Final = _table()
"""The symbols of one kana, or of two that are one syllable."""
