"""A piece of text while it is being spoken: the sound that is ready goes out, cut where a sound of speech ends."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.tts.domain import Phoneme
from services.tts.openvoice.lips import REST, Sound
from services.tts.speech.loudness import FADE_SAMPLES, raised

Floats = NDArray[np.float32]


class Line:
    """A piece that is being spoken.

    Args:
        sounds: Of the piece, in time.
        pause: Samples of silence after it.
        gain_db: How much louder it shall be.
        rate_hz: Samples per second.
    """

    def __init__(self, sounds: Sequence[Sound], pause: int, gain_db: float, rate_hz: int) -> None:
        self._length = sounds[-1].end
        self._sounds = [*sounds, Sound(REST, "sil", self._length + pause)] if pause else list(sounds)
        self._gain_db = gain_db
        self._rate_hz = rate_hz
        self._waiting = np.zeros(0, np.float32)
        self._taken = 0
        self._sent = 0
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether all of it went out."""
        return self._next == len(self._sounds)

    def add(self, samples: Floats) -> None:
        """Takes the next float32 (n,) samples; those behind the end of the piece, padding of a batch, are left."""
        fresh = samples[: self._length - self._taken]
        places = np.arange(self._taken, self._taken + len(fresh))
        self._taken += len(fresh)
        edge = np.minimum(places + 1, self._length - places) / FADE_SAMPLES
        self._waiting = np.concatenate(
            [self._waiting, raised(fresh, self._gain_db) * np.minimum(edge, 1)], dtype=np.float32
        )
        if self._taken == self._length:
            silence = self._sounds[-1].end - self._sent - len(self._waiting)
            self._waiting = np.concatenate([self._waiting, np.zeros(silence, np.float32)])

    def take(self, least: int) -> tuple[NDArray[np.int16], tuple[Phoneme, ...]] | None:
        """Returns what is ready up to the end of a sound, if these are `least` samples or the last; else None."""
        known = self._sent + len(self._waiting)
        ready = self._next
        while ready < len(self._sounds) and self._sounds[ready].end <= known:
            ready += 1
        if ready == self._next:
            return None
        count = self._sounds[ready - 1].end - self._sent
        if count < least and ready < len(self._sounds):
            return None
        sounds, self._next = self._sounds[self._next : ready], ready
        samples, self._waiting = self._waiting[:count], self._waiting[count:]
        phonemes = tuple(self._phonemes(sounds))
        self._sent += count
        return np.round(samples * 32767).astype(np.int16), phonemes

    def _phonemes(self, sounds: Sequence[Sound]) -> list[Phoneme]:
        phonemes = []
        start = self._sent
        for sound in sounds:
            begin_s, duration_s = (start - self._sent) / self._rate_hz, (sound.end - start) / self._rate_hz
            phonemes.append(Phoneme(sound.symbol, sound.viseme, begin_s, duration_s))
            start = sound.end
        return phonemes
