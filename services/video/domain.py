"""What a face is asked and what it answers: a portrait, an emotion and speech become frames."""

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.common.caches import LastUsed
from services.common.errors import InvalidRequest

_log = logging.getLogger(__name__)

PACKED_BYTES_MAX = 16 << 20
"""Largest rigged face that is handed out or taken."""
RIG_KEEP_S = 60.0
"""A rig is held so long after its last use: an erasure of its identity counts on it."""
DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Portrait:
    """A photograph of one face: `image` uint8 (height, width, 3), RGB. `digest` is the SHA-256 of the stored file."""

    digest: str
    image: NDArray[np.uint8]


@dataclass(frozen=True)
class Expression:
    """What the face shows: `face_class` is one of the wheel's classes, `intensity` 0 (neutral) to 1 (strong)."""

    face_class: str
    intensity: float


@dataclass(frozen=True)
class VisemeSpan:
    """A mouth shape in time, from the start of what the performance is fed; names as in the tts contract."""

    viseme: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Speech:
    """The next stretch of audio, int16 (n,) mono, with the mouth shapes that begin in it."""

    samples: NDArray[np.int16]
    sample_rate_hz: int
    visemes: tuple[VisemeSpan, ...]


class Rig(Protocol):
    """A portrait made ready to move; what is inside is the back-end's own affair. Cached by the portrait's digest."""


@dataclass(frozen=True)
class Progress:
    """A renderer that shows nothing before its last step says so after each: `done` is 0 to 1.

    A cancelled call stops here, so a renderer yields one at least every few seconds.
    """

    done: float


Frame = NDArray[np.uint8]
"""uint8 (size_px, size_px, 3), RGB."""


@dataclass(frozen=True)
class Segments:
    """How a reply is cut for a renderer that takes a few seconds of speech at once.

    Attributes:
        first_s: The least of the reply's first segment, which its viewer waits for.
        min_s: The least of the others, but the last.
        max_s: The most of each.
        window_s: A segment costs as much as one that fills the last of its windows of so many seconds; 0 when it costs
            by its length.
    """

    first_s: float
    min_s: float
    max_s: float
    window_s: float = 0.0


class Performance(Protocol):
    """One reply, or one segment of it, being animated."""

    def feed(self, speech: Speech) -> Iterator[Frame | Progress]:
        """Takes the next stretch of audio; yields the frames that it completes."""

    def finish(self) -> Iterator[Frame | Progress]:
        """Yields what remains, so that the frames cover all the audio: ceil(duration_s * fps) in all."""


class Backend(Protocol):
    """One loaded renderer. Calls may block; one thread calls at a time."""

    model: str
    """Name of the model."""
    digest: str
    """SHA-256 (hex) of its weights."""
    rigging: int
    """Raised when portraits are rigged otherwise, or rigs packed otherwise: what was rigged before is then stale."""
    classes: tuple[str, ...]
    """The face classes that it can show, names of the wheel."""
    fps: int
    size_px: int
    qualities: tuple[str, ...]
    """Names of its quality tiers, best first; at least one. All give frames of `size_px` at `fps`."""
    segments: Segments | None
    """What it renders at once; None when it renders speech as it comes."""

    def cost_s(self, duration_s: float, quality: str) -> float:
        """Returns the seconds that rendering that much speech will take; 0 when nobody has to wait for it."""

    def prepare(self, portrait: Portrait) -> Rig:
        """Finds the face and makes the portrait ready to move.

        Raises:
            services.common.errors.InvalidRequest: There is not exactly one usable face; the message says why
                (none, two, too small, turned away) and what would be right.
        """

    def pack(self, rig: Rig) -> bytes:
        """Returns what is slow to find out about a portrait as bytes, to be kept; empty when nothing is worth it."""

    def unpack(self, content: bytes, image: Callable[[], NDArray[np.uint8]]) -> Rig:
        """Returns the rig that `pack` was given, with which a performance gives the same frames.

        Args:
            content: What `pack` returned, here or in another process.
            image: Gives the portrait's picture, as in `Portrait`.

        Raises:
            ValueError: These are no bytes of `pack`, or of a renderer with other settings.
        """

    def flaw(self, image: NDArray[np.uint8]) -> str:
        """Returns why a picture of a film, uint8 (height, width, 3), RGB, has not exactly one usable face.

        A few words without figures ("no face", "turned away"); empty when it has.
        """

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> Performance:
        """Begins one reply or segment. The same seed gives the same blinks and head motion."""

    def close(self) -> None:
        """Frees the model."""


@dataclass(frozen=True)
class Rigged:
    """A portrait that is ready to move.

    Attributes:
        rig: What to perform with.
        rig_s: Seconds that rigging it took; 0 when it was known.
        packed: It as bytes, to be kept and sent again; empty when a caller has it already, or it is not worth keeping.
    """

    rig: Rig
    rig_s: float
    packed: bytes


@dataclass
class _Known:
    """A rig that is remembered; `is_out`: some caller has it as bytes."""

    rig: Rig
    is_out: bool


