"""Runs the network: phonemes become the spectra of speech, and how long each phoneme lasts."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from hibari import dsp
from numpy.typing import NDArray

from perception.voice import Floats
from services.tts.speech.reading import EDGE, Dictionary
from services.tts.speech.timbre import VOICED_HZ

RATE_HZ: int = dsp.SR
HOP: int = dsp.HOP
FRAME_HZ = RATE_HZ / HOP
BINS: int = dsp.N_FFT // 2 + 1
FRAMES_PER_UNIT = 2
"""The network counts durations in units of 25 ms; its spectra have a frame every 12.5 ms."""
_DURATIONS = "/Clip_output_0"


@dataclass(frozen=True, eq=False)
class Spectra:
    """What the network says about a sentence. All float32 (`BINS`, frames) but `pitch_hz`, which is (frames,).

    Attributes:
        harmonics: Natural log of the magnitude of the harmonics.
        harmonics_phase: Their phase in half turns, before tanh.
        noise: Log magnitude of noise of random phase.
        residual: Log magnitude of the rest; in this voice, fricatives and bursts.
        residual_phase: Its phase in radians.
        pitch_hz: Below `VOICED_HZ` where there is no voice.
    """

    harmonics: Floats
    harmonics_phase: Floats
    noise: Floats
    residual: Floats
    residual_phase: Floats
    pitch_hz: Floats

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.pitch_hz)

    @property
    def voiced(self) -> NDArray[np.bool_]:
        """Where the voice sounds, bool (frames,)."""
        return self.pitch_hz > VOICED_HZ


@dataclass(frozen=True, eq=False)
class Utterance:
    """A sentence in the network's terms: `symbols`, its edges included as "", and the frame where each ends."""

    symbols: tuple[str, ...]
    ends: NDArray[np.float64]
    spectra: Spectra


class Network:
    """The model of one voice."""

    def __init__(self, weights: Path, dictionary: Dictionary) -> None:
        """Loads it; about 0.5 s.

        Raises:
            FileNotFoundError: There are no weights at that path.
        """
        if not weights.is_file():
            raise FileNotFoundError(f"{weights} is missing: run `make models`, or set the model folder")
        content = weights.read_bytes()
        self.digest = hashlib.sha256(content).hexdigest()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # The arena would keep the memory of the longest sentence for ever, 50 MB; without it nothing is slower.
        options.enable_cpu_mem_arena = False
        self._dictionary = dictionary
        self._session = onnxruntime.InferenceSession(
            _with_output(content, _DURATIONS), options, providers=["CPUExecutionProvider"]
        )

    def utter(self, phonemes: str, speed: float) -> Utterance:
        """Speaks `phonemes` at `speed`, 1 being the model's own pace."""
        symbols = (EDGE, *phonemes, EDGE)
        ids = np.array([self._dictionary.ids(symbols)], np.int64)
        found = self._session.run(None, {"ids": ids, "speed": np.array([speed], np.float32)})
        units = np.asarray(found[6], np.float64).ravel()
        return Utterance(
            symbols, np.cumsum(units) * FRAMES_PER_UNIT, Spectra(*(np.asarray(part[0]) for part in found[:6]))
        )


def sound(spectra: Spectra, seed: int) -> Floats:
    """Turns spectra into sound, float32 (frames * HOP,); the noise in it follows from `seed`."""
    samples = dsp.synth(
        spectra.harmonics,
        spectra.harmonics_phase,
        spectra.noise,
        spectra.residual,
        spectra.residual_phase,
        spectra.pitch_hz,
        np.random.default_rng(seed),
    )
    return np.asarray(samples, np.float32)


def _with_output(model: bytes, name: str) -> bytes:
    """Makes an inner value of an ONNX model one of its outputs.

    Protobuf merges a message that is repeated, so it is enough to append a graph that has only this output:
    field 7 of ModelProto is the graph, field 12 of GraphProto an output, field 1 of ValueInfoProto its name.
    """
    message = name.encode()
    for field in (1, 12, 7):
        message = bytes([field << 3 | 2, len(message)]) + message
    return model + message
