"""Bends a score to a timbre and a manner, and colours its sound.

Pitch, range and trembling are changes of the pitch curve, which the network then sings by itself; a whisper is a score
without pitch. Pace stretches the score. A longer or shorter vocal tract is a score that is played slower or faster, at
a pitch that makes up for it, and whose sound is then played faster or slower. Brightness and breath come after.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perception.voice import Floats
from services.tts.kokoro.network import FRAME_HZ, RATE_HZ, UNIT, Score
from services.tts.speech.manner import Manner
from services.tts.speech.stretching import Stretch
from services.tts.speech.timbre import VOICED_HZ, Timbre, bent_pitch, breath_share, gain_db

HISS_SHARE = 0.3
"""Effort brightens the voice; of the hiss of s and sh it brightens only this much, or a shout would be all hiss."""
WINDOW = 1024
STEP = 256
NOISE_DB = -9.0
"""Level of breath that counts as strong as the harmonics."""
SMOOTH_HZ = 400.0
"""Breath follows the spectrum smoothed over this, so that it has no harmonics."""

_FREQUENCY_HZ = np.fft.rfftfreq(WINDOW, 1 / RATE_HZ).astype(np.float32)
_WINDOW = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


def cut(score: Score, start: int, end: int) -> Score:
    """The frames from `start` up to `end`, both whole units."""
    return replace(
        score,
        ends=np.clip(score.ends - start, 0, end - start),
        sounds=score.sounds[:, start // UNIT : end // UNIT],
        pitch_hz=score.pitch_hz[start:end],
        loudness=score.loudness[start:end],
    )


def bend(score: Score, usual_hz: float, timbre: Timbre, manner: Manner) -> tuple[Score, int]:
    """Gives a score the timbre and, on top of it, the manner.

    Args:
        score: As the network made it.
        usual_hz: Median pitch of the network's voice over many sentences.
        timbre: Who speaks.
        manner: In which mood.

    Returns:
        The score to play, and how many frames its sound must then be resampled to.
    """
    rate = timbre.rate * manner.rate
    frames = max(UNIT, round(score.frames / rate))
    units = max(1, round(frames / UNIT * timbre.formant * manner.formant))
    pitch_hz = bent_pitch(score.pitch_hz, FRAME_HZ * rate, usual_hz, timbre, manner)
    curves = Stretch(score.frames, units * UNIT)
    slower = units * UNIT / frames
    bent = replace(
        score,
        ends=score.ends * (units * UNIT / score.frames),
        sounds=Stretch(score.frames // UNIT, units).between(score.sounds),
        pitch_hz=np.asarray(curves.pitch(pitch_hz, VOICED_HZ) / slower, np.float32),
        loudness=curves.between(score.loudness),
    )
    return bent, frames


def voiceless(score: Score) -> Score:
    """The score of the same words whispered."""
    return replace(score, pitch_hz=np.zeros_like(score.pitch_hz))


def colour(samples: Floats, pitch_hz: Floats, timbre: Timbre, manner: Manner, seed: int) -> Floats:
    """Gives the sound the tilt and colour of the timbre and the manner, and breath between the harmonics.

    Args:
        samples: float32 (n,).
        pitch_hz: The pitch that is heard, over the same time, at any rate.
        timbre: Who speaks.
        manner: In which mood.
        seed: The breath follows from it.
    """
    padded = np.pad(samples, (WINDOW, WINDOW + STEP))
    cuts = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::STEP]
    spectra = np.fft.rfft(cuts * _WINDOW)
    place = (np.arange(len(spectra)) * STEP - WINDOW / 2) / max(1, len(samples)) * len(pitch_hz)
    voiced = pitch_hz[np.clip(place.astype(int), 0, len(pitch_hz) - 1)] > VOICED_HZ
    gains = [10 ** (gain_db(_FREQUENCY_HZ, timbre, share * manner.tilt_db_octave) / 20) for share in (HISS_SHARE, 1.0)]
    spectra = spectra * np.where(voiced[:, None], gains[1], gains[0])
    breath = min(1.0, timbre.breath + manner.breath)
    if breath > 0:
        spectra[voiced] += _breath(spectra[voiced], breath, np.random.default_rng(seed))
    parts = np.fft.irfft(spectra, WINDOW).astype(np.float32) * _WINDOW
    whole = np.zeros((len(parts) - 1) * STEP + WINDOW, np.float32)
    for index, part in enumerate(parts):
        whole[index * STEP : index * STEP + WINDOW] += part
    # Windows that overlap fourfold sum to two.
    return np.asarray(whole[WINDOW : WINDOW + len(samples)] / 2, np.float32)


def _breath(spectra: NDArray[np.complex64], breath: float, chance: np.random.Generator) -> NDArray[np.complex64]:
    """Noise as strong as the envelope of the spectra, times the share of breath: complex (frames, bins)."""
    bins = round(SMOOTH_HZ / (RATE_HZ / WINDOW))
    power = np.pad(np.abs(spectra) ** 2, ((0, 0), (bins // 2, bins // 2)), mode="edge")
    sums = np.pad(np.cumsum(power, axis=1), ((0, 0), (1, 0)))
    smooth = np.sqrt(np.maximum(sums[:, bins:] - sums[:, :-bins], 0) / bins)[:, : spectra.shape[1]]
    noise = chance.normal(size=(2, *smooth.shape))
    share = breath_share(_FREQUENCY_HZ, breath, 0.0) * 10 ** (NOISE_DB / 20)
    return np.asarray(smooth * share * (noise[0] + 1j * noise[1]) / np.sqrt(2), np.complex64)
