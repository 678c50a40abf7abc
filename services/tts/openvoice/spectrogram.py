"""The picture of sound that OpenVoice's networks read: linear magnitudes, neither mel nor logarithmic."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.tts.openvoice.masks import check_lengths, mask_of, masked

FLOOR = 1e-6
"""Added to the power before the root, as in training."""


@dataclass(frozen=True)
class Spectrogram:
    """How frames are cut: `size` samples (the window too), every `hop`."""

    size: int
    hop: int

    @property
    def bins(self) -> int:
        """Frequencies of a frame."""
        return self.size // 2 + 1

    @property
    def edge(self) -> int:
        """Samples that are mirrored at both ends, so that n samples have n // hop frames."""
        return (self.size - self.hop) // 2

    def of(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Returns the frames of each row; each row is mirrored at its own end.

        Args:
            samples: float32 (B, n).
            lengths: int64 (B,), each longer than `edge`.

        Returns:
            float32 (B, bins, n // hop), zero behind each row's end, `lengths // hop`.
        """
        known = check_lengths("samples", lengths, samples.shape[0], samples.shape[1], max(self.hop, self.edge + 1))
        last = known[:, None].to(samples.device) - 1
        place = (torch.arange(samples.shape[1] + 2 * self.edge, device=samples.device) - self.edge).abs()[None]
        mirrored = torch.where(place > last, 2 * last - place, place)
        inside = place <= last + self.edge
        padded = samples.gather(1, mirrored.clamp_min(0).expand(samples.shape[0], -1)) * inside
        frames = self.of_padded(padded)
        mask = mask_of(known // self.hop, frames.shape[2], frames)
        return masked(frames, mask)

    def of_padded(self, samples: Tensor) -> Tensor:
        """Returns the frames of float32 (B, m) that need no mirroring: (B, bins, (m - size) // hop + 1)."""
        window = torch.hann_window(self.size, device=samples.device)
        waves = torch.stft(samples, self.size, self.hop, window=window, center=False, return_complex=True)
        return (waves.real.square() + waves.imag.square() + FLOOR).sqrt()
