"""Reads a voice: its pitch, its loudness, its pace, and the spectral envelope that tells speakers apart."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from swift_f0 import SwiftF0

Floats = NDArray[np.float32]

RATE_HZ: Final = 16_000
"""Everything is measured at this rate; what lies above 8 kHz is not heard."""
HOP: Final = 256
WINDOW: Final = 512
FRAME_S: Final = HOP / RATE_HZ
PITCH_HZ: Final = (55.0, 650.0)
"""Speech from a deep man's creak to a child's shout."""
CONFIDENCE_MIN: Final = 0.5
QUIETEST_DBFS: Final = -60.0
SPEECH_RANGE_DB: Final = 30.0
"""A frame is active when it is at most this far below the loud ones (their 95th percentile)."""
MEL_BANDS: Final = 32
CEPSTRA: Final = 16
MEL_HZ: Final = (100.0, 3800.0)
TILT_HZ: Final = (600.0, 3400.0)
"""Both end where a telephone does, so that recordings of any rate from 8 kHz on can be compared; the tilt starts above
the pitch, or a higher voice would seem a duller one."""
RIPPLE_HZ: Final = (800.0, 2500.0)
RIPPLE_WINDOW: Final = 1024
DIP_DB: Final = 2.0
SAMPLES_MIN: Final = WINDOW


@dataclass(frozen=True, eq=False)
class Track:
    """A voice frame by frame, one frame per `FRAME_S` seconds, centred at `times_s`.

    Attributes:
        times_s: float32 (frames,), from the start of the recording.
        pitch_hz: float32 (frames,); NaN where there is no voice.
        level_dbfs: float32 (frames,), RMS; 0 is a full-scale square wave.
        active: bool (frames,), someone is speaking.
    """

    times_s: Floats
    pitch_hz: Floats
    level_dbfs: Floats
    active: NDArray[np.bool_]

    @property
    def voiced(self) -> NDArray[np.bool_]:
        """Speech with a pitch, so a vowel or a voiced consonant: bool (frames,)."""
        return self.active & ~np.isnan(self.pitch_hz)


@dataclass(frozen=True, eq=False)
class Prosody:
    """How a stretch of speech sounds as a whole. What cannot be measured because nobody speaks is NaN.

    Attributes:
        duration_s: Length of the recording.
        speech_s: Seconds in which someone speaks.
        voiced_fraction: Share of the speech that has a pitch, 0 to 1.
        pitch_hz: Median pitch.
        pitch_range_semitones: From the 10th to the 90th percentile of the pitch.
        level_dbfs: RMS level of the speech, pauses left out; below 0.
        tilt_db_octave: Slope of the long-term spectrum of voiced speech from 600 Hz to 3.4 kHz; the lower
            (about -12), the softer the voice; the nearer to 0, the more pressed.
        breathiness_db: Minus the ripple that the harmonics make in the spectrum from 0.8 to 2.5 kHz. About -5.5 in
            a clear woman's voice and -3 in a man's, nearer to 0 the breathier. Compare voices of like pitch.
        rate_hz: Syllables per second of speech, counted as peaks of loudness: about three in four are found.
        envelope: float32 (`CEPSTRA`,), mean mel cepstrum c1... of voiced speech, in dB: the shape of the vocal
            tract, whatever the level. `envelope_distance_db` compares two.
    """

    duration_s: float
    speech_s: float
    voiced_fraction: float
    pitch_hz: float
    pitch_range_semitones: float
    level_dbfs: float
    tilt_db_octave: float
    breathiness_db: float
    rate_hz: float
    envelope: Floats


class VoiceReader:
    """Measures recordings; one thread per reader. Loading takes about 20 ms.

    The pitch is SwiftF0's (Nieradzik, "SwiftF0: Fast and Accurate Monophonic Pitch Detection", 2025; MIT).
    """

    def __init__(self) -> None:
        """Loads the pitch model."""
        self._pitch = SwiftF0(threads=1)

    def track(self, samples: Floats, sample_rate_hz: int) -> Track:
        """Follows pitch and level of float32 (n,) mono `samples`, -1 to 1.

        Raises:
            ValueError: `samples` is not one-dimensional, not finite, or shorter than 32 ms.
        """
        return self._track(_heard(samples, sample_rate_hz))

    def read(self, samples: Floats, sample_rate_hz: int) -> Prosody:
        """Measures float32 (n,) mono `samples`, -1 to 1.

        Raises:
            ValueError: `samples` is not one-dimensional, not finite, or shorter than 32 ms.
        """
        heard = _heard(samples, sample_rate_hz)
        track = self._track(heard)
        power = _power(heard, len(track.times_s))
        active, voiced = track.active, track.voiced
        speech_s = float(np.sum(active)) * FRAME_S
        pitch = track.pitch_hz[voiced].astype(np.float64)
        low, middle, high = np.percentile(pitch, (10, 50, 90)) if len(pitch) else (np.nan,) * 3
        return Prosody(
            duration_s=len(heard) / RATE_HZ,
            speech_s=speech_s,
            voiced_fraction=float(np.sum(voiced) / np.sum(active)) if speech_s else np.nan,
            pitch_hz=float(middle),
            pitch_range_semitones=float(12 * np.log2(high / low)),
            level_dbfs=_mean_level(track.level_dbfs[active]),
            tilt_db_octave=_tilt(power[voiced]),
            breathiness_db=_breathiness(_power(heard, len(voiced), RIPPLE_WINDOW)[voiced], track.pitch_hz[voiced]),
            rate_hz=_syllables(track) / speech_s if speech_s else np.nan,
            envelope=_envelope(power[voiced]),
        )

    def _track(self, heard: Floats) -> Track:
        found = self._pitch.detect(heard, RATE_HZ, *PITCH_HZ)
        level = found.loudness_db.astype(np.float32)
        active = level > max(QUIETEST_DBFS, float(np.percentile(level, 95)) - SPEECH_RANGE_DB)
        pitch = np.where(found.confidence >= CONFIDENCE_MIN, found.pitch_hz, np.nan).astype(np.float32)
        return Track(found.timestamps.astype(np.float32), pitch, level, active)


def envelope_distance_db(first: Floats, second: Floats) -> float:
    """RMS difference in dB of two log spectral envelopes given as cepstra; about 1 within a speaker, 3 between."""
    return float(np.sqrt(np.sum((first.astype(np.float64) - second) ** 2)))


def envelope_curve_db(envelope: Floats, frequency_hz: Floats) -> Floats:
    """Draws an envelope as level over frequency, mean 0: float32 (len(frequency_hz),). Flat outside `MEL_HZ`."""
    return np.asarray(np.interp(frequency_hz, _mel_centres()[1:-1], envelope @ _cosines()), np.float32)


def envelope_of_curve(frequency_hz: Floats, level_db: Floats) -> Floats:
    """Returns the envelope of a curve of levels over rising frequencies: what adding it does to a voice's envelope."""
    return np.asarray(np.interp(_mel_centres()[1:-1], frequency_hz, level_db) @ _cosines().T / MEL_BANDS, np.float32)


