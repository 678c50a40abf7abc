"""Cuts a sentence where nobody hears it, so that its start can be heard while its end is still being made."""

import unicodedata

import numpy as np
from numpy.typing import NDArray

from services.tts.kokoro.network import EARLY_FRAMES, FRAME_HZ, UNIT, Score
from services.tts.speech.timbre import VOICED_HZ

FIRST_S = 0.7
"""The first stretch lasts at least this long."""
GROWTH = 1.25
"""Each may be so many times as long as the one before: sound is made faster than it is heard, and the more is in hand,
the longer the next one may take."""
LONGEST_S = 4.0
WIDTH = 1.7
"""The quietest place is looked for up to this many times the shortest length."""
QUIET_DB, QUIET_VOICED_DB = 12.0, 18.0
"""A place is quiet if it lies at least this far below the loudest of the sentence, without and with a voice: two waves
that do not fit together are heard in a vowel, and not in the closure of a b."""
LAST_S = 0.8
"""What remains must be at least this long: of less than that the network makes other vowels."""
NEAR_FRAMES = 3
"""A word ends somewhere around the time that the network gives for it."""
CONTEXT = 12
"""Frames before and after a stretch that the network sees too: its convolutions reach about 0.15 s to either side."""
DB_PER_LOUDNESS = float(10 / np.log(10))


def places(score: Score) -> list[int]:
    """Returns the frames at which to cut, whole units, between the start and the end of the score."""
    quiet = _quiet(score)
    found: list[int] = []
    start, shortest = 0, FIRST_S
    while True:
        first = start + round(shortest * FRAME_HZ)
        last = score.frames - round(LAST_S * FRAME_HZ)
        window = [frame for frame in quiet if first <= frame <= min(last, start + round(WIDTH * shortest * FRAME_HZ))]
        later = [frame for frame in quiet if first <= frame <= last]
        if not later:
            return found
        start = min(window, key=lambda frame: quiet[frame]) if window else later[0]
        found.append(start)
        shortest = min(LONGEST_S, shortest * GROWTH)


def _quiet(score: Score) -> dict[int, float]:
    """Level in dB of the places where the sentence can be cut, by frame: where a word ends, and it is quiet."""
    level = DB_PER_LOUDNESS * score.loudness
    loudest = float(level.max())
    between = _between_words(score)
    found = {}
    for frame in range(UNIT, score.frames - UNIT, UNIT):
        near = slice(frame - 1, frame + 1)
        here = float(level[near].max())
        is_voiced = bool(np.any(score.pitch_hz[near] > VOICED_HZ))
        if between[frame] and here < loudest - (QUIET_VOICED_DB if is_voiced else QUIET_DB):
            found[frame] = here
    return found


def _between_words(score: Score) -> NDArray[np.bool_]:
    """Whether each frame lies between two words, bool (frames,)."""
    found = np.zeros(score.frames, bool)
    starts = np.concatenate([[0.0], score.ends[:-1]]) - EARLY_FRAMES
    for symbol, start, end in zip(score.symbols, starts, score.ends - EARLY_FRAMES, strict=True):
        if symbol.isspace() or unicodedata.category(symbol or "x").startswith("P"):
            found[max(0, int(start) - NEAR_FRAMES) : max(0, int(end) + NEAR_FRAMES)] = True
    return found
