"""What a voice is asked and what it answers: a text, an identity and an emotion become speech with visemes."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
    """A speech sound in time, from the start of its `Speech`; `viseme` is one of `VISEMES`."""

    symbol: str
    viseme: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Speech:
    """A stretch of speech: a text, a sentence of it or less; the pause after a sentence included.

    Attributes:
        samples: int16 (n,), mono.
        sample_rate_hz: Samples per second.
        phonemes: In order, without gaps; their durations sum to the length of `samples`.
        applied: What the delivery did, as measured numbers a person can check ("rate": 1.08, "pitch_hz": 203.0).
        ends_text: Whether this is the last stretch of one of the texts that were asked for.
    """

    samples: NDArray[np.int16]
    sample_rate_hz: int
    phonemes: tuple[Phoneme, ...]
    applied: dict[str, float]
    ends_text: bool


class Voice(Protocol):
    """A prepared voice; what is inside is the back-end's own affair. Cached by the digests of its recordings."""


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

    def prepare(self, references: Sequence[VoiceReference], profile: Profile) -> Voice:
        """Fits the voice to the recordings, one or more of the same person.

        Raises:
            services.common.errors.InvalidRequest: A recording is too short, silent or not speech.
        """

    def pack(self, voice: Voice) -> bytes:
        """Returns the fitted voice as bytes, at most 1 MiB, to be kept under this model's digest."""

    def unpack(self, content: bytes) -> Voice:
        """Returns what `pack` was given.

        Raises:
            ValueError: These are no bytes of `pack`.
        """

    def speak(self, texts: Sequence[str], voice: Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks the texts in order, each stretch as soon as it is ready; several texts may be worked on at once.

        Raises:
            services.common.errors.InvalidRequest: A text holds nothing that can be said.
        """

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
        self._voices: LastUsed[bytes, Voice] = LastUsed(voices_max)

    def restore(self, fitted: bytes, digests: Sequence[str], profile: Profile) -> bool:
        """Takes a voice that was fitted earlier; blocks.

        Args:
            fitted: What `pack` returned; may be empty.
            digests: SHA-256 (hex) of the recordings.
            profile: Who speaks.

        Returns:
            Whether the voice is known now: `fitted` is of this model, these recordings and this profile, or it was
            known before.
        """
        key = self._key(digests, profile)
        if key not in self._voices and fitted.startswith(key):
            # Packed by a version that wrote something else: the voice is fitted again.
            with suppress(ValueError):
                self._voices.get(key, lambda: self._backend.unpack(fitted[len(key) :]))
        return key in self._voices

    def voice(self, references: Sequence[VoiceReference], profile: Profile) -> Voice:
        """Returns the voice fitted to the recordings; blocks while it is fitted."""
        key = self._key([reference.digest for reference in references], profile)
        return self._voices.get(key, lambda: self._backend.prepare(references, profile))

    def pack(self, references: Sequence[VoiceReference], profile: Profile) -> bytes:
        """Returns the voice fitted to the recordings as bytes, for `restore`."""
        key = self._key([reference.digest for reference in references], profile)
        return key + self._backend.pack(self.voice(references, profile))

    def check(self, delivery: Delivery) -> None:
        """Refuses what cannot be delivered.

        Raises:
            InvalidRequest: The style is unknown to the model, or the intensity is out of range.
        """
        if delivery.style not in self._backend.styles:
            raise InvalidRequest("header.style", f"{delivery.style!r}; use one of: {', '.join(self._backend.styles)}")
        if not 0 <= delivery.intensity <= 1:
            raise InvalidRequest("header.emotion.intensity", f"{delivery.intensity:g}; send 0 to 1")

    def speak(self, texts: Sequence[str], voice: Voice, delivery: Delivery) -> Iterator[Speech]:
        """Speaks the texts in order; blocks."""
        return self._backend.speak(texts, voice, delivery)

    def _key(self, digests: Sequence[str], profile: Profile) -> bytes:
        """What a fitted voice depends on, as 32 bytes."""
        return hashlib.sha256(repr((self._backend.digest, tuple(digests), profile)).encode()).digest()
