"""Tells speakers apart: a recording becomes 256 numbers that are alike when the same person speaks.

The network is GE2E (Wan et al., "Generalized End-to-End Loss for Speaker Verification", 2018) with the weights of
Resemblyzer (Jemine; Apache-2.0): 40 mel bands every 10 ms, three LSTM layers of 256 over stretches of 1.6 s, and their
mean. About 40 times faster than real time on one core.
"""

from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from perception import checkpoint, lstm
from perception.voice import resample

Floats = NDArray[np.float32]

RATE_HZ: Final = 16_000
WINDOW: Final = 400
HOP: Final = 160
MEL_BANDS: Final = 40
STRETCH: Final = 160
"""Frames that the network hears at a time."""
STRETCHES_HZ: Final = 1.3
"""How many stretches start per second; they overlap."""
COVERAGE_MIN: Final = 0.75
"""The last stretch counts if at least this share of it is sound."""
LEVEL_DBFS: Final = -20.0
"""Every recording is brought to this, for the network hears loudness. Of -30, -25 and -20 this tells Kokoro's 28
speakers apart best, as well as when louder ones are left as they are, which is what Resemblyzer does above -30."""
SILENCE_DB: Final = 35.0
"""A frame this far below the loud ones is silent."""
SILENCE_FRAMES_MAX: Final = 18
"""Longer silences are cut out: they say nothing about who speaks."""
LAYERS: Final = 3
SAMPLES_MIN: Final = RATE_HZ // 2


class SpeakerReader:
    """Embeds recordings; about 25 ms per second of speech."""

    def __init__(self, weights: Path) -> None:
        """Loads the weights.

        Args:
            weights: The checkpoint, as `make models WITH=kokoro` fetches it.

        Raises:
            FileNotFoundError: There is none.
            ValueError: It is another network's.
        """
        if not weights.is_file():
            raise FileNotFoundError(f"{weights} is missing: run `make models WITH=kokoro`, or set the model folder")
        found = checkpoint.read(weights, "model_state")
        try:
            layers = [
                (
                    found[f"lstm.weight_ih_l{layer}"],
                    found[f"lstm.weight_hh_l{layer}"],
                    found[f"lstm.bias_ih_l{layer}"] + found[f"lstm.bias_hh_l{layer}"],
                )
                for layer in range(LAYERS)
            ]
            self._linear, self._bias = found["linear.weight"].T, found["linear.bias"]
        except KeyError as error:
            raise ValueError(f"{weights} is no GE2E network: it has no {error}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._lstm = onnxruntime.InferenceSession(lstm.model(layers), options, providers=["CPUExecutionProvider"])
        self._filters = _mel_filters()

    def embed(self, samples: Floats, sample_rate_hz: int) -> Floats:
        """Returns who speaks in float32 (n,) mono `samples`, -1 to 1: float32 (256,), of norm 1.

        Raises:
            ValueError: `samples` is not one-dimensional, or holds less than half a second of sound.
        """
        if samples.ndim != 1:
            raise ValueError(f"samples has shape {samples.shape}; it must be mono, (n,)")
        heard = _without_silence(resample(samples.astype(np.float32, copy=False), sample_rate_hz, RATE_HZ))
        if len(heard) < SAMPLES_MIN:
            raise ValueError(f"samples holds {len(heard) / RATE_HZ:.2f} s of sound; at least 0.5 s of it are needed")
        level_dbfs = 10 * np.log10(np.mean(np.square(heard, dtype=np.float64)))
        return self._embed(heard * np.float32(10 ** ((LEVEL_DBFS - level_dbfs) / 20)))

    def _embed(self, heard: Floats) -> Floats:
        """Embeds sound without silences at `RATE_HZ`, at the level that it has."""
        starts = _starts(len(heard))
        padded = np.pad(heard, (0, max(0, (starts[-1] + STRETCH) * HOP - len(heard))))
        mel = _mel(padded, self._filters)
        stretches = np.stack([mel[start : start + STRETCH] for start in starts], axis=1)
        (state,) = self._lstm.run(None, {lstm.INPUT: stretches})
        raw = np.maximum(state @ self._linear + self._bias, 0)
        mean = np.mean(raw / np.linalg.norm(raw, axis=1, keepdims=True), axis=0)
        return np.asarray(mean / np.linalg.norm(mean), np.float32)


def likeness(first: Floats, second: Floats) -> float:
    """Cosine of two embeddings: about 0.9 for two recordings of one speaker, 0.5 to 0.75 for two speakers."""
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


def _without_silence(heard: Floats) -> Floats:
    frames = len(heard) // HOP
    power = np.mean(np.square(heard[: frames * HOP].reshape(frames, HOP), dtype=np.float64), axis=1)
    if not frames or not np.any(power > 0):
        return heard[:0]
    level_db = 10 * np.log10(power + 1e-12)
    loud = level_db > np.percentile(level_db, 95) - SILENCE_DB
    # A silent frame stays while a loud one is near.
    near = np.convolve(loud, np.ones(SILENCE_FRAMES_MAX + 1), mode="same")[:frames] > 0
    return heard[: frames * HOP].reshape(frames, HOP)[near].ravel()


def _starts(samples: int) -> list[int]:
    """First frames of the stretches in which a recording is heard."""
    frames = int(np.ceil((samples + 1) / HOP))
    step = round(RATE_HZ / STRETCHES_HZ / HOP)
    starts = list(range(0, max(1, frames - STRETCH + step + 1), step))
    is_short = (samples - starts[-1] * HOP) / (STRETCH * HOP) < COVERAGE_MIN
    return starts[:-1] if is_short and len(starts) > 1 else starts


def _mel(heard: Floats, filters: Floats) -> Floats:
    """Power in mel bands, float32 (frames, MEL_BANDS), not logarithmic; frames are centred."""
    padded = np.pad(heard, WINDOW // 2)
    cuts = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)
    power = np.abs(np.fft.rfft(cuts * window)) ** 2
    return np.asarray(power @ filters.T, np.float32)


def _mel_filters() -> Floats:
    """Triangles of equal area on Slaney's mel scale (Auditory Toolbox, 1998) from 0 to 8 kHz: (MEL_BANDS, bins).

    The scale is linear below 1 kHz, 15 bands per kHz, and logarithmic above, 27 bands per factor of 6.4.
    """
    top = 15 + 27 * np.log(RATE_HZ / 2 / 1000) / np.log(6.4)
    mel = np.linspace(0, top, MEL_BANDS + 2)
    centres = np.where(mel < 15, mel * 1000 / 15, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    frequency = np.fft.rfftfreq(WINDOW, 1 / RATE_HZ)
    rise = (frequency - centres[:-2, None]) / np.diff(centres)[:-1, None]
    fall = (centres[2:, None] - frequency) / np.diff(centres)[1:, None]
    width = (centres[2:] - centres[:-2])[:, None]
    return np.asarray(np.clip(np.minimum(rise, fall), 0, None) * 2 / width, np.float32)
