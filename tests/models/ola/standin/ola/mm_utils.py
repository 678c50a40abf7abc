"""Pictures laid out as the environment says."""

import os
from typing import Any

import torch
from PIL import Image

STRIDE = int(os.environ["VIDEO_RESIZE"].split("x")[1])


def process_anyres_video(image: Image.Image, processor: Any) -> torch.Tensor:
    """Returns float (1, 3, height, width), of whole strides."""
    if processor.do_resize or processor.do_center_crop:
        raise ValueError("the frame would be cut to a square")
    width, height = (max(STRIDE, round(side / STRIDE) * STRIDE) for side in image.size)
    pixels: torch.Tensor = processor.preprocess(image.resize((width, height)), return_tensors="pt")["pixel_values"][0]
    return pixels[None]
