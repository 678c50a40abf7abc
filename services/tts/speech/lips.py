# ruff: noqa: RUF001 - phonetic symbols are not the letters that they look like
"""Times the phonemes of an utterance and gives each the shape that the mouth takes for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.tts.domain import Phoneme

VISEMES: dict[str, str] = {
    symbol: viseme
    for viseme, symbols in {
        "PP": "p b m ɸ β",
        "FF": "f v ʋ",
        "TH": "θ ð",
        "DD": "t d T ɾ ɖ ʈ ʔ ɽ",
        "kk": "k ɡ ŋ x h q c ɟ ɣ χ ç ʝ ɰ ʁ ɴ",
        "CH": "ʧ ʤ ʃ ʒ ʂ ɕ ʥ ʨ j",
        "SS": "s z ʦ ʣ ꭧ",
        "nn": "n l ɲ ɳ ʎ",
        "RR": "ɹ r ɻ ɚ ɜ",
        "aa": "ɑ a ʌ ɐ æ ɒ",
        "E": "ɛ e ə ᵊ ø œ",
        "I": "ɪ i ᵻ ɨ y",
        "O": "ɔ o ɤ",
        "U": "u ʊ w ɯ ɥ ᵝ",
    }.items()
    for symbol in symbols.split()
}
"""The Oculus mouth shape (Meta's "Viseme Reference") of every sound of the model's alphabet that is not a diphthong."""

DIPHTHONGS = {"A": "eɪ", "I": "aɪ", "O": "oʊ", "Q": "əʊ", "W": "aʊ", "Y": "ɔɪ", "S": "əl"}
"""Two sounds that the alphabet writes with one letter (Kokoro's and misaki's convention): the mouth moves."""
DIPHTHONG_TURN = 0.6
"""Share of a diphthong that its first sound takes."""

BEFORE = frozenset("ˈˌ")
"""Stress marks: their time belongs to the sound after them."""
AFTER = frozenset("ːʰʲ\u0303")
"""Length and colour: their time belongs to the sound before them."""
PAUSE = "_"

QUIET_TAIL_S = 0.05
"""A sound that has died away keeps its mouth shape this much longer, then the mouth rests."""


@dataclass(frozen=True)
class _Span:
    symbol: str
    end: float

    @property
    def is_gap(self) -> bool:
        return self.symbol == PAUSE


def is_sound(symbol: str) -> bool:
    """Tells sounds from stress marks, punctuation and spaces."""
    return symbol in VISEMES or symbol in DIPHTHONGS


def timeline(
    symbols: Sequence[str], ends: NDArray[np.float64], audible: NDArray[np.bool_], frame_hz: float
) -> tuple[Phoneme, ...]:
    """Returns the phonemes of an utterance in time, without gaps, from 0 to its end.

    The network gives time to spaces and stress marks too. A space becomes a rest only where nothing is heard;
    else the mouth would shut between all words, so its time goes to its neighbours.

    Args:
        symbols: What was spoken, letter by letter; "" is an edge.
        ends: Frame at which each ends, float64 (symbols,), rising, the last one is the number of frames.
        audible: Whether each frame is heard, bool (frames,).
        frame_hz: Frames per second.
    """
    spans = _rests(_gaps(symbols, ends), audible, QUIET_TAIL_S * frame_hz)
    phonemes: list[Phoneme] = []
    start = 0.0
    for span in spans:
        for symbol, end in _parts(span, start):
            if end > start:
                viseme = VISEMES.get(symbol, "sil")
                phonemes.append(Phoneme(symbol, viseme, start / frame_hz, (end - start) / frame_hz))
                start = end
    return tuple(phonemes)


def _gaps(symbols: Sequence[str], ends: NDArray[np.float64]) -> list[_Span]:
    """Joins marks to their sounds and neighbouring spaces, punctuation and edges to one gap."""
    spans: list[_Span] = []
    for symbol, end in zip(symbols, ends.tolist(), strict=True):
        if symbol in BEFORE and symbol:
            continue
        kind = symbol if is_sound(symbol) else PAUSE
        if spans and ((symbol in AFTER and symbol) or (kind == PAUSE and spans[-1].is_gap)):
            spans[-1] = _Span(spans[-1].symbol, end)
        else:
            spans.append(_Span(kind, end))
    return spans


def _rests(spans: list[_Span], audible: NDArray[np.bool_], tail: float) -> list[_Span]:
    """Keeps the gaps that are silent, widens them over a dying sound before them, and shares out the others."""
    rests: list[_Span] = []
    start = 0.0
    for index, span in enumerate(spans):
        is_edge = index in (0, len(spans) - 1)
        if not span.is_gap:
            rests.append(span)
        elif is_edge or not _is_heard(audible, start, span.end):
            if rests:
                sound_start = rests[-2].end if len(rests) > 1 else 0.0
                heard_end = _last_heard(audible, sound_start, start) + tail
                rests[-1] = _Span(rests[-1].symbol, min(start, max(heard_end, sound_start + tail)))
            rests.append(span)
        else:
            rests[-1] = _Span(rests[-1].symbol, (start + span.end) / 2)
        start = span.end
    return rests


def _is_heard(audible: NDArray[np.bool_], start: float, end: float) -> bool:
    part = audible[int(start) : max(int(start) + 1, round(end))]
    return bool(np.mean(part) > 0.5) if len(part) else False


def _last_heard(audible: NDArray[np.bool_], start: float, end: float) -> float:
    heard = np.flatnonzero(audible[int(start) : round(end)])
    return int(start) + float(heard[-1]) + 1 if len(heard) else start


def _parts(span: _Span, start: float) -> list[tuple[str, float]]:
    if span.symbol not in DIPHTHONGS:
        return [(span.symbol, span.end)]
    glide = DIPHTHONGS[span.symbol]
    return [(glide[0], start + DIPHTHONG_TURN * (span.end - start)), (glide[1], span.end)]
