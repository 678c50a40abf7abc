"""Times the sounds of a sentence and gives each the shapes that the mouth takes for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from services.tts.speech.lips import DIPHTHONG_TURN, VISEMES

IPA: Final[Mapping[str, tuple[str, ...]]] = {
    **{symbol: (viseme,) for symbol, viseme in VISEMES.items()},
    "g": ("kk",),
    "ɫ": ("nn",),
}
"""The Oculus mouth shape of each letter of V1's English. Diphthongs are two letters."""

ARPABET: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        symbol: (viseme,)
        for viseme, symbols in {
            "PP": "p b m",
            "FF": "f V",
            "TH": "th dh",
            "DD": "t d",
            "kk": "k g ng hh",
            "CH": "ch jh sh zh y",
            "SS": "s z",
            "nn": "n l",
            "RR": "r er",
            "aa": "aa ae ah",
            "E": "eh",
            "I": "ih iy",
            "O": "ao",
            "U": "uh uw w",
        }.items()
        for symbol in symbols.split()
    },
    "aw": ("aa", "U"),
    "ay": ("aa", "I"),
    "ey": ("E", "I"),
    "ow": ("O", "U"),
    "oy": ("O", "I"),
}
"""The mouth shapes of each sound of MeloTTS' English; of a diphthong two, for the mouth moves."""

MARKS: Final = frozenset(",.!?…-~")
"""At these the mouth rests."""
REST: Final = "_"
REST_S: Final = 0.12
"""A longer gap between two words is a rest as well; a shorter one belongs to its neighbours, or the mouth would shut
between all words."""


@dataclass(frozen=True)
class Sound:
    """A sound or a rest in time; `end` counts samples from the start of the sentence."""

    symbol: str
    viseme: str
    end: int


def timeline(
    symbols: Sequence[str], ends: Sequence[int], shapes: Mapping[str, tuple[str, ...]], rest: int
) -> list[Sound]:
    """Returns the sounds of a sentence without gaps, from 0 to its end.

    Blanks, stress marks and spaces last too; their time goes to the sounds around them.

    Args:
        symbols: As they were spoken.
        ends: Sample at which each ends, rising.
        shapes: `IPA` or `ARPABET`.
        rest: So many samples of a gap are a rest.
    """
    sounds: list[Sound] = []
    gap, is_mark, start = 0, True, 0  # a sentence begins with a rest
    for symbol, end in zip(symbols, ends, strict=True):
        if symbol not in shapes:
            gap += end - start
            is_mark = is_mark or symbol in MARKS
        else:
            _close(sounds, start - gap, start, is_mark or gap >= rest)
            sounds += _shapes(symbol, shapes[symbol], sounds[-1].end if sounds else 0, end)
            gap, is_mark = 0, False
        start = end
    if gap:
        sounds.append(Sound(REST, "sil", start))
    return sounds


def _close(sounds: list[Sound], start: int, end: int, rests: bool) -> None:
    """Makes the gap from `start` to `end` a rest, or gives half of it to the sound before."""
    if end == start:
        return
    if rests:
        sounds.append(Sound(REST, "sil", end))
    else:
        sounds[-1] = Sound(sounds[-1].symbol, sounds[-1].viseme, (start + end) // 2)


def _shapes(symbol: str, visemes: tuple[str, ...], start: int, end: int) -> list[Sound]:
    if len(visemes) == 1 or end - start < 2:
        return [Sound(symbol, visemes[0], end)]
    turn = start + round(DIPHTHONG_TURN * (end - start))
    return [Sound(symbol, visemes[0], turn), Sound(symbol, visemes[1], end)]
