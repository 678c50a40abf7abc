"""A sentence as one voice says it in one mood: composed at once, played stretch by stretch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from perception.voice import Floats, resample
from services.tts.domain import Phoneme
from services.tts.kokoro import stretches
from services.tts.kokoro.bending import bend, colour, cut, voiceless
from services.tts.kokoro.network import EARLY_FRAMES, FRAME_HZ, HOP, RATE_HZ, UNIT, Network, Score
from services.tts.speech import lips
from services.tts.speech.loudness import AUDIBLE_DB, CLEAR_DB, LEVEL_DBFS, faded, frame_levels, mean_level, raised
from services.tts.speech.manner import Manner
from services.tts.speech.timbre import WHISPER_MAX, Timbre, applied

LEAD_FRAMES = 6
"""The network is silent for 0.3 s before it speaks; this much is kept."""
TAIL_FRAMES = 6


@dataclass(frozen=True, eq=False)
class Played:
    """A stretch of sound: float32 `samples`, the phonemes timed from its start, and what was done to it."""

    samples: Floats
    phonemes: tuple[Phoneme, ...]
    applied: dict[str, float]
    is_last: bool


class Passage:
    """A sentence that is ready to be played.

    Args:
        plain: As the network reads it.
        usual_hz: Median pitch of the network's voice over many sentences.
        timbre: Who says it.
        move: In which mood.
        pause_s: The silence after it.
    """

    def __init__(self, plain: Score, usual_hz: float, timbre: Timbre, move: Manner, pause_s: float) -> None:
        plain = _trimmed(plain)
        self._timbre, self._move = timbre, move
        self._score, self._frames = bend(plain, usual_hz, timbre, move)
        self._pause_frames = round(pause_s * FRAME_HZ)
        ends = np.clip((plain.ends - EARLY_FRAMES) * (self._frames / plain.frames), 0, self._frames)
        ends[-1] = self._frames + self._pause_frames
        self._levels = _levels(self._score)
        heard = self._levels[np.arange(self._frames) * self._score.frames // self._frames]
        audible = np.pad(heard > heard.max() - AUDIBLE_DB, (0, self._pause_frames))
        self._phonemes = lips.timeline(plain.symbols, ends, audible, FRAME_HZ)

    def play(self, network: Network, seed: int) -> Iterator[Played]:
        """Makes the sound, stretch by stretch; the last one ends with the pause. Breath follows from `seed`."""
        cuts = [0, *stretches.places(self._score), self._score.frames]
        gain_db: float | None = None
        for start, end in pairwise(cuts):
            samples = self._sound(network, start, end, seed)
            levels = _measured(samples)
            if gain_db is None:
                # Measured once, how loud the sound is; told by the score, how loud the sentence is beside its start.
                louder = mean_level(self._levels[start:end]) - mean_level(self._levels)
                gain_db = LEVEL_DBFS + self._move.level_db - mean_level(levels) + louder
            samples = faded(raised(samples, gain_db))
            rate, level_dbfs = self._timbre.rate * self._move.rate, mean_level(_measured(samples))
            done = applied(self._timbre, self._move, rate, level_dbfs, self._clear_pitch(start, end, levels))
            is_last = end == self._score.frames
            if is_last:
                samples = np.concatenate([samples, np.zeros(self._pause_frames * HOP, np.float32)])
            start_s = self._sample(start) / RATE_HZ
            phonemes = tuple(_between(self._phonemes, start_s, start_s + len(samples) / RATE_HZ))
            yield Played(samples, phonemes, done, is_last)

    def _sample(self, frame: int) -> int:
        """The sample at which a frame of the score is heard."""
        return round(frame * self._frames * HOP / self._score.frames)

    def _sound(self, network: Network, start: int, end: int, seed: int) -> Floats:
        """Makes the sound of the frames from `start` up to `end`, from some of what is around them too."""
        first, last = max(0, start - stretches.CONTEXT), min(self._score.frames, end + stretches.CONTEXT)
        score, whisper = cut(self._score, first, last), self._move.whisper
        samples = np.zeros(score.frames * HOP, np.float32)
        if whisper < WHISPER_MAX:
            samples += np.float32(1 - whisper) * network.sound(score)
        if whisper > 0:
            samples += np.float32(min(1.0, whisper / WHISPER_MAX)) * network.sound(voiceless(score))
        samples = samples[(start - first) * HOP : (end - first) * HOP]
        samples = resample(samples, len(samples), self._sample(end) - self._sample(start))
        return colour(samples, self._heard_pitch(start, end), self._timbre, self._move, seed + start)

    def _heard_pitch(self, start: int, end: int) -> Floats:
        """The pitch that is heard, frame by frame of the score; 0 where there is none."""
        if self._move.whisper >= WHISPER_MAX:
            return np.zeros(end - start, np.float32)
        return np.asarray(self._score.pitch_hz[start:end] * (self._score.frames / self._frames), np.float32)

    def _clear_pitch(self, start: int, end: int, levels: NDArray[np.float64]) -> Floats:
        """The pitch where a listener hears it clearly."""
        pitch_hz = self._heard_pitch(start, end)
        loud = levels[np.arange(end - start) * len(levels) // (end - start)]
        return np.asarray(pitch_hz[loud > loud.max() - CLEAR_DB], np.float32)


def _measured(samples: Floats) -> NDArray[np.float64]:
    """The level of each frame of sound; what is left over of a frame is not measured."""
    return frame_levels(samples[: len(samples) // HOP * HOP], HOP)


def _levels(score: Score) -> NDArray[np.float64]:
    """What the score says about the level of each frame, in dB."""
    return np.asarray(stretches.DB_PER_LOUDNESS * score.loudness, np.float64)


def _trimmed(score: Score) -> Score:
    """Leaves out the silence before and after, so that no time is spent on making it."""
    levels = _levels(score)
    audible = np.flatnonzero(levels > levels.max() - AUDIBLE_DB)
    start = max(0, int(audible[0]) - LEAD_FRAMES) // UNIT * UNIT
    end = min(score.frames, -(-(int(audible[-1]) + 1 + TAIL_FRAMES) // UNIT) * UNIT)
    return cut(score, start, end)


def _between(phonemes: tuple[Phoneme, ...], start_s: float, end_s: float) -> Iterator[Phoneme]:
    """The phonemes from `start_s` to `end_s`, counted from there; one that is cut is in both parts."""
    for phoneme in phonemes:
        begin, end = max(start_s, phoneme.start_s), min(end_s, phoneme.start_s + phoneme.duration_s)
        if end - begin > 1e-9:
            yield Phoneme(phoneme.symbol, phoneme.viseme, begin - start_s, end - begin)