def semitones(pitch_hz: float, reference_hz: float) -> float:
    """How far `pitch_hz` lies above `reference_hz`."""
    return float(12 * np.log2(pitch_hz / reference_hz))


def resample(samples: Floats, from_hz: int, to_hz: int) -> Floats:
    """Changes the sample rate of float32 (n,) `samples` by cutting or extending the spectrum (no aliasing).

    The ends are padded, for a spectrum thinks that sound goes round in a circle.
    """
    if from_hz == to_hz or not len(samples):
        return samples
    # Whole seconds of padded sound have a whole number of samples at both rates, so pitch and length stay exact.
    seconds = len(samples) // from_hz + 2
    spectrum = np.fft.rfft(samples, seconds * from_hz)
    wide = np.fft.irfft(spectrum[: seconds * to_hz // 2 + 1], seconds * to_hz) * (to_hz / from_hz)
    return wide[: max(1, round(len(samples) * to_hz / from_hz))].astype(np.float32)


def _heard(samples: Floats, sample_rate_hz: int) -> Floats:
    if samples.ndim != 1:
        raise ValueError(f"samples has shape {samples.shape}; it must be mono, (n,)")
    if not np.all(np.isfinite(samples)):
        raise ValueError("samples holds values that are not finite")
    heard = resample(samples.astype(np.float32, copy=False), sample_rate_hz, RATE_HZ)
    if len(heard) < SAMPLES_MIN:
        raise ValueError(f"samples lasts {1000 * len(heard) / RATE_HZ:.0f} ms; at least 32 ms are needed")
    return heard


def _power(heard: Floats, frames: int, window: int = WINDOW) -> NDArray[np.float64]:
    """Power spectra float64 (frames, window // 2 + 1), centred as the pitch model centres its frames."""
    padded = np.pad(heard, (window // 2, window))
    cuts = np.lib.stride_tricks.sliding_window_view(padded, window)[::HOP][:frames]
    return np.abs(np.fft.rfft(cuts * np.hanning(window).astype(np.float32))).astype(np.float64) ** 2


def _mean_level(levels_dbfs: Floats) -> float:
    return float(10 * np.log10(np.mean(10 ** (levels_dbfs.astype(np.float64) / 10)))) if len(levels_dbfs) else np.nan


def _tilt(power: NDArray[np.float64]) -> float:
    if not len(power):
        return np.nan
    frequency = np.fft.rfftfreq(WINDOW, 1 / RATE_HZ)
    kept = (frequency >= TILT_HZ[0]) & (frequency <= TILT_HZ[1])
    octaves = np.log2(frequency[kept])
    level = 10 * np.log10(np.mean(power[:, kept], axis=0) + 1e-12)
    # Every octave counts the same, although the upper ones hold more bins.
    return float(np.polyfit(octaves, level, 1, w=np.sqrt(1 / frequency[kept]))[0])


def _breathiness(power: NDArray[np.float64], pitch_hz: Floats) -> float:
    """Minus the depth of the level's waves along frequency that are one pitch long, median over frames."""
    if not len(power):
        return np.nan
    frequency = np.fft.rfftfreq(RIPPLE_WINDOW, 1 / RATE_HZ)
    kept = (frequency >= RIPPLE_HZ[0]) & (frequency < RIPPLE_HZ[1])
    level = 10 * np.log10(power[:, kept] + 1e-9)
    level = (level - level.mean(axis=1, keepdims=True)) * np.hanning(np.sum(kept))
    waves = np.exp(2j * np.pi * frequency[kept] / pitch_hz[:, None].astype(np.float64))
    depth = 2 * np.abs(np.sum(level * waves, axis=1)) / np.sum(np.hanning(np.sum(kept)))
    return float(-np.median(depth))


def _mel_centres() -> NDArray[np.float64]:
    """The bands' centres in Hz with one more at either end, evenly spaced on O'Shaughnessy's mel scale."""
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in MEL_HZ)
    return np.asarray(700 * (10 ** (np.linspace(low, high, MEL_BANDS + 2) / 2595) - 1))


def _cosines() -> NDArray[np.float64]:
    """Float64 (CEPSTRA, MEL_BANDS), scaled so that the norm of an envelope is the RMS of its curve."""
    order = np.arange(1, CEPSTRA + 1)[:, None]
    return np.asarray(np.sqrt(2) * np.cos(np.pi * order * (np.arange(MEL_BANDS) + 0.5) / MEL_BANDS))


def _mel_filters() -> NDArray[np.float64]:
    """Triangles, float64 (MEL_BANDS, WINDOW // 2 + 1)."""
    centres = _mel_centres()
    frequency = np.fft.rfftfreq(WINDOW, 1 / RATE_HZ)
    rise = (frequency - centres[:-2, None]) / np.diff(centres)[:-1, None]
    fall = (centres[2:, None] - frequency) / np.diff(centres)[1:, None]
    filters = np.clip(np.minimum(rise, fall), 0, None)
    return np.asarray(filters / filters.sum(axis=1, keepdims=True))


def _envelope(power: NDArray[np.float64]) -> Floats:
    if not len(power):
        return np.full(CEPSTRA, np.nan, np.float32)
    bands = 10 * np.log10(power @ _mel_filters().T + 1e-9)
    return np.asarray(bands.mean(axis=0) @ _cosines().T / MEL_BANDS, np.float32)


def _syllables(track: Track) -> int:
    """Counts voiced peaks of the level between dips of `DIP_DB` (de Jong & Wempe, 2009)."""
    weights = np.hanning(7)[1:-1]
    level = np.convolve(track.level_dbfs, weights / weights.sum(), mode="same")
    count, dip, peak, peak_voiced = 0, np.inf, -np.inf, False
    for value, is_active, is_voiced in zip(level, track.active, track.voiced, strict=True):
        dip = min(dip, value)
        if is_active and value > peak and value - dip >= DIP_DB:
            peak, peak_voiced = value, bool(is_voiced)
        if peak - value >= DIP_DB:
            count += peak_voiced
            dip, peak, peak_voiced = value, -np.inf, False
    return count + peak_voiced
