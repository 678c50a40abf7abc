"""What a voice is asked and what it answers: a text, an identity and an emotion become speech with visemes."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.common.caches import LastUsed
from services.common.errors import InvalidRequest

_log = logging.getLogger(__name__)

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


Own = TypeVar("Own")


def own(voice: Voice, kind: type[Own]) -> Own:
    """Returns a voice as what its back-end makes.

    Raises:
        TypeError: It is another back-end's.
    """
    if not isinstance(voice, kind):
        raise TypeError(f"{type(voice).__name__} is not a voice that this back-end prepared")
    return voice


class Backend(Protocol):
    """One loaded speech model. Calls may block; one thread calls at a time."""

    model: str
    """Name of the model."""
    digest: str
    """SHA-256 (hex) of its weights, and of what was chosen among what they can do."""
    fitting: int
    """Raised when recordings are fitted otherwise, or voices packed otherwise: what was fitted before is then stale."""
    sample_rate_hz: int
    styles: tuple[str, ...]
    """The voice styles that it has, names of the wheel."""
    languages: tuple[str, ...]
    """ISO 639-1."""
    texts_max: int
    """How many texts it gains by speaking at once; while it speaks them, other callers wait."""

    def check(self, reference: VoiceReference) -> None:
        """Listens whether a voice can be fitted to a recording.

        Raises:
            services.common.errors.InvalidRequest: It is too short, silent or not speech.
        """

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

        Style and language are among its own, and the intensity is 0 to 1: `Voices.check` has seen to that.

        Raises:
            services.common.errors.InvalidRequest: A text holds nothing that can be said.
            TypeError: The voice is another back-end's.
        """

    def close(self) -> None:
        """Frees the model."""


@dataclass(frozen=True)
class Fitted:
    """A voice that is ready.

    Attributes:
        voice: What to speak with.
        fit_s: Seconds that fitting it took; 0 when it was known.
        packed: The voice as bytes, to be kept and sent again; empty when those that were sent are this voice.
    """

    voice: Voice
    fit_s: float
    packed: bytes


VOICE_KEEP_S = 60.0
"""A voice is held so long after its last use: an erasure of its identity counts on it."""


class Voices:
    """The voices that a model was lent, the last of them kept.

    Args:
        backend: The speech model.
        voices_max: How many fitted voices are kept.
        clock: Tells the time in seconds.
    """

    def __init__(self, backend: Backend, voices_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._voices: LastUsed[bytes, Voice] = LastUsed(voices_max, keep_s=VOICE_KEEP_S, clock=clock)

    def drop_unused(self) -> None:
        """Drops the voices that nobody has spoken with for long; every fit does so too."""
        self._voices.drop_unused()

    def check(self, profile: Profile, delivery: Delivery) -> None:
        """Refuses what the model cannot speak.

        Raises:
            InvalidRequest: Language or style are not the model's, or the intensity is out of range.
        """
        languages, styles = self._backend.languages, self._backend.styles
        if profile.language.split("-")[0] not in languages:
            raise InvalidRequest("header.profile.language", f"{profile.language!r}; use one of: {', '.join(languages)}")
        if delivery.style not in styles:
            raise InvalidRequest("header.style", f"{delivery.style!r}; use one of: {', '.join(styles)}")
        if not 0 <= delivery.intensity <= 1:
            raise InvalidRequest("header.emotion.intensity", f"{delivery.intensity:g}; send 0 to 1")

    def fit(
        self, digests: Sequence[str], profile: Profile, packed: bytes, read: Callable[[], Sequence[VoiceReference]]
    ) -> Fitted:
        """Returns the voice of an identity; blocks while it is fitted.

        Args:
            digests: SHA-256 (hex) of its recordings.
            profile: Who speaks.
            packed: `Fitted.packed` of an earlier call, of this service or of another; may be empty. It is used when it
                is of this model, these recordings and this profile.
            read: Decodes the recordings; called when the voice is not known.

        Raises:
            InvalidRequest: A recording cannot be a voice.
        """
        key, started_s = self._key(digests, profile), time.monotonic()
        is_sent = packed.startswith(key)
        # One that was sent serves only who sends the same: it may come out of an archive that somebody has made up.
        name = key + hashlib.sha256(packed).digest() if is_sent else key
        known = name in self._voices or (is_sent and self._restore(name, packed[len(key) :]))
        voice = self._voices.get(name, lambda: self._backend.prepare(read(), profile))
        if known and is_sent:
            return Fitted(voice, 0, b"")
        return Fitted(voice, 0 if known else time.monotonic() - started_s, key + self._backend.pack(voice))

    def _restore(self, name: bytes, packed: bytes) -> bool:
        try:
            voice = self._backend.unpack(packed)
        except ValueError as problem:
            _log.warning("a fitted voice cannot be read and is fitted again: %s", problem)
            return False
        self._voices.get(name, lambda: voice)
        return True

    def _key(self, digests: Sequence[str], profile: Profile) -> bytes:
        """What a fitted voice depends on, as 32 bytes."""
        backend = self._backend
        return hashlib.sha256(repr((backend.digest, backend.fitting, tuple(digests), profile)).encode()).digest()
