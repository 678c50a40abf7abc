"""Pictures on the wire."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from services.common.errors import InvalidRequest, TooLarge
from services.common.images import decode_image, encode_jpeg
from tests.samples import jpeg, png


def test_what_is_encoded_is_decoded_alike() -> None:
    image = np.zeros((40, 60, 3), np.uint8)
    image[:, 30:] = (200, 100, 50)
    again = decode_image(encode_jpeg(image), "frame")
    assert again.dtype == np.uint8
    assert again.shape == (40, 60, 3)
    assert np.abs(again.astype(int) - image)[:, [5, 55]].max() < 10


@pytest.mark.parametrize(
    "image", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8), np.zeros((4, 4, 4), "u1")]
)
def test_what_is_no_rgb_picture_is_not_encoded(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    with pytest.raises(ValueError, match=r"give uint8 \(height, width, 3\)"):
        encode_jpeg(image)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA"])
def test_every_kind_of_png_becomes_rgb(mode: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (6, 4), (255, 255, 255)).convert(mode).save(file, "PNG")
    image = decode_image(file.getvalue(), "portrait")
    assert image.shape == (4, 6, 3)
    assert image.min() == 255


def test_a_photograph_taken_on_the_side_is_turned_upright() -> None:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned a quarter
    Image.new("RGB", (60, 40)).save(file, "JPEG", exif=exif)
    assert decode_image(file.getvalue(), "portrait").shape == (60, 40, 3)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", png()[:-30], jpeg()[:300], b"x" * 10_000])
def test_what_is_no_picture_is_refused_with_the_field(content: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode_image(content, "header.portrait")
    assert refused.value.field == "header.portrait"


def test_a_small_file_that_claims_to_be_huge_is_refused_by_its_header() -> None:
    bomb = bytearray(png())
    bomb[16:24] = struct.pack(">II", 60_000, 60_000)
    bomb[29:33] = struct.pack(">I", zlib.crc32(bomb[12:29]))
    with pytest.raises(TooLarge, match="60000x60000 px; send at most 4096 px a side"):
        decode_image(bytes(bomb), "portrait")


def test_a_file_with_any_byte_wrong_is_refused_or_read_but_never_breaks_the_service() -> None:
    outcomes = set()
    for good in (png(16, 16), jpeg(16, 16)):
        for at in range(0, len(good), 3):
            broken = bytearray(good)
            broken[at] ^= 0xFF
            try:
                outcomes.add(decode_image(bytes(broken), "portrait").ndim)
            except InvalidRequest:
                outcomes.add(0)
    assert outcomes == {0, 3}
