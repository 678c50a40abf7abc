"""Latents become pictures, a few at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from services.video.dice_talk.clock import now_s
from services.video.dice_talk.models import Models

CHUNK_MAX: Final = 10
"""Frames that are decoded at once: memory grows with them. DICE-Talk's own figure."""


@dataclass(frozen=True)
class Decoded:
    """Some frames of the film, uint8 (size, size, 3) each; how long they took, and of that, the interpolation."""

    frames: tuple[NDArray[np.uint8], ...]
    seconds: float
    interpolation_s: float


def chunks(count: int) -> list[int]:
    """Returns the sizes of the chunks in which `count` frames are decoded: as few as may be, and all about as large.

    A decoded frame looks at its neighbours in the chunk; a lone one has none.
    """
    many = -(-count // CHUNK_MAX)
    return [count // many + (place < count % many) for place in range(many)]


class Decoder:
    """The autoencoder's decoder, the network that interpolates, and the scaling to the film's size."""

    def __init__(self, models: Models, size_px: int) -> None:
        self._models = models
        self._size_px = size_px

    def decode(self, latents: torch.Tensor, interpolated: bool) -> Iterator[Decoded]:
        """Yields the film at 25 fps of `latents`, (rendered frames, 4, height, width) scaled, at 12.5 fps.

        Interpolated, n rendered frames give 2 n - 1; else each is shown twice.
        """
        device = self._models.device
        before = None
        for part in latents.split(chunks(len(latents))):
            started_s = now_s(device)
            pictures = self._pictures(part)
            decoded_s = now_s(device)
            shown = self._interpolate(pictures, before) if interpolated else pictures.repeat_interleave(2, 0)
            between_s = now_s(device) if interpolated else decoded_s
            frames = tuple(self._to_frames(shown))
            before = pictures[-1:]
            yield Decoded(frames, now_s(device) - started_s, between_s - decoded_s)

    def _pictures(self, latents: torch.Tensor) -> torch.Tensor:
        """Returns float32 (frames, 3, height, width) between 0 and 1."""
        vae = self._models.vae
        scaled = (latents / vae.config.scaling_factor).to(self._models.dtype)
        pictures = vae.decode(scaled, num_frames=len(latents)).sample.float()
        return (pictures * 0.5 + 0.5).clamp(0, 1)

    def _interpolate(self, pictures: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
        """Returns the pictures, each with the one that lies before it; the film's first has none."""
        shown = []
        # One by one, for the checkout's network keeps a grid for every size of a batch that it ever saw.
        for picture in pictures.split(1):
            if before is not None:
                shown.append(self._models.interpolator.inference(before, picture).clamp(0, 1))
            shown.append(picture)
            before = picture
        return torch.cat(shown)

    def _to_frames(self, pictures: torch.Tensor) -> NDArray[np.uint8]:
        size = (self._size_px, self._size_px)
        if tuple(pictures.shape[-2:]) != size:
            pictures = torch.nn.functional.interpolate(pictures, size=size, mode="bicubic", antialias=True)
        whole = (pictures.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).contiguous()
        return np.asarray(whole.cpu().numpy(), np.uint8)
