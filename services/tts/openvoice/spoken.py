"""Speech as latent frames, before it becomes sound."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Latents:
    """Frames that a vocoder turns into sound.

    Attributes:
        latents: (B, C, F), zero behind each row's end.
        frames: int64 (B,), on the CPU: frames of each row.
        condition: (B, W, 1): what the vocoder is told of the voice.
    """

    latents: Tensor
    frames: Tensor
    condition: Tensor


@dataclass(frozen=True)
class Spoken(Latents):
    """Latents that were made from symbols.

    Attributes:
        durations: int64 (B, T), on the CPU: frames of each symbol, zero behind the row's end. They sum to `frames`.
    """

    durations: Tensor
