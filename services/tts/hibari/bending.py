"""How hibari's spectra are bent to a timbre and a manner: pitch, vocal tract, colour, breath, tremor, pace.

The network's spectra are apart from its pitch (a source-filter model), so each is bent alone: the vocal tract by
stretching the frequency axis, the pitch by the pitch curve, the pace by stretching time.
"""

from dataclasses import replace

import numpy as np

from perception.voice import Floats
from services.tts.hibari.network import BINS, FRAME_HZ, RATE_HZ, Spectra
from services.tts.speech.manner import Manner
from services.tts.speech.stretching import Stretch
from services.tts.speech.timbre import VOICED_HZ, Timbre, bent_pitch, breath_share, gain_db

MODEL_PITCH_HZ = 200.0
"""Median of the model's own voice over many sentences."""
HISS_SHARE = 0.3
"""Effort brightens the voice; of the hiss of s and sh it brightens only this much, or a shout would be all hiss."""
DB = np.log(10) / 20
"""One decibel as a natural logarithm of magnitude."""

FREQUENCY_HZ: Floats = np.linspace(0, RATE_HZ / 2, BINS, dtype=np.float32)
_NOISE_DB = np.float32(-11.0)
"""Noise of this level per bin is as strong as harmonics 200 Hz apart."""


def bend(spectra: Spectra, timbre: Timbre, manner: Manner) -> Spectra:
    """Gives the spectra the timbre and, on top of it, the manner. The pace is left to `pace`."""
    warped = _warp(spectra, timbre.formant * manner.formant)
    pitch = bent_pitch(spectra.pitch_hz, FRAME_HZ, MODEL_PITCH_HZ, timbre, manner)
    gain = gain_db(FREQUENCY_HZ, timbre, manner.tilt_db_octave)[:, None] * np.float32(DB)
    hiss_gain = gain_db(FREQUENCY_HZ, timbre, HISS_SHARE * manner.tilt_db_octave)[:, None] * np.float32(DB)
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
    stretch = Stretch(spectra.frames, frames)
    return Spectra(
        stretch.between(spectra.harmonics),
        stretch.between(spectra.harmonics_phase),
        stretch.between(spectra.noise),
        stretch.between(spectra.residual),
        # Phases wrap around, so they are taken, not mixed; so is a pitch at the edge of silence.
        stretch.nearest(spectra.residual_phase),
        stretch.pitch(spectra.pitch_hz, VOICED_HZ),
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


def _breath_gain(breath: float, whisper: float) -> Floats:
    """Log magnitude of the noise relative to the harmonics."""
    share = np.maximum(breath_share(FREQUENCY_HZ, breath, whisper), 1e-3)
    return np.asarray(np.log(share) + _NOISE_DB * DB, np.float32)
