"""Whose face it is: what depends on the portrait alone, made once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load, save

from services.video.dice_talk.models import Models

CLIP_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Final = (0.26862954, 0.26130258, 0.27577711)
BOX_SCALE: Final = 1.1
"""The face moves: the mask is this much larger than where it was seen. DICE-Talk's own figure."""


@dataclass(frozen=True)
class View:
    """A portrait at one size.

    Attributes:
        latents: float32 (4, side / 8, side / 8): the picture, as the autoencoder has it, not scaled.
        pose: (1, 1, channels, side / 8, side / 8): where the face is, for the U-Net; the same for all frames.
        mask: (1, 1, side, side): 1 where sound and emotion may move something, else 0.
    """

    latents: torch.Tensor
    pose: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True)
class Identity:
    """A portrait ready to be rendered.

    Attributes:
        embedding: (1, width): what CLIP sees in it.
        box: float32 (4,): left, top, right, bottom of the face, as parts of the side.
        views: By their side, px.
    """

    embedding: torch.Tensor
    box: NDArray[np.float32]
    views: Mapping[int, View]


def box_of(landmarks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns left, top, right, bottom of a face with (n, 3) `landmarks`, enlarged by `BOX_SCALE` around its middle."""
    low, high = landmarks[:, :2].min(0), landmarks[:, :2].max(0)
    middle, half = (low + high) / 2, (high - low) / 2 * BOX_SCALE
    return np.concatenate([middle - half, middle + half]).astype(np.float32)


def encode_portrait(
    models: Models, image: NDArray[np.uint8], box: NDArray[np.float32], sides: Iterable[int]
) -> Identity:
    """Encodes a square picture, uint8 (size, size, 3), RGB, with the face's `box` in its pixels."""
    picture = Image.fromarray(image)
    part = (box / len(image)).astype(np.float32)
    views = {side: _view(models, _latents(models, picture, side), part, side) for side in sides}
    return Identity(_see(models, picture), part, views)


def pack(identity: Identity) -> bytes:
    """Returns what the large networks found as safetensors: a few hundred kilobytes.

    Masks and poses are not in it: they are drawn from the box again, faster than they would be fetched.
    """
    latents = {f"latents.{side}": view.latents.cpu() for side, view in identity.views.items()}
    packed: bytes = save({"box": torch.from_numpy(identity.box), "embedding": identity.embedding.cpu(), **latents})
    return packed


def unpack(models: Models, content: bytes, sides: Iterable[int]) -> Identity:
    """Returns the identity that `pack` was given.

    Raises:
        ValueError: These are no bytes of `pack`, or of networks of another size or type, or a side is not in it.
    """
    try:
        found = load(content)
        box, embedding = found["box"], found["embedding"]
        latents = {side: found[f"latents.{side}"] for side in sides}
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"no rigged face of this renderer: {error!r}") from error
    _check("box", box, (4,), torch.float32)
    _check("embedding", embedding, (1, int(models.image_encoder.config.projection_dim)), models.dtype)
    for side, one in latents.items():
        _check(f"latents.{side}", one, (int(models.vae.config.latent_channels), side // 8, side // 8), torch.float32)
    part = box.numpy()
    views = {side: _view(models, one.to(models.device), part, side) for side, one in latents.items()}
    return Identity(embedding.to(models.device), part, views)


def _check(name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or not tensor.isfinite().all():
        found = f"{name} is {tensor.dtype} {tuple(tensor.shape)}"
        raise ValueError(f"{found}; this renderer has finite {dtype} {shape}")


def _see(models: Models, picture: Image.Image) -> torch.Tensor:
    """Returns CLIP's embedding, (1, width)."""
    small = _scaled(picture, int(models.image_encoder.config.image_size))
    normal = (small - torch.tensor(CLIP_MEAN)[:, None, None]) / torch.tensor(CLIP_STD)[:, None, None]
    embedding: torch.Tensor = models.image_encoder(normal[None].to(models.device, models.dtype)).image_embeds
    return embedding


def _latents(models: Models, picture: Image.Image, side: int) -> torch.Tensor:
    """Returns the picture as the autoencoder has it, float32 (4, side / 8, side / 8)."""
    pixels = _scaled(picture, side) * 2 - 1
    latents: torch.Tensor = models.vae.encode(pixels[None].to(models.device)).latent_dist.mode()[0]
    return latents.float()


def _view(models: Models, latents: torch.Tensor, box: NDArray[np.float32], side: int) -> View:
    mask = torch.zeros(1, 1, side, side, device=models.device, dtype=models.dtype)
    left, top, right, bottom = np.round(np.clip(box, 0, 1) * side).astype(int).tolist()
    mask[..., top:bottom, left:right] = 1
    pose = models.pose_guider(mask.expand(1, 3, side, side)[:, :, None])
    return View(latents, pose.transpose(1, 2), mask)


def _scaled(picture: Image.Image, side: int) -> torch.Tensor:
    """Returns float32 (3, side, side) between 0 and 1."""
    scaled = picture if picture.width == side else picture.resize((side, side), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.asarray(scaled, np.float32) / 255).permute(2, 0, 1)
