"""A checkout of DICE-Talk's code, which is no package of a registry."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "src"
"""What the code calls itself."""


@dataclass(frozen=True)
class Checkout:
    """What is called of DICE-Talk's code: classes, and what adds the cross-attention for sound and emotion.

    Attributes:
        unet: Denoises a window of frames.
        add_ip_adapters: Takes a `unet`, the tokens of each further input, and their scales.
        pose_guider: Turns the picture of where the face is into features.
        audio_projection: Turns what Whisper hears around a frame into tokens.
        emotion_model: Turns an emotion's prior into tokens.
        interpolator: RIFE: makes the frame between two.
    """

    unet: Any
    add_ip_adapters: Any
    pose_guider: Any
    audio_projection: Any
    emotion_model: Any
    interpolator: Any


def open_checkout(folder: Path) -> Checkout:
    """Imports the code in `folder`; its package is called `src`, and is known by that name from now on.

    Its pipeline, its face detector and its scripts are not imported, nor what only these need.

    Raises:
        FileNotFoundError: `folder` is no checkout.
        ValueError: Another package has that name already.
    """
    place = (folder / PACKAGE).resolve()
    if not (place / "models" / "emotion_adapter").is_dir():
        raise FileNotFoundError(f"{place} is not there; E3RG_VIDEO_CHECKOUT is a checkout of DICE-Talk's code")
    if PACKAGE not in sys.modules:
        # As a package of its own, not by the search path: the folder's other files would become modules as well.
        package = ModuleType(PACKAGE)
        package.__path__ = [str(place)]
        sys.modules[PACKAGE] = package
    if list(sys.modules[PACKAGE].__path__) != [str(place)]:
        raise ValueError(f"{PACKAGE} is {list(sys.modules[PACKAGE].__path__)} here already, not {place}")
    unet: Any = importlib.import_module("src.models.base.unet_spatio_temporal_condition")
    return Checkout(
        unet=unet.UNetSpatioTemporalConditionModel,
        add_ip_adapters=unet.add_ip_adapters,
        pose_guider=importlib.import_module("src.models.audio_adapter.pose_guider").PoseGuider,
        audio_projection=importlib.import_module("src.models.audio_adapter.audio_proj").AudioProjModel,
        emotion_model=importlib.import_module("src.models.emotion_adapter.emo").EmotionModel,
        interpolator=importlib.import_module("src.utils.RIFE.RIFE_HDv3").RIFEModel,
    )
