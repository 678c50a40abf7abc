"""Weighs how a voice sounds into a vote over the wheel's classes, by rules from the literature.

No corpus of emotional speech could be had under a licence that lets us ship what is trained on it, so nothing is
trained. Five cues are compared with those of people who read books aloud, and with how the literature says each
emotion moves them (`PROFILES`). A stranger's voice says little, so the vote stays soft: `PRIOR` keeps its share
whatever is heard.

Sources: Banse & Scherer, "Acoustic profiles in vocal emotion expression", J. Pers. Soc. Psychol. 70 (1996); Juslin &
Laukka, "Communication of emotions in vocal expression and music performance", Psychol. Bull. 129 (2003), a review of
104 studies of the voice.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from perception.voice import Prosody, semitones


@dataclass(frozen=True)
class Cues:
    """What is heard, each in standard deviations of neutral speech: 0 is usual, 1 is rare to one side.

    Attributes:
        pitch: Height against the speaker's likely register.
        range: Spread of the pitch.
        rate: Syllables per second of speech.
        effort: How pressed the voice is, by the slope of its spectrum; does not depend on the microphone's gain.
        loudness: Level; depends on the gain, so one of its units is a large change.
    """

    pitch: float
    range: float
    rate: float
    effort: float
    loudness: float


@dataclass(frozen=True)
class Norm:
    """Mean and standard deviation of a measurement in neutral speech."""

    mean: float
    deviation: float

    def standard(self, value: float) -> float:
        """How many deviations `value` is above the mean, at most `CUE_MAX` either way."""
        return max(-CUE_MAX, min(CUE_MAX, (value - self.mean) / self.deviation))


CUE_MAX = 2.5
"""A single wild measurement must not decide."""

# Measured with `perception.voice` on one recording each of 68 volunteers who read books aloud (LibriVox, LJ Speech;
# 41 low and 27 high voices, German and English), pauses cut as here. The pitch in semitones about its register.
REGISTERS_HZ = (108.0, 195.0)
PITCH_ST = Norm(0.0, 2.5)
RANGE_ST = Norm(7.4, 2.2)
RATE_COUNTED_HZ = Norm(4.0, 0.65)
TILT_DB_OCTAVE = Norm(-8.3, 2.3)
# Of the 21 English ones, with the syllables of their transcripts.
RATE_READ_HZ = Norm(4.9, 0.95)
# These recordings were levelled, so their spread (1.7 dB) says nothing; microphones' gains differ by far more.
LEVEL_DBFS = Norm(-23.0, 8.0)

# Directions after Juslin & Laukka (2003) and, for disgust and contempt, Banse & Scherer (1996); the sizes are ours, in
# the unit of the cues. Fear here is fear, not panic: fast and high, but with a narrow range and little effort.
PROFILES: Mapping[str, Cues] = {
    "neutral": Cues(pitch=0.0, range=0.0, rate=0.0, effort=0.0, loudness=0.0),
    "happy": Cues(pitch=0.9, range=1.0, rate=0.5, effort=0.4, loudness=0.5),
    "surprised": Cues(pitch=1.3, range=1.4, rate=0.3, effort=0.3, loudness=0.4),
    "angry": Cues(pitch=0.6, range=0.6, rate=0.7, effort=1.2, loudness=1.1),
    "fear": Cues(pitch=1.1, range=-0.5, rate=0.9, effort=-0.2, loudness=-0.3),
    "sad": Cues(pitch=-0.6, range=-0.9, rate=-0.9, effort=-0.7, loudness=-0.9),
    "disgusted": Cues(pitch=-0.4, range=0.1, rate=-0.7, effort=0.3, loudness=0.1),
    "contempt": Cues(pitch=-0.6, range=0.2, rate=-0.4, effort=0.1, loudness=0.2),
}
PRIOR: Mapping[str, float] = {
    "neutral": 0.30,
    "happy": 0.20,
    "sad": 0.15,
    "angry": 0.10,
    "fear": 0.09,
    "surprised": 0.08,
    "disgusted": 0.04,
    "contempt": 0.04,
}
"""How often people sound like this in talk; rough, and flat enough that clear cues overturn it."""
TRUST = 0.6
"""Weight of the cues' likelihood: they go together (effort, loudness, pitch), so they are fewer than five."""
CUES_SHARE = 0.75
"""The rest of the vote is the prior. The people whom Banse & Scherer asked named 48 % of 14 acted emotions right."""
RATIO_PLAUSIBLE = (0.4, 1.3)
"""Syllables heard for each that the text has. Outside of this, the text is not what was said."""


def cues_of(prosody: Prosody, text: str = "") -> Cues:
    """Returns what stands out in a voice against neutral speech of people of its register.

    Args:
        prosody: The measurements of the speech.
        text: What may have been said; it tells the pace better than the sound if it is that long.
    """
    return Cues(
        pitch=PITCH_ST.standard(_above_register(prosody.pitch_hz)),
        range=RANGE_ST.standard(prosody.pitch_range_semitones),
        rate=_rate(prosody, text),
        effort=TILT_DB_OCTAVE.standard(prosody.tilt_db_octave),
        loudness=LEVEL_DBFS.standard(prosody.level_dbfs),
    )


def weigh(cues: Cues) -> dict[str, float]:
    """Returns a probability per class: the prior, moved by how like its profile the cues are.

    Each class is a unit normal around its profile (linear discriminant analysis with a given, diagonal covariance).
    """
    heard = np.array(_values(cues))
    fit = {name: -0.5 * float(np.sum((heard - _values(profile)) ** 2)) for name, profile in PROFILES.items()}
    best = max(fit.values())
    odds = {name: PRIOR[name] * math.exp(TRUST * (fit[name] - best)) for name in PROFILES}
    total = sum(odds.values())
    return {name: CUES_SHARE * odds[name] / total + (1 - CUES_SHARE) * PRIOR[name] for name in PROFILES}


def _values(cues: Cues) -> tuple[float, ...]:
    return tuple(getattr(cues, cue.name) for cue in fields(cues))


def _rate(prosody: Prosody, text: str) -> float:
    """The pace in deviations: by the text's syllables if they may be those spoken, else by peaks of loudness.

    Counting peaks misses syllables of fast speech, so the text is worth more.
    """
    read_hz = syllables(text) / prosody.speech_s
    low, high = RATIO_PLAUSIBLE
    if read_hz and low <= prosody.rate_hz / read_hz <= high:
        return RATE_READ_HZ.standard(read_hz)
    return RATE_COUNTED_HZ.standard(prosody.rate_hz)


def syllables(text: str) -> int:
    """Counts the syllables of English `text`: groups of vowels, silent e and -ed left out. Right to about a tenth."""
    total = 0
    for word in re.findall(r"[a-z']+", text.lower()):
        groups = len(re.findall(r"[aeiouy]+", word))
        silent = re.search(r"[^aeiouyl]e$|[^aeiouydt]ed$", word)
        total += max(1, groups - bool(silent))
    return total


def _above_register(pitch_hz: float) -> float:
    """Semitones above the speaker's register, which itself is guessed from the pitch.

    One process knows one message, so there is no baseline of this speaker. A voice at 150 Hz may be a raised low
    one or a lowered high one: the deviations from either are averaged by how likely each is.
    """
    deviations = np.array([semitones(pitch_hz, register) for register in REGISTERS_HZ])
    unlikely = 0.5 * (deviations / PITCH_ST.deviation) ** 2
    likely = np.exp(unlikely.min() - unlikely)
    return float(likely @ deviations / likely.sum())
