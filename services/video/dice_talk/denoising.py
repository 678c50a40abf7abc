"""Noise becomes a film: what is between the networks, after Ho and Salimans 2022 and Karras et al. 2022."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from diffusers import EulerDiscreteScheduler

from services.video.dice_talk.clock import now_s
from services.video.dice_talk.identity import View
from services.video.dice_talk.models import Models
from services.video.dice_talk.windows import WINDOW, windows

REFERENCE_SCALE: Final = 3.0
"""How far guidance follows the portrait."""
EXPRESSION_SCALE: Final = 6.0
"""How far guidance follows sound and emotion, both together: with three branches they cannot be told apart."""
TIME_IDS: Final = (12.5, 8.0, 16.0)
"""Frames a second, motion of the picture, motion of the expression: the third is where Stable Video Diffusion has the
noise of its conditioning image."""


@dataclass(frozen=True)
class Scene:
    """What is to be seen.

    Attributes:
        embedding: (1, width): what CLIP sees in the portrait.
        view: The portrait at the size of the film.
        audio: (frames, tokens, width): what each frame hears; idle frames follow, which hear `silence`.
        silence: (tokens, width).
        emotion: (tokens, width): what the face shows.
        no_emotion: (tokens, width): what guidance leads away from.
        padding: How many idle frames follow.
    """

    embedding: torch.Tensor
    view: View
    audio: torch.Tensor
    silence: torch.Tensor
    emotion: torch.Tensor
    no_emotion: torch.Tensor
    padding: int


@dataclass(frozen=True)
class UnetCall:
    """The U-Net was called once.

    Attributes:
        done: How much of the denoising is done, 0 to 1.
        seconds: How long the call took.
        latents: float32 (frames and padding, 4, side / 8, side / 8), scaled: the film after the last whole step.
    """

    done: float
    seconds: float
    latents: torch.Tensor


class Denoiser:
    """Stable Video Diffusion's U-Net as DICE-Talk changed it, in windows, guided three ways.

    Args:
        models: The networks.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    def denoise(self, scene: Scene, steps: int, seed: int) -> Iterator[UnetCall]:
        """Yields after every call of the U-Net; the last one brings the film.

        The same seed gives each frame the same noise at its place, however long the film is.
        """
        total = len(scene.audio) + scene.padding
        # A schedule counts its steps: each film has its own.
        schedule = EulerDiscreteScheduler.from_config(self._models.schedule)
        schedule.set_timesteps(steps, device=self._models.device)
        inputs = self._inputs(scene)
        latents = self._noise(scene.view, total, seed, float(schedule.sigmas[0]))
        for step, level in enumerate(schedule.timesteps):
            noisy = schedule.scale_model_input(latents, level)
            at = windows(total, step).to(self._models.device)
            found = torch.zeros_like(latents)
            for place, indices in enumerate(at, 1):
                # Waiting for each call, else it would only be queued, and a film that is called off still be rendered.
                started_s = now_s(self._models.device)
                found.index_add_(0, indices, self._estimate(inputs, noisy, indices, level))
                if place == len(at):
                    # An Euler step is linear in the estimate: averaging over windows before it is averaging after it.
                    found /= torch.bincount(at.flatten(), minlength=total)[:, None, None, None]
                    latents = schedule.step(found, level, latents).prev_sample
                done = (step + place / len(at)) / steps
                yield UnetCall(done, now_s(self._models.device) - started_s, latents)

    def _inputs(self, scene: Scene) -> "_Inputs":
        idle = scene.silence.expand(scene.padding, -1, -1)
        frames, total = len(scene.audio), len(scene.audio) + scene.padding
        emotion = scene.no_emotion.repeat(total, 1, 1)
        emotion[:frames] = scene.emotion
        models = self._models
        return _Inputs(
            embedding=torch.cat([torch.zeros_like(scene.embedding), scene.embedding, scene.embedding]),
            reference=torch.stack([torch.zeros_like(scene.view.latents), scene.view.latents, scene.view.latents]),
            audio=torch.cat([scene.audio, idle]),
            silence=scene.silence,
            emotion=emotion,
            no_emotion=scene.no_emotion,
            view=scene.view,
            time_ids=torch.tensor([TIME_IDS] * 3, device=models.device, dtype=models.dtype),
        )

    def _noise(self, view: View, total: int, seed: int, level: float) -> torch.Tensor:
        """Returns the film before the first step: the portrait under noise, float32."""
        noise = noise_of(seed, total, tuple(view.latents.shape)).to(self._models.device)
        return view.latents * self._models.vae.config.scaling_factor + level * noise

    def _estimate(
        self, inputs: "_Inputs", noisy: torch.Tensor, indices: torch.Tensor, level: torch.Tensor
    ) -> torch.Tensor:
        """Returns float32 (25, 4, height, width): what the U-Net says of the frames `indices`, guided.

        Three branches go through it at once: told nothing, told the portrait, told all.
        """
        dtype = self._models.dtype
        frames = torch.cat(
            [noisy[indices].expand(3, -1, -1, -1, -1), inputs.reference[:, None].expand(-1, WINDOW, -1, -1, -1)], 2
        )
        # A list of its own for each call: the checkout's code puts other tensors into it.
        heard = [
            torch.cat([inputs.silence.repeat(2 * WINDOW, 1, 1), inputs.audio[indices]]),
            torch.cat([inputs.no_emotion.repeat(2 * WINDOW, 1, 1), inputs.emotion[indices]]),
        ]
        answer = self._models.unet(
            frames.to(dtype),
            level,
            encoder_hidden_states=(inputs.embedding[:, None].repeat_interleave(WINDOW, 0), heard),
            spatial_condition=inputs.view.pose,
            cross_attention_kwargs={"ip_adapter_masks": [inputs.view.mask] * 2},
            added_time_ids=inputs.time_ids,
            return_dict=False,
        )[0]
        return guide(*answer.float())


def noise_of(seed: int, total: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Returns float32 (total, *shape); a frame's noise depends on the seed and its place, not on `total`."""
    # On the CPU, so that every device begins the same film; frame by frame, so that its length does not matter.
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randn(shape, generator=generator) for _ in range(total)])


def guide(blind: torch.Tensor, portrait: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
    """Leads from what the U-Net says without any input over what it says of the portrait to what it says of all."""
    return blind + REFERENCE_SCALE * (portrait - blind) + EXPRESSION_SCALE * (full - portrait)


@dataclass(frozen=True)
class _Inputs:
    """A scene laid out for the U-Net.

    Attributes:
        embedding: (3, width), by branch.
        reference: float32 (3, 4, height, width), by branch.
        audio: (frames and padding, tokens, width).
        silence: (tokens, width).
        emotion: (frames and padding, tokens, width).
        no_emotion: (tokens, width).
        view: The portrait.
        time_ids: (3, 3).
    """

    embedding: torch.Tensor
    reference: torch.Tensor
    audio: torch.Tensor
    silence: torch.Tensor
    emotion: torch.Tensor
    no_emotion: torch.Tensor
    view: View
    time_ids: torch.Tensor
