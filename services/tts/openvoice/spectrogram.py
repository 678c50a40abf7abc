"""The picture of sound that OpenVoice's networks read: linear magnitudes, neither mel nor logarithmic."""

from collections.abc import Sequence
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
        known = self.checked(samples.shape, lengths)
        frames = self.of_padded(self.mirrored(samples, known, -self.edge, samples.shape[1] + self.edge))
        mask = mask_of(known // self.hop, frames.shape[2], frames)
        return masked(frames, mask)

    def checked(self, shape: Sequence[int], lengths: Tensor) -> Tensor:
        """Returns the lengths of rows (B, n) after checking that they fit and that each is a frame or longer.

        Raises:
            ValueError: They do not, or one is not.
        """
        return check_lengths("samples", lengths, shape[0], shape[1], max(self.hop, self.edge + 1))

    def mirrored(self, samples: Tensor, lengths: Tensor, begin: int, end: int, first: int = 0) -> Tensor:
        """Returns rows from `begin` to `end`, mirrored `edge` wide at place 0 and at each row's own end, then zero.

        Args:
            samples: float32 (B, n), the rows from `first` on: all that is asked for, and what is mirrored there.
            lengths: int64 (B,) on the CPU: the whole rows.
            begin: A place in the whole rows, `-edge` or more.
            end: Another.
            first: Place of the first of `samples`.
        """
        last = lengths[:, None].to(samples.device) - 1
        place = torch.arange(begin, end, device=samples.device).abs()[None]
        inside = place <= last + self.edge
        there = torch.where(place > last, 2 * last - place, place) - first
        return samples.gather(1, there.clamp_min(0).expand(samples.shape[0], -1)) * inside

    def of_padded(self, samples: Tensor) -> Tensor:
        """Returns the frames of float32 (B, m) that need no mirroring: (B, bins, (m - size) // hop + 1)."""
        window = torch.hann_window(self.size, device=samples.device)
        waves = torch.stft(samples, self.size, self.hop, window=window, center=False, return_complex=True)
        return (waves.real.square() + waves.imag.square() + FLOOR).sqrt()
