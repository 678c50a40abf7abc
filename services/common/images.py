"""JPEG and PNG to RGB and back, for frames and photographs on the wire."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from services.common.errors import InvalidRequest, TooLarge

SIDE_PX_MAX = 4096
"""Longest side of an image that is decoded: 4096 x 4096 RGB is 48 MiB."""
JPEG_QUALITY = 90

# Pillow would warn of large images, and refuse huge ones with an error of its own; the size is checked here instead,
# before anything is decoded.
Image.MAX_IMAGE_PIXELS = None


def encode_jpeg(image: NDArray[np.uint8]) -> bytes:
    """Returns `image`, uint8 (height, width, 3) RGB, as a JPEG file.

    Raises:
        ValueError: `image` is not such an array.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise ValueError(f"image is {image.dtype} {image.shape}; give uint8 (height, width, 3)")
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()


def decode_image(content: bytes, field: str) -> NDArray[np.uint8]:
    """Decodes a JPEG or PNG file; turns it upright when its EXIF data say how the camera was held.

    The size is read from the file's header before anything is decoded, so a small file cannot claim much memory.

    Args:
        content: The file.
        field: Name of the request's field, for the error.

    Returns:
        uint8 (height, width, 3), RGB.

    Raises:
        InvalidRequest: It is not a JPEG or PNG, or is damaged.
        TooLarge: A side is longer than `SIDE_PX_MAX`.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG", "PNG")) as image:
            if max(image.size) > SIDE_PX_MAX:
                found = f"the image is {image.width}x{image.height} px"
                raise TooLarge(field, f"{found}; send at most {SIDE_PX_MAX} px a side")
            return np.array(ImageOps.exif_transpose(image).convert("RGB"), np.uint8)
    except UnidentifiedImageError:
        raise InvalidRequest(field, f"{len(content)} bytes that are no JPEG or PNG; send one of these") from None
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidRequest(field, f"the image is damaged ({error}); send it again") from None
