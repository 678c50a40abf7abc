"""Ears of the voice benchmarks: a recogniser, a measure of speakers, and one of prosody."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel

from perception.speaker import SpeakerReader
from perception.voice import Floats, Prosody, VoiceReader, resample
from services.memory.domain import NewIdentity, ReferenceKind
from services.memory.ready import file_of, ready_identities
from services.tts.domain import Backend, Profile, Speech, Voice, VoiceReference
from services.tts.recordings import read_voice


@dataclass(frozen=True)
class Person:
    """An identity that comes with the project."""

    name: str
    profile: Profile
    recording: VoiceReference

    def voice(self, backend: Backend) -> Voice:
        """Fits the back-end's voice to the recording."""
        return backend.prepare([self.recording], self.profile)


@dataclass(frozen=True)
class Heard:
    """A stretch of recognised speech: `words` as the recogniser has them, from `start_s` to `end_s`."""

    words: tuple[str, ...]
    start_s: float
    end_s: float


class Ear:
    """Listens.

    Args:
        models_dir: The model folder, with what `make models WITH=kokoro` fetches.
    """

    def __init__(self, models_dir: Path = Path(".models")) -> None:
        self.speaker = SpeakerReader(models_dir / "ge2e" / "pretrained.pt")
        self.prosody = VoiceReader()
        folder = str(models_dir / "whisper-tiny-en")
        self._recogniser = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=1)

    def words(self, samples: Floats, sample_rate_hz: int) -> Heard:
        """Writes down what is said."""
        heard = resample(samples, sample_rate_hz, 16_000)
        segments, _ = self._recogniser.transcribe(heard, language="en", beam_size=1, word_timestamps=True)
        words = [word for segment in segments for word in segment.words]
        if not words:
            return Heard((), 0.0, 0.0)
        return Heard(spelt("".join(word.word for word in words)), words[0].start, words[-1].end)

    def read(self, samples: Floats, sample_rate_hz: int) -> Prosody:
        """Measures pitch, loudness and colour."""
        return self.prosody.read(samples, sample_rate_hz)


def people(names: Sequence[str] = ()) -> list[Person]:
    """Returns the identities that come with the project, or those of them that are named."""
    return [_person(identity) for identity in ready_identities() if not names or identity.id in names]


def _person(identity: NewIdentity) -> Person:
    known = identity.profile
    profile = Profile(known.age, known.gender, known.timbre, known.language)
    return Person(identity.id, profile, read_voice(file_of(identity, ReferenceKind.VOICE), "voice"))


def joined(speeches: Sequence[Speech]) -> Floats:
    """The sound of stretches of speech, float32."""
    return np.asarray(np.concatenate([speech.samples for speech in speeches]) / 32768, np.float32)


def spelt(text: str) -> tuple[str, ...]:
    """The words of a text, lower case, without punctuation."""
    return tuple("".join(c for c in text.lower().replace("-", " ") if c.isalnum() or c in " '").split())


def errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Counts the words that were replaced, left out or added (Levenshtein, 1965)."""
    row = list(range(len(heard) + 1))
    for place, word in enumerate(said, 1):
        previous, row[0] = row[0], place
        for column, other in enumerate(heard, 1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (word != other))
    return row[-1]
