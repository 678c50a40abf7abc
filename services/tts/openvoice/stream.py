"""Networks over rows that are still growing: each frame is computed once all that it depends on is there."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from services.tts.openvoice.masks import mask_of, masked
from services.tts.openvoice.spectrogram import Spectrogram

Stage = Callable[[Tensor, bool], Tensor | None]
"""Takes what is further known, and whether it is the last; returns what is further ready, None while nothing is."""
Run = Callable[[Tensor, Tensor | None, int, int], Tensor]
"""Maps frames (B, C, T), their mask (B, 1, T) or None, and a begin and an end among them to the output from the one to
the other, (B, …, (end - begin) · rate)."""


class Window:
    """Runs a network over growing rows, with the neighbours that each frame depends on.

    Args:
        run: The network.
        lengths: int64 (B,) on the CPU: frames of the whole rows.
        before: How many frames to the left a frame depends on.
        behind: How many frames to the right.
    """

    def __init__(self, run: Run, lengths: Tensor, before: int, behind: int) -> None:
        self._run = run
        self._lengths = lengths
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
        mask = mask_of(self._lengths - self._first, near.shape[2], near)
        output = self._run(near, mask, self._done - self._first, ready - self._first)
        first = max(self._first, ready - self._before)
        self._near = near[:, :, first - self._first :]
        self._first, self._done = first, ready
        return output


class Pictures:
    """Cuts growing sound into the frames that `Spectrogram.of` gives of all of it.

    Args:
        spectrogram: How frames are cut.
        lengths: int64 (B,): samples of the whole rows.

    Raises:
        ValueError: A row is too short for a frame.
    """

    def __init__(self, spectrogram: Spectrogram, lengths: Tensor) -> None:
        self._spectrogram = spectrogram
        self._lengths = spectrogram.checked((len(lengths), int(lengths.max())), lengths)
        self._sound = torch.zeros(len(lengths), 0)
        self._first = 0  # the sample at which `_sound` begins
        self._done = 0  # frames

    def __call__(self, samples: Tensor, last: bool) -> Tensor | None:
        """Returns the frames (B, bins, T) that are ready after further float32 (B, n) samples, None while none is."""
        edge, hop, size = self._spectrogram.edge, self._spectrogram.hop, self._spectrogram.size
        sound = torch.cat([self._sound.to(samples.device), samples], dim=1)
        known = self._first + sound.shape[1]
        ready = max(0, (known + edge * (2 if last else 1) - size) // hop + 1)
        self._sound = sound
        if ready <= self._done:
            return None
        begin, end = self._done * hop - edge, (ready - 1) * hop + size - edge
        rows = self._spectrogram.mirrored(sound, self._lengths, begin, end, self._first)
        frames = self._spectrogram.of_padded(rows)
        mask = mask_of(self._lengths // hop - self._done, frames.shape[2], frames)
        # What the next frame begins with may be mirrored at a row's end: from as far before it.
        first = max(self._first, ready * hop - 3 * edge)
        self._sound = sound[:, first - self._first :]
        self._first, self._done = first, ready
        return masked(frames, mask)


class Conversion:
    """Converts sentences while they are still being spoken; altogether it gives the samples of the whole.

    Each feeding recomputes what frames depend on, so few long pieces cost less than many short ones.

    Args:
        device: Where the networks run.
        pictures: Makes frames of samples.
        stages: What the frames go through; each returns what is ready, the last of them float (B, samples).
    """

    def __init__(self, device: torch.device, pictures: Pictures, stages: Sequence[Stage]) -> None:
        self._device = device
        self._stages: tuple[Stage, ...] = (pictures, *stages)

    def feed(self, samples: Tensor, last: bool = False) -> Tensor:
        """Takes further samples, float32 (B, n), and returns those that are ready, float32 (B, m); m may be 0.

        After the `last`, everything is ready.
        """
        values = samples.to(self._device)
        for stage in self._stages:
            ready = stage(values, last)
            if ready is None:
                return torch.zeros(len(samples), 0, device=self._device)
            values = ready
        return values.float()
