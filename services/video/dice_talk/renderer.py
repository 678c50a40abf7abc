"""Speech and an emotion become a film of a portrait."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from services.video.dice_talk.audio import RATE_HZ, AudioEncoder
from services.video.dice_talk.clock import now_s
from services.video.dice_talk.costs import Costs, frames_of, rendered_of
from services.video.dice_talk.decoding import Decoder
from services.video.dice_talk.denoising import Denoiser, Scene
from services.video.dice_talk.emotion import EmotionTokens
from services.video.dice_talk.identity import Identity, encode_portrait, unpack
from services.video.dice_talk.models import Models
from services.video.dice_talk.tiers import Tier
from services.video.dice_talk.windows import padding
from services.video.domain import Expression, Frame, Progress

WARM_UP_S: Final = 0.72
"""Ten rendered frames: a whole chunk of the decoder."""


class Renderer:
    """All networks, loaded once.

    Args:
        models: The networks.
        priors: Float32 (256,) of each class.
        size_px: Side of the film's frames.
        tiers: What is asked for later; only the sizes that they name are prepared.

    Attributes:
        models: The networks.
        denoiser: What is between them.
        costs: What was measured.
    """

    def __init__(self, models: Models, priors: Mapping[str, torch.Tensor], size_px: int, tiers: Sequence[Tier]) -> None:
        self.costs = Costs()
        self.models = models
        self._tiers = tiers
        self._sides = sorted({tier.side_px for tier in tiers})
        self._audio = AudioEncoder(models)
        self._emotion = EmotionTokens(models, priors)
        self.denoiser = Denoiser(models)
        self._decoder = Decoder(models, size_px)
        self._size_px = size_px

    def encode_portrait(self, image: NDArray[np.uint8], box: NDArray[np.float32]) -> Identity:
        """Makes a square picture, uint8 (size, size, 3), RGB, ready; the face's `box` is in its pixels."""
        return encode_portrait(self.models, image, box, self._sides)

    def unpack(self, content: bytes) -> Identity:
        """Returns an identity that was packed.

        Raises:
            ValueError: It is none of these networks and sizes.
        """
        return unpack(self.models, content, self._sides)

    def render(
        self,
        identity: Identity,
        expression: Expression,
        samples: NDArray[np.int16],
        rate_hz: int,
        tier: Tier,
        seed: int,
    ) -> Iterator[Frame | Progress]:
        """Yields the progress after every call of the U-Net and of the decoder, and the frames as they are decoded.

        Speech lasts 30 s at most. Closing the iterator stops the work at the call that runs.
        """
        duration_s = len(samples) / rate_hz
        frames = frames_of(duration_s)
        if not frames:
            return
        denoising_part = self.costs.denoising_part(duration_s, tier)
        scene = self.scene(identity, expression, samples, rate_hz, tier)
        rendered = len(scene.audio)
        latents = scene.view.latents.new_empty(0)
        for call in self.denoiser.denoise(scene, tier.steps, seed):
            self.costs.add_call(tier, call.seconds)
            latents = call.latents[:rendered]
            yield Progress(call.done * denoising_part)
        left, seconds, between_s = frames, 0.0, 0.0
        for part in self._decoder.decode(latents, tier.interpolated):
            seconds += part.seconds
            between_s += part.interpolation_s
            shown = part.frames[:left]
            left -= len(shown)
            yield Progress(denoising_part + (1 - denoising_part) * (1 - left / frames))
            yield from shown
        self.costs.add_decoding(tier, rendered, seconds, between_s)

    def scene(
        self, identity: Identity, expression: Expression, samples: NDArray[np.int16], rate_hz: int, tier: Tier
    ) -> Scene:
        """Listens to the speech, and gathers what the U-Net is told."""
        started_s = now_s(self.models.device)
        frames = frames_of(len(samples) / rate_hz)
        audio = self._audio.encode(samples, rate_hz, frames)
        assert len(audio) == rendered_of(frames), (len(audio), frames)
        scene = Scene(
            embedding=identity.embedding,
            view=identity.views[tier.side_px],
            audio=audio,
            silence=self._audio.silence,
            emotion=self._emotion.tokens(expression),
            no_emotion=self._emotion.none,
            padding=padding(len(audio)),
        )
        self.costs.add_audio(now_s(self.models.device) - started_s)
        return scene

    def warm_up(self) -> None:
        """Renders a moment of each size, twice: the first time is slow, the second tells what a film will cost."""
        grey = np.full((self._size_px, self._size_px, 3), 128, np.uint8)
        box = np.array([0.25, 0.25, 0.75, 0.75], np.float32) * self._size_px
        identity = self.encode_portrait(grey, box)
        silence = np.zeros(round(WARM_UP_S * RATE_HZ), np.int16)
        kinds = {(tier.side_px, tier.interpolated): tier for tier in self._tiers}
        for _ in range(2):
            self.costs = Costs()
            for tier in kinds.values():
                one = tier.model_copy(update={"steps": 1})
                for _ in self.render(identity, Expression("neutral", 0.0), silence, RATE_HZ, one, seed=0):
                    pass
