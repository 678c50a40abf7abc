"""Runs Kokoro in two halves: phonemes become a score, and a score becomes sound.

Kokoro (StyleTTS 2 with an iSTFTNet decoder; Li et al., 2023, and Kaneko et al., 2022) decides first what sounds when,
how high and how loud, which takes a thirtieth of the time, and then makes the waveform. Cut between the two, a score
can be bent before it is heard, and a sentence can be heard from its start while its end is still being made.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from perception.voice import Floats
from services.tts.kokoro import graph
from services.tts.speech.reading import EDGE, Dictionary

RATE_HZ = 24_000
HOP = 300
FRAME_HZ = RATE_HZ / HOP
UNIT = 2
"""Frames per unit: durations and sounds are counted in units of 25 ms, pitch and loudness in frames of 12.5 ms."""
EARLY_FRAMES = 5
"""Its sounds come this much before the times that it gives for them: over many sentences and four speakers, loudness
follows the mouth shapes best when they are moved 62 ms to the front."""
STYLE_SIZE = 256
PHONEMES_MAX = 510

_TOKENS, _STYLE, _SPEED = "tokens", "style", "speed"
_SOUNDS, _PITCH, _LOUDNESS = "/encoder/MatMul_1_output_0", "/encoder/Reshape_output_0", "/encoder/Reshape_1_output_0"
_DURATIONS = "/encoder/Clip_output_0"
_AUDIO = "audio"


@dataclass(frozen=True, eq=False)
class Score:
    """What is to be heard.

    Attributes:
        symbols: The phonemes, with an edge before and after.
        ends: Frame at which each ends, float64 (symbols,).
        sounds: Which sound it is, float32 (512, units).
        pitch_hz: float32 (frames,); below 40 where there is no voice.
        loudness: Natural log of the power, float32 (frames,).
        style: Who says it, float32 (`STYLE_SIZE`,).
    """

    symbols: tuple[str, ...]
    ends: NDArray[np.float64]
    sounds: Floats
    pitch_hz: Floats
    loudness: Floats
    style: Floats

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.pitch_hz)


class Network:
    """The model without a voice: a voice is a style for every number of phonemes."""

    def __init__(self, weights: Path, threads: int) -> None:
        """Loads it; about 2 s and 250 MB.

        Raises:
            FileNotFoundError: There are no weights at that path.
        """
        if not weights.is_file():
            raise FileNotFoundError(f"{weights} is missing: run `make models WITH=kokoro`, or set the model folder")
        content = weights.read_bytes()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # The arena would keep the memory of the longest sentence for ever.
        options.enable_cpu_mem_arena = False
        self._composer, self._player = (
            onnxruntime.InferenceSession(
                graph.part(content, dict.fromkeys(inputs, graph.FLOAT) | kinds, outputs),
                options,
                providers=["CPUExecutionProvider"],
            )
            for inputs, kinds, outputs in (
                ([_STYLE, _SPEED], {_TOKENS: graph.INT64}, [_DURATIONS, _SOUNDS, _PITCH, _LOUDNESS]),
                ([_SOUNDS, _PITCH, _LOUDNESS, _STYLE], {}, [_AUDIO]),
            )
        )

    def score(self, phonemes: str, styles: Floats, dictionary: Dictionary) -> Score:
        """Decides how `phonemes` are said.

        Args:
            phonemes: At most `PHONEMES_MAX`.
            styles: The voice, float32 (`PHONEMES_MAX`, `STYLE_SIZE`): a style for every number of phonemes.
            dictionary: Knows the numbers of the phonemes.
        """
        symbols = (EDGE, *phonemes, EDGE)
        style = styles[len(phonemes) - 1]
        inputs = {
            _TOKENS: np.array([dictionary.ids(symbols)], np.int64),
            _STYLE: style[None],
            _SPEED: np.ones(1, np.float32),
        }
        durations, sounds, pitch_hz, loudness = self._composer.run(None, inputs)
        ends = np.cumsum(np.asarray(durations, np.float64).ravel()) * UNIT
        return Score(symbols, ends, sounds[0], pitch_hz[0], loudness[0], style)

    def sound(self, score: Score) -> Floats:
        """Makes the sound of a score: float32 (frames * HOP,)."""
        inputs = {
            _SOUNDS: score.sounds[None],
            _PITCH: score.pitch_hz[None],
            _LOUDNESS: score.loudness[None],
            _STYLE: score.style[None],
        }
        (audio,) = self._player.run(None, inputs)
        return np.asarray(audio, np.float32)
