"""A checkout of Ola's code, which is no package of a registry."""

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import CLIPImageProcessor

RESOLUTION = {
    "LOWRES_RESIZE": "384x32",
    "HIGHRES_BASE": "0x32",
    "VIDEO_RESIZE": "0x64",
    "VIDEO_MAXRES": "480",
    "VIDEO_MINRES": "288",
    "MAXRES": "1536",
    "MINRES": "0",
    "FORCE_NO_DOWNSAMPLE": "1",
    "LOAD_VISION_EARLY": "1",
    "PAD2STRIDE": "1",
}
"""How the released weights want pictures laid out; the code reads these from the environment while it is imported."""


@dataclass(frozen=True)
class Checkout:
    """What is called of Ola's code.

    Attributes:
        config: Class of the model's configuration.
        model: Class of the model.
        build_speech_encoder: Loads the encoders of sound from the paths of a configuration.
        process_video: Returns float (1, 3, height, width) of a picture, by an image processor.
        conversation: An empty chat in the model's format.
        speech_mark: Stands for sound in a chat.
        image_mark: Stands for pictures in a chat.
        places: The tokens of both marks, which are none of the tokenizer's.
    """

    config: Any
    model: Any
    build_speech_encoder: Any
    process_video: Any
    conversation: Any
    speech_mark: str
    image_mark: str
    places: Mapping[str, int]


def open_checkout(folder: Path) -> Checkout:
    """Imports the code in `folder`. Its package is called `ola`, and is found by that name from now on.

    Raises:
        FileNotFoundError: `folder` is no checkout.
    """
    if not (folder / "ola" / "model").is_dir():
        raise FileNotFoundError(f"{folder} holds no ola/model; E3RG_MLLM_CHECKOUT is a checkout of Ola's code")
    os.environ.update(RESOLUTION)
    sys.path.insert(0, str(folder.resolve()))
    vision: Any = importlib.import_module("ola.model.multimodal_encoder.oryx_vit")
    vision.CLIPImageProcessor = _ImageProcessor
    qwen: Any = importlib.import_module("ola.model.language_model.ola_qwen")
    constants: Any = importlib.import_module("ola.constants")
    speech, image = constants.DEFAULT_SPEECH_TOKEN, constants.DEFAULT_IMAGE_TOKEN
    return Checkout(
        config=qwen.OlaConfigQwen,
        model=qwen.OlaQwenForCausalLM,
        build_speech_encoder=importlib.import_module("ola.model.speech_encoder.builder").build_speech_encoder,
        process_video=importlib.import_module("ola.mm_utils").process_anyres_video,
        conversation=importlib.import_module("ola.conversation").conv_templates["qwen_1_5"],
        speech_mark=speech,
        image_mark=image,
        places={speech: constants.SPEECH_TOKEN_INDEX, image: constants.IMAGE_TOKEN_INDEX},
    )


class _ImageProcessor:
    """CLIP's image processor, for code that asks a hub for its numbers: the class has the same ones by itself."""

    @staticmethod
    def from_pretrained(_name: str) -> Any:
        return CLIPImageProcessor()
