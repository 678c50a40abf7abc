"""What makes a voice somebody's, and how spectra are bent to it: pitch, vocal tract, colour, breath, tremor, pace.

The network's spectra are apart from its pitch (a source-filter model), so each is bent alone: the vocal tract by
stretching the frequency axis, the pitch by the pitch curve, the pace by stretching time.
"""

from dataclasses import dataclass, replace

import numpy as np

from perception.voice import envelope_curve_db
from services.tts.hibari.manner import Manner
from services.tts.hibari.network import BINS, FRAME_HZ, RATE_HZ, VOICED_HZ, Floats, Spectra

PITCH_HZ = (55.0, 600.0)
"""The pitch is kept within what people do."""
MODEL_PITCH_HZ = 200.0
"""Median of the model's own voice over many sentences."""
SENTENCE_SHARE = 0.5
"""How much of a sentence's own height remains; the model reads some sentences two semitones higher than others."""
EXCURSION_SEMITONES = 9.0
"""Where voicing starts and ends, the curve dives; farther from the median than this, range is not widened."""
TILT_PIVOT_HZ = 1000.0
TILT_HZ = (150.0, 8000.0)
"""Tilt ends here, or hiss and rumble would be raised without limit."""
HISS_SHARE = 0.3
"""Effort brightens the voice; of the hiss of s and sh it brightens only this much, or a shout would be all hiss."""
TREMOR_HZ = 5.5
"""Pace of a trembling voice (vocal tremor lies at 4 to 7 Hz)."""
DB = np.log(10) / 20
"""One decibel as a natural logarithm of magnitude."""

FREQUENCY_HZ: Floats = np.linspace(0, RATE_HZ / 2, BINS, dtype=np.float32)
_NOISE_DB = np.float32(-11.0)
"""Noise of this level per bin is as strong as harmonics 200 Hz apart."""


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


def bend(spectra: Spectra, timbre: Timbre, manner: Manner) -> Spectra:
    """Gives the spectra the timbre and, on top of it, the manner. The pace is left to `pace`."""
    warped = _warp(spectra, timbre.formant * manner.formant)
    pitch = _pitch(spectra.pitch_hz, timbre, manner)
    gain = _gain(timbre, manner.tilt_db_octave)[:, None]
    hiss_gain = _gain(timbre, HISS_SHARE * manner.tilt_db_octave)[:, None]
    breath = min(1.0, timbre.breath + manner.breath)
    harmonics = warped.harmonics + gain
    noise = warped.noise + gain
    if breath > 0 or manner.whisper > 0:
        noise = np.maximum(noise, harmonics + _breath_gain(breath, manner.whisper)[:, None])
        noise[:, pitch <= VOICED_HZ] = -20.0
    return replace(
        warped,
        # A whisper keeps a trace of voice, so that "more whisper" can never mean "nothing at all" in a vowel.
        harmonics=harmonics + np.float32(np.log1p(-0.97 * manner.whisper)),
        noise=noise,
        residual=warped.residual + hiss_gain,
        pitch_hz=pitch,
    )


def pace(spectra: Spectra, rate: float) -> Spectra:
    """Plays the spectra `rate` times as fast, at the same pitch."""
    frames = max(1, round(spectra.frames / rate))
    if frames == spectra.frames:
        return spectra
    place = (np.arange(frames) + 0.5) * spectra.frames / frames - 0.5
    place = np.clip(place, 0, spectra.frames - 1)
    left = np.minimum(place.astype(int), spectra.frames - 2) if spectra.frames > 1 else place.astype(int)
    right = np.minimum(left + 1, spectra.frames - 1)
    share = (place - left).astype(np.float32)
    nearest = np.where(share < 0.5, left, right)

    def between(values: Floats) -> Floats:
        return np.asarray(values[..., left] * (1 - share) + values[..., right] * share, np.float32)

    voiced = spectra.voiced[nearest]
    return Spectra(
        between(spectra.harmonics),
        between(spectra.harmonics_phase),
        between(spectra.noise),
        between(spectra.residual),
        # Phases wrap around, so they are taken, not mixed; so is a pitch at the edge of silence.
        spectra.residual_phase[:, nearest],
        np.where(
            voiced & spectra.voiced[left] & spectra.voiced[right], between(spectra.pitch_hz), spectra.pitch_hz[nearest]
        ),
    )


def cut(spectra: Spectra, start: int, end: int) -> Spectra:
    """The frames from `start` up to `end`."""
    return Spectra(
        spectra.harmonics[:, start:end],
        spectra.harmonics_phase[:, start:end],
        spectra.noise[:, start:end],
        spectra.residual[:, start:end],
        spectra.residual_phase[:, start:end],
        spectra.pitch_hz[start:end],
    )


def tilt_curve_db() -> Floats:
    """Level over `FREQUENCY_HZ` of a tilt of one decibel per octave."""
    return np.asarray(np.log2(np.clip(FREQUENCY_HZ, *TILT_HZ) / TILT_PIVOT_HZ), np.float32)


def _warp(spectra: Spectra, formant: float) -> Spectra:
    if abs(formant - 1) < 1e-6:
        return spectra
    place = np.clip(np.arange(BINS) / formant, 0, BINS - 1)
    left = np.minimum(place.astype(int), BINS - 2)
    share = (place - left).astype(np.float32)[:, None]

    def between(values: Floats) -> Floats:
        return np.asarray(values[left] * (1 - share) + values[left + 1] * share, np.float32)

    return replace(
        spectra,
        harmonics=between(spectra.harmonics),
        harmonics_phase=between(spectra.harmonics_phase),
        noise=between(spectra.noise),
        residual=between(spectra.residual),
    )


def _gain(timbre: Timbre, tilt_db_octave: float) -> Floats:
    level = tilt_curve_db() * (timbre.tilt_db_octave + tilt_db_octave)
    if timbre.colour is not None:
        level = level + envelope_curve_db(timbre.colour, FREQUENCY_HZ)
    return np.asarray(level * DB, np.float32)


def _breath_gain(breath: float, whisper: float) -> Floats:
    """Log magnitude of the noise relative to the harmonics: breath lies above 1 kHz, a whisper everywhere."""
    rise = np.clip(np.log2(np.maximum(FREQUENCY_HZ, 1) / 250) / 3, 0.1, 1)
    share = np.maximum(breath * rise, whisper * np.maximum(rise, 0.5))
    return np.asarray(np.log(np.maximum(share, 1e-3)) + _NOISE_DB * DB, np.float32)


def _pitch(pitch_hz: Floats, timbre: Timbre, manner: Manner) -> Floats:
    voiced = pitch_hz > VOICED_HZ
    if not np.any(voiced):
        return pitch_hz
    middle = np.median(pitch_hz[voiced])
    height = 12 * np.log2(np.maximum(pitch_hz, VOICED_HZ) / middle)
    wider = (timbre.pitch_range * manner.pitch_range - 1) * np.clip(height, -EXCURSION_SEMITONES, EXCURSION_SEMITONES)
    trembling = np.sin(2 * np.pi * TREMOR_HZ * np.arange(len(pitch_hz)) / FRAME_HZ)
    moved = (
        12 * np.log2(timbre.pitch)
        - (1 - SENTENCE_SHARE) * 12 * np.log2(middle / MODEL_PITCH_HZ)
        + manner.pitch_semitones
        + wider
        + trembling * (timbre.tremor_semitones + manner.tremor_semitones)
    )
    bent = np.clip(pitch_hz * 2 ** (moved / 12), *PITCH_HZ)
    return np.asarray(np.where(voiced, bent, 0.0), np.float32)
