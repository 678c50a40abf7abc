"""What a voice is asked and what it answers: a text, an identity and an emotion become speech with visemes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.common.caches import LastUsed
from services.common.errors import InvalidRequest

VISEMES = ("sil", "PP", "FF", "TH", "DD", "kk", "CH", "SS", "nn", "RR", "aa", "E", "I", "O", "U")
"""The fifteen mouth shapes of the Oculus set; "sil" is the mouth at rest."""


@dataclass(frozen=True)
class Profile:
    """Who speaks: `age` child|young|middle-aged|elderly, `gender` female|male, `timbre` high|mid|low."""

    age: str
    gender: str
    timbre: str
    language: str = "en"


@dataclass(frozen=True)
class VoiceReference:
    """A recording of the identity's voice: float32 (n,), mono, -1 to 1. `digest` is the SHA-256 of the stored file."""

    digest: str
    samples: NDArray[np.float32]
    sample_rate_hz: int


@dataclass(frozen=True)
class Delivery:
    """How to say it: `style` is one of the wheel's voice styles, `intensity` 0 (plain) to 1 (strong)."""

    style: str
    intensity: float


@dataclass(frozen=True)
class Phoneme:
    """A speech sound in time, from the start of its sentence; `viseme` is one of `VISEMES`."""

    symbol: str
    viseme: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Speech:
    """A whole spoken sentence, the pause after it included.

    Attributes:
        samples: int16 (n,), mono.
        sample_rate_hz: Samples per second.
        phonemes: In order, without gaps; their durations sum to the length of `samples`.
        applied: What the delivery did, as measured numbers a person can check ("rate": 1.08, "pitch_hz": 203.0).
    """

    samples: NDArray[np.int16]
    sample_rate_hz: int
    phonemes: tuple[Phoneme, ...]
    applied: dict[str, float]


class Voice(Protocol):
    """A prepared voice; what is inside is the back-end's own affair. Cached by the digest of its reference."""


class Backend(Protocol):
    """One loaded speech model. Calls may block; one thread calls at a time."""

    model: str
    """Name of the model."""
    digest: str
    """SHA-256 (hex) of its weights."""
    sample_rate_hz: int
    styles: tuple[str, ...]
    """The voice styles that it has, names of the wheel."""
    languages: tuple[str, ...]

    def prepare(self, reference: VoiceReference, profile: Profile) -> Voice:
        """Fits the voice to the reference recording.

        Raises:
            services.common.errors.InvalidRequest: The recording is too short, silent or not speech.
        """

    def speak(self, text: str, voice: Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks `text`, one `Speech` per sentence, as soon as each is ready."""

    def close(self) -> None:
        """Frees the model."""


class Speaker:
    """Speaks with the voices that it was lent, and remembers the last of them.

    Args:
        backend: The speech model.
        voices_max: How many fitted voices are kept.
    """

    def __init__(self, backend: Backend, voices_max: int) -> None:
        self._backend = backend
        self._voices: LastUsed[tuple[str, Profile], Voice] = LastUsed(voices_max)

    def knows(self, digest: str, profile: Profile) -> bool:
        """Tells whether the voice needs no fitting."""
        return (digest, profile) in self._voices

    def voice(self, reference: VoiceReference, profile: Profile) -> Voice:
        """Returns the voice fitted to `reference`; blocks while it is fitted."""
        key = (reference.digest, profile)
        return self._voices.get(key, lambda: self._backend.prepare(reference, profile))

    def check(self, delivery: Delivery) -> None:
        """Refuses what cannot be delivered.

        Raises:
            InvalidRequest: The style is unknown to the model, or the intensity is out of range.
        """
        if delivery.style not in self._backend.styles:
            raise InvalidRequest("header.style", f"{delivery.style!r}; use one of: {', '.join(self._backend.styles)}")
        if not 0 <= delivery.intensity <= 1:
            raise InvalidRequest("header.emotion.intensity", f"{delivery.intensity:g}; send 0 to 1")

    def speak(self, text: str, voice: Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks `text`, one `Speech` per sentence; blocks."""
        return self._backend.speak(text, voice, delivery)
