"""Brings speech to a level, softly where it would clip."""

import numpy as np
from numpy.typing import NDArray

from perception.voice import Floats

LEVEL_DBFS = -26.0
"""Of a calm voice, pauses left out; the level at which telephone speech is tested (ITU-T P.56)."""
ACTIVE_DB = 30.0
"""Frames at most this far below the loudest count for the level."""
AUDIBLE_DB = 42.0
"""A frame is heard if it is at most this far below the loudest."""
CLEAR_DB = 18.0
"""A pitch counts for what a listener hears as the pitch only in frames at most this far below the loudest."""
KNEE = 0.7
"""Samples above this are bent towards 1, so that the loudest shout does not clip."""
FADE_SAMPLES = 120


def frame_levels(samples: Floats, hop: int) -> NDArray[np.float64]:
    """Returns the level in dBFS of every `hop` samples; `samples` holds a whole number of them."""
    power = np.mean(samples.reshape(-1, hop).astype(np.float64) ** 2, axis=1)
    return np.asarray(10 * np.log10(power + 1e-14))


def mean_level(levels_db: NDArray[np.float64]) -> float:
    """Returns the level in dBFS of the frames that are active."""
    active = levels_db > levels_db.max() - ACTIVE_DB
    return float(10 * np.log10(np.mean(10 ** (levels_db[active] / 10))))


def raised(samples: Floats, gain_db: float) -> Floats:
    """Makes the speech louder by `gain_db` and bends its peaks."""
    louder = samples * np.float32(10 ** (gain_db / 20))
    over = np.abs(louder) > KNEE
    louder[over] = np.sign(louder[over]) * (KNEE + (1 - KNEE) * np.tanh((np.abs(louder[over]) - KNEE) / (1 - KNEE)))
    return louder


def faded(samples: Floats) -> Floats:
    """Lets the speech start and end at zero."""
    ramp = np.linspace(0, 1, FADE_SAMPLES, dtype=np.float32)
    samples = samples.copy()
    samples[:FADE_SAMPLES] *= ramp
    samples[-FADE_SAMPLES:] *= ramp[::-1]
    return samples
