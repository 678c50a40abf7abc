"""Speech becomes tokens for each frame."""

from typing import Final

import numpy as np
import torch
from av import AudioFrame
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from services.video.dice_talk.models import HEARD, Models

RATE_HZ: Final = 16_000
SPEECH_S_MAX: Final = 30.0
"""What Whisper hears at once."""
POSITIONS: Final = 2
"""Positions of Whisper in a frame of the film (25 a second); a rendered frame lasts two of these."""
BEFORE, AFTER = 4, 6
"""Positions of silence around the speech: the first frame hears what comes with it, not what came before."""


class AudioEncoder:
    """Whisper's encoder with DICE-Talk's projection behind it.

    Attributes:
        silence: (tokens, width): what a frame hears that is told nothing.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        nothing = torch.zeros(1, HEARD, self._blocks, models.whisper.config.d_model, device=models.device)
        self.silence = self.project(nothing)[0]

    @property
    def _blocks(self) -> int:
        return int(self._models.whisper.config.encoder_layers) + 1

    def encode(self, samples: NDArray[np.int16], rate_hz: int, frames: int) -> torch.Tensor:
        """Returns (rendered frames, tokens, width) for speech that lasts `frames` of the film, 30 s at most.

        All frames are projected in one batch.
        """
        return self.project(self.listen(samples, rate_hz, frames))

    def listen(self, samples: NDArray[np.int16], rate_hz: int, frames: int) -> torch.Tensor:
        """Returns float32 (rendered frames, 10, blocks, channels): what Whisper's layers say around each.

        A rendered frame hears from 80 ms before it to 120 ms behind its beginning.
        """
        models = self._models
        wave = at_16_khz(samples, rate_hz)
        mel = models.mel(wave, sampling_rate=RATE_HZ, return_tensors="pt").input_features.to(models.device)
        layers = models.whisper(mel, output_hidden_states=True).hidden_states
        heard = torch.stack(layers, 2)[0, : POSITIONS * frames]
        # One window more than frames / 2: the last rendered frame may lie where the speech ends.
        padded = torch.nn.functional.pad(heard, (0, 0, 0, 0, BEFORE, AFTER))
        return padded.unfold(0, HEARD, 2 * POSITIONS).permute(0, 3, 1, 2)

    def project(self, heard: torch.Tensor) -> torch.Tensor:
        """Returns (frames, tokens, width) of float32 (frames, 10, blocks, channels)."""
        tokens: torch.Tensor = self._models.audio_projection(heard[None])[0]
        return tokens.to(self._models.dtype)


def at_16_khz(samples: NDArray[np.int16], rate_hz: int) -> NDArray[np.float32]:
    """Returns float32 (n,) between -1 and 1 at 16 kHz, at least one sample."""
    frame = AudioFrame.from_ndarray(np.ascontiguousarray(samples)[None], format="s16", layout="mono")
    frame.sample_rate = rate_hz
    resampler = AudioResampler(format="flt", layout="mono", rate=RATE_HZ)
    parts = [part.to_ndarray()[0] for part in (*resampler.resample(frame), *resampler.resample(None))]
    wave = np.zeros(max(1, round(len(samples) * RATE_HZ / rate_hz)), np.float32)
    heard = np.concatenate([*parts, wave[:0]])[: len(wave)]
    wave[: len(heard)] = heard
    return wave
