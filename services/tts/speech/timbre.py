"""What makes a voice somebody's: a speaker relative to the voice that a network has by itself."""

import json
from dataclasses import asdict, dataclass, replace

import numpy as np

from perception.voice import Floats, envelope_curve_db
from services.tts.speech.manner import Manner

VOICED_HZ = 40.0
"""Below this a pitch curve means "no voice"."""
WHISPER_MAX = 0.9
"""A fuller whisper has no pitch that a listener could hear."""
PITCH_HZ = (55.0, 600.0)
"""The pitch is kept within what people do."""
SENTENCE_SHARE = 0.5
"""How much of a sentence's own height remains; a network reads some sentences two semitones higher than others."""
EXCURSION_SEMITONES = 9.0
"""Where voicing starts and ends, the curve dives; farther from the median than this, range is not widened."""
TREMOR_HZ = 5.5
"""Pace of a trembling voice (vocal tremor lies at 4 to 7 Hz)."""
TILT_PIVOT_HZ = 1000.0
TILT_HZ = (150.0, 8000.0)
"""Tilt ends here, or hiss and rumble would be raised without limit."""


@dataclass(frozen=True, eq=False)
class Timbre:
    """A speaker relative to the network's own voice; the defaults are that voice.

    Attributes:
        pitch: Times as high.
        pitch_range: Times as wide, in semitones.
        formant: Resonances times as high: 0.84 a tall man, 1.15 a child.
        tilt_db_octave: Brighter by.
        colour: Envelope to add (see `perception.voice.Prosody.envelope`), float32 (`CEPSTRA`,).
        breath: Noise between the harmonics, 0 to 1.
        tremor_semitones: Depth of the trembling of an old voice.
        rate: Times as fast.
    """

    pitch: float = 1.0
    pitch_range: float = 1.0
    formant: float = 1.0
    tilt_db_octave: float = 0.0
    colour: Floats | None = None
    breath: float = 0.0
    tremor_semitones: float = 0.0
    rate: float = 1.0


def encode(timbre: Timbre) -> bytes:
    """Returns a timbre as JSON."""
    colour = None if timbre.colour is None else timbre.colour.tolist()
    return json.dumps(asdict(replace(timbre, colour=None)) | {"colour": colour}).encode()


def decode(content: bytes) -> Timbre:
    """Returns the timbre that `encode` wrote.

    Raises:
        ValueError: It wrote no such thing.
    """
    try:
        numbers = json.loads(content)
        colour = numbers.pop("colour")
        return Timbre(colour=None if colour is None else np.asarray(colour, np.float32), **numbers)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a timbre: {error}") from error


def bent_pitch(pitch_hz: Floats, frame_hz: float, usual_hz: float, timbre: Timbre, manner: Manner) -> Floats:
    """Gives a sentence's pitch the timbre and, on top of it, the manner.

    Args:
        pitch_hz: float32 (frames,); below `VOICED_HZ` where there is no voice, and 0 there afterwards.
        frame_hz: Frames per second.
        usual_hz: Median of the network's own voice over many sentences.
        timbre: Whose pitch.
        manner: In which mood.
    """
    voiced = pitch_hz > VOICED_HZ
    if not np.any(voiced):
        return pitch_hz
    middle = np.median(pitch_hz[voiced])
    height = 12 * np.log2(np.maximum(pitch_hz, VOICED_HZ) / middle)
    wider = (timbre.pitch_range * manner.pitch_range - 1) * np.clip(height, -EXCURSION_SEMITONES, EXCURSION_SEMITONES)
    trembling = np.sin(2 * np.pi * TREMOR_HZ * np.arange(len(pitch_hz)) / frame_hz)
    moved = (
        12 * np.log2(timbre.pitch)
        - (1 - SENTENCE_SHARE) * 12 * np.log2(middle / usual_hz)
        + manner.pitch_semitones
        + wider
        + trembling * (timbre.tremor_semitones + manner.tremor_semitones)
    )
    bent = np.clip(pitch_hz * 2 ** (moved / 12), *PITCH_HZ)
    return np.asarray(np.where(voiced, bent, 0.0), np.float32)


def applied(timbre: Timbre, manner: Manner, rate: float, level_dbfs: float, clear_hz: Floats) -> dict[str, float]:
    """Returns what was done to a stretch of speech, for `Speech.applied`.

    Args:
        timbre: Who spoke.
        manner: In which mood.
        rate: Times as fast as the network by itself.
        level_dbfs: As measured.
        clear_hz: The pitch, frame by frame, where it is heard clearly; below `VOICED_HZ` where there is none.
    """
    found = {
        "rate": rate,
        "level_dbfs": level_dbfs,
        "tilt_db_octave": timbre.tilt_db_octave + manner.tilt_db_octave,
        "formant": timbre.formant * manner.formant,
        "breath": timbre.breath + manner.breath,
        "whisper": manner.whisper,
    }
    voiced = clear_hz[clear_hz > VOICED_HZ]
    if not len(voiced) or manner.whisper >= WHISPER_MAX:
        return found
    low, middle, high = np.percentile(voiced, (10, 50, 90))
    return found | {"pitch_hz": float(middle), "pitch_range_semitones": float(12 * np.log2(high / low))}


def tilt_curve_db(frequency_hz: Floats) -> Floats:
    """Level over `frequency_hz` of a tilt of one decibel per octave."""
    return np.asarray(np.log2(np.clip(frequency_hz, *TILT_HZ) / TILT_PIVOT_HZ), np.float32)


def gain_db(frequency_hz: Floats, timbre: Timbre, tilt_db_octave: float) -> Floats:
    """What a timbre's tilt and colour, and a manner's tilt, add to the level over `frequency_hz`."""
    level = tilt_curve_db(frequency_hz) * (timbre.tilt_db_octave + tilt_db_octave)
    if timbre.colour is not None:
        level = level + envelope_curve_db(timbre.colour, frequency_hz)
    return np.asarray(level, np.float32)


def breath_share(frequency_hz: Floats, breath: float, whisper: float) -> Floats:
    """Noise relative to the harmonics, 1 being as strong: breath lies above 1 kHz, a whisper everywhere."""
    rise = np.clip(np.log2(np.maximum(frequency_hz, 1) / 250) / 3, 0.1, 1)
    return np.asarray(np.maximum(breath * rise, whisper * np.maximum(rise, 0.5)), np.float32)
