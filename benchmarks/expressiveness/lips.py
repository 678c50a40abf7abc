"""Compares the mouth that is seen in the finished film with the sound that is heard in it, and with what was said."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perception.face import Face
from services.video.domain import VisemeSpan

OPEN = {
    "sil": 0.0,
    "PP": 0.0,
    "FF": 0.1,
    "TH": 0.3,
    "DD": 0.3,
    "kk": 0.4,
    "CH": 0.2,
    "SS": 0.2,
    "nn": 0.3,
    "RR": 0.4,
    "aa": 1.0,
    "E": 0.7,
    "I": 0.4,
    "O": 0.6,
    "U": 0.25,
}
"""How far a speaker's lips are parted, widest vowel 1: by vowel height and manner of articulation, not the renderer's
table."""
IRIS_DISTANCE_MM = 63.0
UPPER_LIP, LOWER_LIP, IRIS_RIGHT, IRIS_LEFT = 13, 14, 468, 473
LAGS = range(-6, 7)
"""Frames by which the sound is moved to find where it fits the mouth best."""
CLOSED_MM = 1.2
"""Lips at most this much further apart than in the portrait are closed: the landmarks tremble by half as much."""
QUIET_DB = 40.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sync:
    """How well mouth and sound go together in one film.

    Attributes:
        level: Correlation of the lips' gap with the sound's level at the best lag.
        level_lag: That lag in frames; above 0 the mouth is late.
        shape: Correlation of the gap with what the phonemes ask for, at the best lag.
        shape_lag: That lag in frames.
        closures: How many p, b and m there are.
        closed: In how many of them the lips are seen closed.
        vowels: How many wide vowels there are.
        closed_vowels: In how many of them the lips are seen closed, by the same measure: what it is worth.
    """

    level: float
    level_lag: int
    shape: float
    shape_lag: int
    closures: int
    closed: int
    vowels: int
    closed_vowels: int


def gap_mm(face: Face) -> float:
    """Returns how far the lips are apart, by the inner lip landmarks, if the irises are 63 mm apart."""
    points = face.landmarks[:, :2].astype(float)
    apart = float(np.linalg.norm(points[IRIS_LEFT] - points[IRIS_RIGHT]))
    return float(np.linalg.norm(points[LOWER_LIP] - points[UPPER_LIP])) / apart * IRIS_DISTANCE_MM


def levels_db(samples: NDArray[np.float32], rate_hz: int, frames: int, fps: int) -> Floats:
    """Returns the level during each of `frames` pictures, in dB below the loudest, at most `QUIET_DB`."""
    edges = np.round(np.arange(frames + 1) * rate_hz / fps).astype(int)
    whole = np.pad(np.asarray(samples, np.float64), (0, max(0, int(edges[-1]) - len(samples))))
    power = np.add.reduceat(np.square(whole[: edges[-1]]), edges[:-1]) / np.diff(edges)
    db = 10 * np.log10(power + 1e-12)
    return np.asarray(np.maximum(db - db.max(), -QUIET_DB))


def expected(visemes: Sequence[VisemeSpan], frames: int, fps: int) -> Floats:
    """Returns how far open the phonemes ask the mouth to be in each picture, 0 to 1, with the glide of a real jaw."""
    fine = 20  # steps per frame
    asked = np.zeros(frames * fine)
    for span in visemes:
        start, end = (round(time * fps * fine) for time in (span.start_s, span.start_s + span.duration_s))
        asked[start:end] = OPEN[span.viseme]
    glide = np.hanning(4 * fine + 1)
    smooth = np.convolve(asked, glide / glide.sum(), mode="same")
    return np.asarray(smooth.reshape(frames, fine).mean(axis=1))


def sync(gaps_mm: Floats, levels: Floats, visemes: Sequence[VisemeSpan], fps: int, rest_mm: float) -> Sync:
    """Measures one film.

    Args:
        gaps_mm: float64 (frames,), what `gap_mm` found.
        levels: float64 (frames,), what `levels_db` found.
        visemes: What was spoken.
        fps: Frames per second.
        rest_mm: The gap in the portrait, lips closed.
    """
    level, level_lag = best_lag(gaps_mm, levels)
    shape, shape_lag = best_lag(gaps_mm, expected(visemes, len(gaps_mm), fps))
    closures, vowels = ([span for span in visemes if span.viseme == name] for name in ("PP", "aa"))
    closed, closed_vowels = (
        sum(_least(gaps_mm, span, fps) <= rest_mm + CLOSED_MM for span in spans) for spans in (closures, vowels)
    )
    return Sync(level, level_lag, shape, shape_lag, len(closures), closed, len(vowels), closed_vowels)


def best_lag(mouth: Floats, sound: Floats) -> tuple[float, int]:
    """Returns the highest correlation of the two and the lag, in frames, that gives it; above 0 the mouth is late."""
    found = []
    for lag in LAGS:
        late = mouth[max(0, lag) : len(mouth) + min(0, lag)]
        heard = sound[max(0, -lag) : len(sound) - max(0, lag)]
        length = min(len(late), len(heard))
        found.append((float(np.corrcoef(late[:length], heard[:length])[0, 1]), lag))
    return max(found)


def _least(gaps_mm: Floats, span: VisemeSpan, fps: int) -> float:
    """The smallest gap in the pictures that are on the screen while the sound is made."""
    first = int(span.start_s * fps)
    last = int(np.ceil((span.start_s + span.duration_s) * fps))
    return float(gaps_mm[first : max(last, first + 1)].min(initial=np.inf))