class Studio:
    """Animates the portraits that it was lent, and remembers the last rigs.

    Args:
        backend: The renderer.
        rigs_max: How many rigs are kept.
        clock: Tells the time in seconds.
    """

    def __init__(self, backend: Backend, rigs_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._rigs: LastUsed[bytes, _Known] = LastUsed(rigs_max, keep_s=RIG_KEEP_S, clock=clock)

    def drop_unused(self) -> None:
        """Drops the rigs that nobody has filmed with for long; every use of another does so too."""
        self._rigs.drop_unused()

    def check_portrait(self, digest: str, image: Callable[[], NDArray[np.uint8]]) -> None:
        """Rigs a portrait for later; the arguments are those of `rig`.

        Raises:
            InvalidRequest: There is not exactly one usable face.
        """
        self._find(digest, image, b"")

    def rig(self, digest: str, image: Callable[[], NDArray[np.uint8]], packed: bytes = b"") -> Rigged:
        """Returns the rig of a portrait; blocks while it is made.

        It is handed out as bytes once: with the first call that does not bring it.

        Args:
            digest: SHA-256 of the stored file.
            image: Gives the picture, as in `Portrait`; called only when it is not rigged yet.
            packed: `Rigged.packed` of an earlier call, of this service or of another; may be empty. It is used when it
                is of this model and this portrait.

        Raises:
            InvalidRequest: There is not exactly one usable face.
        """
        packed = packed if packed.startswith(self._key(digest)) else b""
        was_known, started_s = self._name(digest, packed) in self._rigs, time.monotonic()
        known = self._find(digest, image, packed)
        rig_s = 0.0 if was_known or known.is_out else time.monotonic() - started_s
        return Rigged(known.rig, rig_s, self._hand_out(digest, known))

    def _find(self, digest: str, image: Callable[[], NDArray[np.uint8]], packed: bytes) -> _Known:
        def make() -> _Known:
            if packed:
                try:
                    return _Known(self._backend.unpack(_unsealed(packed), image), is_out=True)
                except ValueError as problem:
                    _log.warning("a rigged face cannot be read and is rigged again: %s", problem)
            return _Known(self._backend.prepare(Portrait(digest, image())), is_out=False)

        return self._rigs.get(self._name(digest, packed), make)

    def _hand_out(self, digest: str, known: _Known) -> bytes:
        if known.is_out:
            return b""
        known.is_out = True
        content = self._backend.pack(known.rig)
        packed = self._key(digest) + hashlib.sha256(content).digest() + content
        return packed if content and len(packed) <= PACKED_BYTES_MAX else b""

    def _name(self, digest: str, packed: bytes) -> bytes:
        """What a rig is remembered by: one that was brought serves only who brings the same.

        It may come out of an archive that somebody has made up, and others have the same portrait.
        """
        return self._key(digest) + hashlib.sha256(packed).digest()

    def _key(self, digest: str) -> bytes:
        """What a rig depends on, as 32 bytes."""
        return hashlib.sha256(repr((self._backend.digest, self._backend.rigging, digest)).encode()).digest()

    def check(self, expression: Expression) -> None:
        """Refuses what cannot be shown.

        Raises:
            InvalidRequest: The class is unknown to the renderer, or the intensity is out of range.
        """
        if expression.face_class not in self._backend.classes:
            known = ", ".join(self._backend.classes)
            raise InvalidRequest("header.face_class", f"{expression.face_class!r}; use one of: {known}")
        if not 0 <= expression.intensity <= 1:
            raise InvalidRequest("header.emotion.intensity", f"{expression.intensity:g}; send 0 to 1")

    def check_duration(self, duration_s: float) -> None:
        """Refuses more speech than the renderer takes at once, and speech of unknown length where that costs.

        Raises:
            InvalidRequest: The duration is not a number of seconds that the renderer can take.
        """
        segments = self._backend.segments
        if not 0 <= duration_s < math.inf:
            raise InvalidRequest("header.duration_s", f"{duration_s:g}; send the seconds of the speech")
        if segments and not 0 < duration_s <= segments.max_s:
            problem = f"{duration_s:g}; this renderer must know it, and takes segments of at most {segments.max_s:g} s"
            raise InvalidRequest("header.duration_s", problem)

    def tiers(self, wished: str) -> tuple[str, ...]:
        """Returns the quality tiers that may be used, best first: all, or from the one that is wished downwards.

        Raises:
            InvalidRequest: The renderer has no such tier.
        """
        qualities = self._backend.qualities
        if not wished:
            return qualities
        if wished not in qualities:
            raise InvalidRequest("header.quality", f"{wished!r}; use one of: {', '.join(qualities)}")
        return qualities[qualities.index(wished) :]

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> Performance:
        """Begins one reply or segment."""
        return self._backend.perform(rig, expression, seed, quality)


def _unsealed(packed: bytes) -> bytes:
    """Returns what was packed, behind its key and its SHA-256.

    Raises:
        ValueError: It is not what was packed.
    """
    content = packed[2 * DIGEST_BYTES :]
    if hashlib.sha256(content).digest() != packed[DIGEST_BYTES : 2 * DIGEST_BYTES]:
        raise ValueError("it is damaged")
    return content
