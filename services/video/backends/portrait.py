"""Animates a single portrait on the CPU, by warping it: no neural renderer, and so no GPU.

Every pixel of skin stays the photograph's, which keeps the identity; `services.video.portrait` holds how it is done.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic_settings import BaseSettings, SettingsConfigDict

from perception.face import FaceReader
from services.common.errors import InvalidRequest
from services.video import framing
from services.video.domain import Backend, Expression, Portrait, Rig, Segments, Speech
from services.video.portrait.acting import CLASSES, SCORE, Actor
from services.video.portrait.drawing import Artist
from services.video.portrait.keeping import pack, unpack
from services.video.portrait.lips import Lips, Loudness
from services.video.portrait.rig import PortraitRig, build

FPS = 25
SIZE_PX = 512
LOOK_AHEAD_S = 0.10
"""Frames wait for this much more speech: lips move before their sound."""


class Settings(BaseSettings):
    """Settings of the portrait renderer."""

    model_config = SettingsConfigDict(env_prefix="E3RG_VIDEO_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models` fills it."""


class PortraitBackend:
    """Makes a frontal portrait speak, blink and show one of the eight classes, in about 4 ms of CPU a frame."""

    model = "portrait-warp"
    rigging = 1
    classes = CLASSES
    fps = FPS
    size_px = SIZE_PX
    qualities: tuple[str, ...] = ("full",)
    segments: Segments | None = None

    def __init__(self, settings: Settings) -> None:
        self._reader = FaceReader(settings.models_dir)
        self.digest = self._reader.digest

    def prepare(self, portrait: Portrait) -> PortraitRig:
        """Finds the face and builds its rig, in about a second.

        Raises:
            services.common.errors.InvalidRequest: There is not exactly one usable face.
        """
        return build(framing.frame(portrait.image, self._reader, SIZE_PX))

    def pack(self, rig: Rig) -> bytes:
        """Returns what was slow to find out about the portrait.

        Raises:
            TypeError: The rig is another back-end's.
        """
        return pack(self._own(rig))

    def unpack(self, content: bytes, image: Callable[[], NDArray[np.uint8]]) -> PortraitRig:
        """Returns the rig that was packed, in less than a sixth of the time that `prepare` takes.

        Raises:
            ValueError: It is none of this renderer and picture.
        """
        return unpack(content, image, SIZE_PX)

    def flaw(self, image: NDArray[np.uint8]) -> str:
        """Returns why a picture of a film has not exactly one usable face; empty when it has."""
        return framing.flaw_of(image, self._reader)

    def cost_s(self, duration_s: float, quality: str) -> float:
        """Returns 0: frames are drawn faster than speech comes."""
        return 0.0

    def perform(self, rig: Rig, expression: Expression, seed: int, quality: str) -> "PortraitPerformance":
        """Begins one reply, of an expression that `Studio.check` let pass.

        Raises:
            TypeError: The rig is another back-end's.
        """
        return PortraitPerformance(self._own(rig), expression, seed)

    def close(self) -> None:
        """Nothing is held outside this object."""

    def _own(self, rig: Rig) -> PortraitRig:
        if not isinstance(rig, PortraitRig):
            raise TypeError(f"a rig of {type(rig).__name__} cannot be used by {self.model}")
        return rig


class PortraitPerformance:
    """One reply being animated."""

    def __init__(self, rig: PortraitRig, expression: Expression, seed: int) -> None:
        self._lips = Lips(SCORE["visemes"], SCORE["dominance"], FPS)
        self._loudness = Loudness(FPS)
        self._actor = Actor(expression, self._lips, self._loudness, rig.rest, seed, FPS)
        self._artist = Artist(rig)
        self._done = 0
        self._sample_rate_hz = 0

    def feed(self, speech: Speech) -> Iterator[NDArray[np.uint8]]:
        """Takes the next stretch; the frames of all but its last `LOOK_AHEAD_S` are drawn as they are asked for.

        Raises:
            services.common.errors.InvalidRequest: The rate changed within a reply, or a viseme is unknown.
        """
        if speech.sample_rate_hz <= 0 or self._sample_rate_hz not in (0, speech.sample_rate_hz):
            raise InvalidRequest("speech.sample_rate_hz", f"{speech.sample_rate_hz}; a reply has one rate above 0")
        self._sample_rate_hz = speech.sample_rate_hz
        for span in speech.visemes:
            try:
                self._lips.add(span)
            except KeyError as error:
                raise InvalidRequest("speech.phonemes.viseme", str(error.args[0])) from error
        self._loudness.add(speech.samples, speech.sample_rate_hz)
        return self._frames(math.floor((self._loudness.duration_s - LOOK_AHEAD_S) * FPS + 1e-6))

    def finish(self) -> Iterator[NDArray[np.uint8]]:
        """Draws the rest."""
        return self._frames(math.ceil(self._loudness.duration_s * FPS - 1e-6))

    def _frames(self, until: int) -> Iterator[NDArray[np.uint8]]:
        while self._done < until:
            pose = self._actor.pose(self._done)
            self._done += 1
            yield self._artist.draw(pose)


def create() -> Backend:
    """Loads the face networks. Nothing else needs warming: the first rig and the first reply take no longer."""
    # One process, one core: the other services need theirs.
    cv2.setNumThreads(1)
    return PortraitBackend(Settings())
