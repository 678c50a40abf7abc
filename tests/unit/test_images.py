"""Pictures on the wire."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from services.common.errors import InvalidRequest, TooLarge
from services.common.images import decode_image, encode_jpeg
from tests.samples import jpeg, png


def test_what_is_encoded_is_decoded_alike() -> None:
    image = np.zeros((48, 64, 3), np.uint8)
    image[:, 32:] = (220, 40, 90)
    content = encode_jpeg(image)
    assert content.startswith(b"\xff\xd8")
    again = decode_image(content, "frame")
    assert again.dtype == np.uint8
    assert again.shape == (48, 64, 3)
    difference = np.abs(again.astype(int) - image)
    assert difference[:, :24].max() < 6
    assert difference[:, 40:].max() < 6


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


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        b"GIF89a",
        b"GIF89a" + bytes(50),
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"x" * 10_000,
    ],
)
def test_what_is_no_picture_is_refused_with_the_field(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"header\.portrait: .*JPEG or PNG") as refused:
        decode_image(content, "header.portrait")
    assert refused.value.field == "header.portrait"


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
def test_a_picture_of_another_kind_is_refused_though_it_could_be_read(kind: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (6, 4)).save(file, kind)
    with pytest.raises(InvalidRequest, match=r"^portrait: \d+ bytes that are no JPEG or PNG; send one of these$"):
        decode_image(file.getvalue(), "portrait")


@pytest.mark.parametrize(
    "content", [png()[:-30], jpeg()[:300], cv2.imencode(".png", np.zeros((40, 40, 3), np.uint8))[1].tobytes()[:50]]
)
def test_a_damaged_picture_is_refused_with_the_field(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"header\.portrait: the image is damaged .*; send it again") as refused:
        decode_image(content, "header.portrait")
    assert refused.value.field == "header.portrait"


def test_a_png_whose_exif_data_are_none_is_refused_with_the_field() -> None:
    file = io.BytesIO()
    Image.new("RGB", (60, 40)).save(file, "PNG", exif=b"Exif\0\0neither byte order")
    with pytest.raises(InvalidRequest, match=r"^portrait: the image is damaged \(not a TIFF file .*; send it again$"):
        decode_image(file.getvalue(), "portrait")


def test_a_picture_with_a_text_that_unpacks_to_much_is_refused_with_the_field() -> None:
    file, texts = io.BytesIO(), PngImagePlugin.PngInfo()
    texts.add_text("about", "x" * (PngImagePlugin.MAX_TEXT_CHUNK + 1), zip=True)
    Image.new("RGB", (6, 4)).save(file, "PNG", pnginfo=texts)
    assert len(file.getvalue()) < 2000
    with pytest.raises(InvalidRequest, match=r"^portrait: the image is damaged \(Decompressed data too large"):
        decode_image(file.getvalue(), "portrait")


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


def test_a_png_and_a_grey_image_decode_to_rgb() -> None:
    grey = np.full((10, 12), 77, np.uint8)
    content = cv2.imencode(".png", grey)[1].tobytes()
    assert np.array_equal(decode_image(content, "portrait"), np.full((10, 12, 3), 77))


def test_an_image_that_claims_to_be_huge_is_refused_undecoded() -> None:
    content = bytearray(encode_jpeg(np.zeros((16, 16, 3), np.uint8)))
    at = content.index(b"\xff\xc0")
    content[at + 5 : at + 9] = struct.pack(">HH", 60_000, 60_000)
    with pytest.raises(TooLarge, match="portrait: the image is 60000x60000 px; send at most 4096 px a side"):
        decode_image(bytes(content), "portrait")


@pytest.mark.parametrize(("width_px", "height_px"), [(4097, 16), (16, 4097)])
def test_an_image_is_too_large_when_one_side_is(width_px: int, height_px: int) -> None:
    content = bytearray(cv2.imencode(".png", np.zeros((16, 16), np.uint8))[1].tobytes())
    content[16:24] = struct.pack(">II", width_px, height_px)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    with pytest.raises(TooLarge, match=f"the image is {width_px}x{height_px} px"):
        decode_image(bytes(content), "portrait")
