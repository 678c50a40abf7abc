"""Ear that tells voices apart in recordings."""

import io
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perception.speaker import Floats, SpeakerReader


@dataclass(frozen=True)
class Recording:
    """Speech: float32 (n,) mono, -1 to 1."""

    samples: Floats
    sample_rate_hz: int


class Ear:
    """Tells which of several voices speaks in a recording.

    Args:
        reader: Embeds recordings.
        known: Recordings by the voice that speaks in them; several of each, for voices have moods.
    """

    def __init__(self, reader: SpeakerReader, known: Mapping[str, Sequence[Recording]]) -> None:
        self._reader = reader
        self._known = {name: [self._embed(each) for each in recordings] for name, recordings in known.items()}

    def likeness(self, recording: Recording) -> dict[str, float]:
        """Return how like a recording is to the likest one of each voice."""
        heard = self._embed(recording)
        return {name: max(float(heard @ each) for each in known) for name, known in self._known.items()}

    def _embed(self, recording: Recording) -> Floats:
        return self._reader.embed(recording.samples, recording.sample_rate_hz)


def from_pcm(content: bytes, sample_rate_hz: int) -> Recording:
    """Return a recording of signed 16-bit samples."""
    return Recording((np.frombuffer(content, "<i2") / 32768).astype(np.float32), sample_rate_hz)


def from_wav(content: bytes) -> Recording:
    """Return a recording of a WAV file."""
    with wave.open(io.BytesIO(content)) as file:
        return from_pcm(file.readframes(-1), file.getframerate())
