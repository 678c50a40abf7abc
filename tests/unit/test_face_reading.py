from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from perception.face import FaceReader

ROOT = Path(__file__).parents[2]
NAMES = ("amara", "anna", "ingrid", "kenji", "leila", "marcus", "walter")
IRISES = (468, 473)


@pytest.fixture(scope="module")
def reader() -> FaceReader:
    return FaceReader(ROOT / ".models")


def portrait(name: str, side_px: int = 512) -> NDArray[np.uint8]:
    image = cv2.imread(str(ROOT / "services" / "memory" / "identities" / name / "portrait.png"))
    assert image is not None
    resized = cv2.resize(image, (side_px, side_px), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(resized[:, :, ::-1], np.uint8)


@pytest.mark.parametrize("side_px", [256, 512, 1080])
@pytest.mark.parametrize("name", NAMES)
def test_one_face_is_found_in_a_portrait_at_every_size(reader: FaceReader, name: str, side_px: int) -> None:
    faces = reader.read(portrait(name, side_px))

    assert len(faces) == 1
    right, left = (faces[0].landmarks[i, :2] / side_px for i in IRISES)
    assert abs(right[1] - left[1]) < 0.02
    assert 0.17 < left[0] - right[0] < 0.21
    assert faces[0].presence > 0.9


def test_two_faces_side_by_side_are_both_found(reader: FaceReader) -> None:
    faces = reader.read(np.hstack([portrait("anna"), portrait("marcus")]))

    assert sorted(face.landmarks[1, 0] > 512 for face in faces) == [False, True]


def test_faces_in_a_column_are_all_found_although_letterboxing_makes_them_small(reader: FaceReader) -> None:
    assert len(reader.read(np.vstack([portrait(name) for name in NAMES]))) == len(NAMES)


def test_a_small_face_in_a_large_picture_is_found(reader: FaceReader) -> None:
    picture = np.full((1080, 1080, 3), 120, np.uint8)
    picture[700:880, 100:280] = portrait("kenji", 180)

    (face,) = reader.read(picture)

    assert np.all((face.landmarks[1, :2] > (100, 700)) & (face.landmarks[1, :2] < (280, 880)))


@pytest.mark.parametrize("seed", range(4))
def test_no_face_is_found_in_noise(reader: FaceReader, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(0, 256, (480, 640, 3)).astype(np.uint8)
    clouds = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 20), np.zeros_like(noise), 0, 255, cv2.NORM_MINMAX)

    assert reader.read(noise) == []
    assert reader.read(np.asarray(clouds, np.uint8)) == []


def test_a_tilted_face_is_read_along_its_own_axes(reader: FaceReader) -> None:
    image = portrait("anna")
    turn = cv2.getRotationMatrix2D((256, 256), 25, 1.0)
    (upright,), (tilted,) = (
        reader.read(image),
        reader.read(np.asarray(cv2.warpAffine(image, turn, (512, 512)), np.uint8)),
    )

    expected = upright.landmarks[:, :2] @ turn[:, :2].T + turn[:, 2]

    assert np.abs(tilted.landmarks[:, :2] - expected).mean() < 2.5


def test_a_followed_face_is_read_at_the_same_place_as_a_found_one(reader: FaceReader) -> None:
    image = portrait("marcus")
    (found,) = reader.read(image)
    shifted = np.roll(image, 12, axis=1)

    followed = reader.follow(shifted, found)

    assert followed is not None
    moved = followed.landmarks[:, 0] - found.landmarks[:, 0]
    assert abs(float(np.median(moved)) - 12) < 1.0


def test_a_face_that_left_the_picture_is_lost(reader: FaceReader) -> None:
    image = portrait("marcus")
    (found,) = reader.read(image)

    assert reader.follow(np.full_like(image, 128), found) is None


def test_blendshapes_are_named_weights_and_tell_a_smile(reader: FaceReader) -> None:
    image = portrait("anna")
    (face,) = reader.read(image)
    assert len(face.blendshapes) == 52
    assert all(0 <= weight <= 1 for weight in face.blendshapes.values())

    # Bend the corners of the mouth up by six pixels, as a smile does.
    y, x = np.mgrid[0:512, 0:512].astype(np.float32)
    for corner in face.landmarks[[61, 291], :2]:
        y += 8 * np.exp(-((x - corner[0]) ** 2 + (y - corner[1]) ** 2) / (2 * 16**2)).astype(np.float32)
    (smiling,) = reader.read(np.asarray(cv2.remap(image, x, y, cv2.INTER_LINEAR), np.uint8))

    def smile(weights: dict[str, float]) -> float:
        return weights["mouthSmileLeft"] + weights["mouthSmileRight"]

    assert smile(smiling.blendshapes) > smile(face.blendshapes) + 0.2


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="face_landmarker"):
        FaceReader(tmp_path)
