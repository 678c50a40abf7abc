"""Networks over frames that are still arriving: each frame is computed once all that it depends on is there."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from services.tts.openvoice.spectrogram import Spectrogram

Stage = Callable[[Tensor, bool], Tensor | None]
"""Takes what is further known, and whether it is the last; returns what is further ready, None while nothing is."""


class Window:
    """Runs a network over a growing row, with the neighbours that each frame depends on.

    Args:
        run: Maps (1, C, T) to (1, …, (end - begin) · rate), the output for the frames from `begin` to `end`.
        before: How many frames to the left a frame depends on.
        behind: How many frames to the right.
    """

    def __init__(self, run: Callable[[Tensor, int, int], Tensor], before: int, behind: int) -> None:
        self._run = run
        self._before = before
        self._behind = behind
        self._near: Tensor | None = None
        self._first = 0  # the frame at which `_near` begins
        self._done = 0

    def __call__(self, frames: Tensor, last: bool) -> Tensor | None:
        """Returns what is ready of the output after further `frames`, None while nothing is."""
        near = frames if self._near is None else torch.cat([self._near, frames], dim=2)
        known = self._first + near.shape[2]
        ready = known if last else known - self._behind
        self._near = near
        if ready <= self._done:
            return None
        output = self._run(near, self._done - self._first, ready - self._first)
        first = max(self._first, ready - self._before)
        self._near = near[:, :, first - self._first :]
        self._first, self._done = first, ready
        return output


class Pictures:
    """Cuts growing sound into the frames that `Spectrogram.of` gives of all of it.

    Args:
        spectrogram: How frames are cut.
    """

    def __init__(self, spectrogram: Spectrogram) -> None:
        self._spectrogram = spectrogram
        self._sound = torch.zeros(0)
        self._begun = False

    def __call__(self, samples: Tensor, last: bool) -> Tensor | None:
        """Returns the frames (1, bins, T) that are ready after further float32 (n,) samples, None while none is.

        Raises:
            ValueError: All of the sound is too short for one frame.
        """
        edge, hop, size = self._spectrogram.edge, self._spectrogram.hop, self._spectrogram.size
        sound = torch.cat([self._sound.to(samples.device), samples])
        if not self._begun and len(sound) > edge:
            sound = torch.cat([sound[1 : edge + 1].flip(0), sound])
            self._begun = True
        if last and self._begun:
            sound = torch.cat([sound, sound[-edge - 1 : -1].flip(0)])
        elif last:
            raise ValueError(f"samples: {len(sound)} in all; send at least {edge + 1}")
        count = (len(sound) - size) // hop + 1 if self._begun else 0
        self._sound = sound[max(0, count) * hop :]
        if count < 1:
            return None
        return self._spectrogram.of_padded(sound[None, : size + (count - 1) * hop])


class Conversion:
    """Converts one sentence while it is still being spoken; altogether it gives the samples of the whole.

    Each feeding recomputes what frames depend on, so few long pieces cost less than many short ones.

    Args:
        device: Where the networks run.
        pictures: Makes frames of samples.
        stages: What the frames go through; each returns what is ready, the last of them float (1, samples).
    """

    def __init__(self, device: torch.device, pictures: Pictures, stages: Sequence[Stage]) -> None:
        self._device = device
        self._stages: tuple[Stage, ...] = (pictures, *stages)

    def feed(self, samples: Tensor) -> Tensor:
        """Takes further samples, float32 (n,), and returns those that are ready, float32 (m,); m may be 0."""
        return self._through(samples, last=False)

    def finish(self) -> Tensor:
        """Returns the rest, float32 (m,).

        Raises:
            ValueError: The sound was too short.
        """
        return self._through(torch.zeros(0), last=True)

    def _through(self, values: Tensor, last: bool) -> Tensor:
        values = values.to(self._device)
        for stage in self._stages:
            ready = stage(values, last)
            if ready is None:
                return torch.zeros(0, device=self._device)
            values = ready
        return values[0].float()
