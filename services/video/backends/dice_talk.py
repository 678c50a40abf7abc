"""DICE-Talk (Tan et al. 2025, arXiv:2504.18087): a diffusion model renders the face, on a GPU, in segments.

Its code and weights are CC BY-NC-SA 4.0: NOT for commercial use, and not part of this project. The operator names a
checkout of its code, a folder of its weights, and the emotions' priors, which `python -m
services.video.dice_talk.priors` converts from the checkout. `docs/dice_talk.md` says how, and what they are licensed
for; `services.video.dice_talk` holds how it is done.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from perception.face import FaceReader
from services.common.errors import InvalidRequest
from services.common.weights import digest_of
from services.video import framing
from services.video.dice_talk import priors
from services.video.dice_talk.audio import SPEECH_S_MAX
from services.video.dice_talk.checkout import open_checkout
from services.video.dice_talk.costs import FPS, WINDOW_S
from services.video.dice_talk.identity import Identity, box_of, pack
from services.video.dice_talk.models import check_files, load_models
from services.video.dice_talk.renderer import Renderer
from services.video.dice_talk.tiers import TIERS, Tier
from services.video.domain import Backend, Expression, Frame, Performance, Portrait, Progress, Rig, Segments, Speech

SIZE_PX = 512


class Settings(BaseSettings):
    """Settings of DICE-Talk."""

    model_config = SettingsConfigDict(env_prefix="E3RG_VIDEO_", frozen=True, hide_input_in_errors=True)

    checkout: Path = Field(default=...)
    """Folder with a checkout of DICE-Talk's code: the one that holds `src/`. It is run: read it before."""
    weights: Path = Field(default=...)
    """Folder of the weights, which DICE-Talk's README calls `checkpoints`; with `priors.safetensors` in it."""
    models_dir: Path = Path(".models")
    """Folder of the networks that find the face, as `make models` fills it."""
    device: str = "cuda"
    """Where it runs: "cuda", "cuda:1", "cpu"."""
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    """Type of the large networks' weights. float32 on a CPU."""
    tiers: Mapping[str, Tier] = Field(default=TIERS, min_length=1)
    """The quality tiers, best first; as JSON: {"best": {"steps": 25, "side_px": 512, "interpolated": true}}."""
    segment_first_s: float = Field(default=1.0, ge=0)
    """The first piece of a reply, which its viewer waits for, is not shorter than this."""
    segment_min_s: float = Field(default=4.0, ge=0)
    """The pieces after it, but the last, are not shorter than this."""
    segment_max_s: float = Field(default=8.0, gt=0, le=SPEECH_S_MAX)
    """Most speech that is rendered at once."""

    @model_validator(mode="after")
    def _ordered(self) -> "Settings":
        names = ("segment_first_s", "segment_min_s", "segment_max_s")
        for low, high in itertools.pairwise(names):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} is {getattr(self, low):g}, above {high}, {getattr(self, high):g}")
        return self


