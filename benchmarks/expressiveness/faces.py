"""Looks at the frames of a finished film: which emotion, whose face, and how the mouth goes with the sound."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.expressiveness import lips, takes
from benchmarks.expressiveness.judges import Judge, cut_out
from benchmarks.expressiveness.takes import Take
from perception.face import Face, FaceReader

if TYPE_CHECKING:  # it needs dlib, which is only there where the benchmark is run
    from benchmarks.expressiveness.likeness import Likeness

FPS = 25
SETTLED_S = 0.6
"""The emotion comes up within the first half second; only then is it judged."""
JUDGED_EVERY = 5
"""Frames from one that is judged to the next."""
LIKENESS_FRAMES = 3

Floats = NDArray[np.float64]


class FaceLost(Exception):
    """No face is found in a frame: a renderer that does this has failed, and nothing else about it matters."""


@dataclass(frozen=True)
class Sight:
    """What one film shows.

    Attributes:
        take: The film.
        seen: Per judge, float64 (7,): mean probability per `judges.CLASSES` over the judged frames.
        embeddings: float64 (n, 128), whose face it is in frames spread over the film.
        gaps_mm: float64 (frames,), how far the lips are apart.
        levels: float64 (frames,), the sound's level in dB.
        sync: Lips against sound.
    """

    take: Take
    seen: Mapping[str, Floats]
    embeddings: Floats
    gaps_mm: Floats
    levels: Floats
    sync: lips.Sync


class Eye:
    """Looks at pictures and films.

    Args:
        reader: Finds faces.
        judges: Know expressions.
        likeness: Knows faces.
    """

    def __init__(self, reader: FaceReader, judges: Sequence[Judge], likeness: "Likeness") -> None:
        self._reader, self._likeness = reader, likeness
        self.judges = judges

    def find(self, image: NDArray[np.uint8]) -> Face:
        """Returns the face in `image`, uint8 (height, width, 3), RGB.

        Raises:
            FaceLost: There is none.
        """
        faces = self._reader.read(image)
        if not faces:
            raise FaceLost("no face is found in the picture")
        return faces[0]

    def judge(self, image: NDArray[np.uint8], face: Face) -> dict[str, Floats]:
        """Returns float64 (7,) per judge: a probability per `judges.CLASSES`."""
        cut = cut_out(image, face)
        return {judge.name: judge.classify(cut) for judge in self.judges}

    def embed(self, image: NDArray[np.uint8]) -> Floats:
        """Returns float64 (128,): whose face is in `image`."""
        return self._likeness.embed(image, self.find(image))

    def watch(self, take: Take, rest_mm: float) -> Sight:
        """Looks at all frames of a film.

        Args:
            take: The film.
            rest_mm: The gap of the lips in the portrait.

        Raises:
            FaceLost: No face is found in a frame.
        """
        frames = list(takes.pictures(take))
        faces = self._follow(frames)
        judged = range(round(SETTLED_S * FPS), len(frames), JUDGED_EVERY)
        votes = [self.judge(frames[index], faces[index]) for index in judged]
        spread = np.linspace(0, len(frames) - 1, LIKENESS_FRAMES + 2).astype(int)[1:-1]
        samples, rate_hz = takes.sound(take)
        gaps_mm = np.array([lips.gap_mm(face) for face in faces])
        levels = lips.levels_db(samples, rate_hz, len(frames), FPS)
        return Sight(
            take=take,
            seen={judge.name: np.mean([vote[judge.name] for vote in votes], axis=0) for judge in self.judges},
            embeddings=np.array([self._likeness.embed(frames[index], faces[index]) for index in spread]),
            gaps_mm=gaps_mm,
            levels=levels,
            sync=lips.sync(gaps_mm, levels, take.visemes, FPS, rest_mm),
        )

    def _follow(self, frames: Sequence[NDArray[np.uint8]]) -> list[Face]:
        faces = [self.find(frames[0])]
        for number, frame in enumerate(frames[1:], 1):
            face = self._reader.follow(frame, faces[-1])
            if face is None:
                raise FaceLost(f"the face is lost in frame {number}")
            faces.append(face)
        return faces


def faces(sights: Iterable[Sight]) -> dict[tuple[str, float], Floats]:
    """Returns whose face is in the films, float64 (frames, 128), by identity and intensity."""
    found: dict[tuple[str, float], list[Floats]] = {}
    for sight in sights:
        found.setdefault((sight.take.identity, sight.take.intensity), []).append(sight.embeddings)
    return {key: np.concatenate(embeddings) for key, embeddings in found.items()}