class DiceTalkBackend:
    """DICE-Talk from a checkout and its weights.

    Raises:
        FileNotFoundError: The checkout, the weights, the priors or the face networks are missing; the message says how
            to get them.
        ValueError: A file of weights lacks tensors.
    """

    model = "DICE-Talk"
    rigging = 1
    classes = priors.CLASSES
    fps = FPS
    size_px = SIZE_PX

    def __init__(self, settings: Settings) -> None:
        files = check_files(settings.weights)
        face = settings.models_dir / "face" / "face_landmarker.task"
        self.priors = priors.read(settings.weights / priors.FILE)
        checkout = open_checkout(settings.checkout)
        self._reader = FaceReader(settings.models_dir)
        self.digest = digest_of(*files, settings.weights / priors.FILE, face)
        self.qualities = tuple(settings.tiers)
        self._longest_s = settings.segment_max_s
        self.segments: Segments | None = Segments(
            settings.segment_first_s, settings.segment_min_s, settings.segment_max_s, WINDOW_S
        )
        self.tiers = dict(settings.tiers)
        models = load_models(checkout, settings.weights, torch.device(settings.device), getattr(torch, settings.dtype))
        self.renderer = Renderer(models, self.priors, SIZE_PX, tuple(self.tiers.values()))

    def warm_up(self) -> None:
        """Renders a moment of each size, and so learns what a film will cost."""
        self.renderer.warm_up()

    def cost_s(self, duration_s: float, quality: str) -> float:
        """Returns the seconds that rendering that much speech will take, by what was measured so far."""
        return self.renderer.costs.reckon(duration_s, self.tiers[quality])

    def prepare(self, portrait: Portrait) -> Identity:
        """Finds the face, cuts the portrait to head and shoulders, and looks at it: all that depends on it alone.

        Raises:
            services.common.errors.InvalidRequest: There is not exactly one usable face.
        """
        # Not the checkout's detector, which seems to come from code under the GPL, but the project's own, with the same
        # demands on a portrait as the other renderer, so that a deployment may change its renderer.
        framed = framing.frame(portrait.image, self._reader, SIZE_PX)
        return self.renderer.encode_portrait(framed.image, box_of(framed.landmarks))

    def pack(self, rig: Rig) -> bytes:
        """Returns what the large networks found in the portrait, as safetensors.

        Raises:
            TypeError: The rig is another back-end's.
        """
        return pack(self._own(rig))

    def unpack(self, content: bytes, image: Callable[[], NDArray[np.uint8]]) -> Identity:
        """Returns the identity that was packed; needs no picture, and no large network.

        Raises:
            ValueError: It is none of these networks and tiers.
        """
        return self.renderer.unpack(content)

    def flaw(self, image: NDArray[np.uint8]) -> str:
        """Returns why a picture of a film has not exactly one usable face; empty when it has."""
        return framing.flaw_of(image, self._reader)

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> Performance:
        """Begins one segment, of an expression that `Studio.check` let pass.

        Segments of one reply share portrait and seed, and at one tier the noise that their frames begin with: the n-th
        frame of every segment that of every other's.

        Raises:
            TypeError: The rig is another back-end's.
        """
        return DiceTalkPerformance(
            self.renderer, self._own(rig), expression, seed, self.tiers[quality], self._longest_s
        )

    def _own(self, rig: Rig) -> Identity:
        if not isinstance(rig, Identity):
            raise TypeError(f"a rig of {type(rig).__name__} cannot be used by {self.model}")
        return rig

    def close(self) -> None:
        """Frees the networks; twice is once. A portrait that somebody holds keeps the few tensors that it has."""
        vars(self).pop("renderer", None)
        torch.cuda.empty_cache()


class DiceTalkPerformance:
    """One segment: nothing is rendered before all its speech is there, for its frames are denoised together."""

    def __init__(
        self, renderer: Renderer, identity: Identity, expression: Expression, seed: int, tier: Tier, longest_s: float
    ) -> None:
        self._renderer = renderer
        self._identity = identity
        self._expression = expression
        self._seed = seed
        self._tier = tier
        self._longest_s = longest_s
        self._speech: list[NDArray[np.int16]] = []
        self._rate_hz = 0

    def feed(self, speech: Speech) -> Iterator[Frame | Progress]:
        """Keeps the next stretch. Mouth shapes are not used: the model hears for itself.

        Raises:
            services.common.errors.InvalidRequest: The rate changed within a segment, or it is too long.
        """
        if speech.sample_rate_hz <= 0 or self._rate_hz not in (0, speech.sample_rate_hz):
            raise InvalidRequest("speech.sample_rate_hz", f"{speech.sample_rate_hz}; a segment has one rate above 0")
        self._rate_hz = speech.sample_rate_hz
        self._speech.append(speech.samples)
        samples = sum(map(len, self._speech))
        if samples > self._longest_s * self._rate_hz + 1:  # who cuts at a time rounds to a sample
            lasts_s, most = samples / self._rate_hz, f"send at most {self._longest_s:g} s, a longer reply in segments"
            raise InvalidRequest("speech.samples", f"{lasts_s:.2f} s so far; {most}")
        return iter(())

    def finish(self) -> Iterator[Frame | Progress]:
        """Renders the segment; yields `Progress` after every call of the U-Net, then the frames."""
        if not self._speech:
            return iter(())
        samples = np.concatenate(self._speech)
        return self._renderer.render(self._identity, self._expression, samples, self._rate_hz, self._tier, self._seed)


def create() -> Backend:
    """Loads the networks and warms them up."""
    backend = DiceTalkBackend(Settings())
    backend.warm_up()
    return backend
