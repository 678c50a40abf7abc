"""Which portraits and films can be used, and how the face in them is framed."""

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from perception.face import Face, FaceReader
from services.common.errors import InvalidRequest
from services.video import framing
from services.video.backends.portrait import PortraitBackend
from services.video.domain import Portrait
from services.video.portrait.drawing import Artist, Pose
from services.video.portrait.rig import PortraitRig
from tests.portraits import ROOT, face_reader, picture, renderer, rigged


@pytest.fixture(scope="module")
def backend() -> PortraitBackend:
    return renderer()


@pytest.fixture(scope="module")
def reader() -> FaceReader:
    return face_reader()


@pytest.fixture(scope="module")
def rigs() -> dict[str, PortraitRig]:
    return rigged()


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (np.full((512, 512, 3), 120, np.uint8), "no face was found"),
        (np.hstack([picture("anna"), picture("marcus")]), "2 faces were found"),
        (cv2.copyMakeBorder(cv2.resize(picture("kenji"), (150, 150)), 300, 300, 300, 300, 0), "too small"),
        (picture("anna")[130:400, 120:390], "fills the picture"),
        (picture("anna")[:100, :100], "100x100 px"),
        (picture("anna")[:, :, :1], "in colour"),
        (np.ascontiguousarray(np.rot90(picture("anna"))), "no face was found|tilted"),
    ],
)
def test_a_portrait_that_cannot_be_used_is_refused_with_the_reason_and_the_remedy(
    backend: PortraitBackend, image: NDArray[np.uint8], problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem) as caught:
        backend.prepare(Portrait("x", image))

    assert caught.value.field == "portrait"
    assert "send" in str(caught.value) or "turn" in str(caught.value)


class _Turning(FaceReader):
    """Sees every face turned about an axis of space."""

    def __init__(self, axis: int, degrees: float) -> None:
        super().__init__(ROOT / ".models")
        vector = np.zeros(3)
        vector[axis] = math.radians(degrees)
        self._turn = np.asarray(cv2.Rodrigues(vector)[0])

    def read(self, image: NDArray[np.uint8]) -> list[Face]:
        faces = super().read(image)
        return [Face(f.box, f.presence, (f.landmarks @ self._turn.T).astype(np.float32), f.blendshapes) for f in faces]


@pytest.mark.parametrize(
    ("axis", "degrees", "problem"), [(1, 35, "turned away"), (0, -35, "turned away"), (2, 35, "tilted")]
)
def test_a_face_that_looks_elsewhere_is_refused(axis: int, degrees: float, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        framing.frame(picture("anna"), _Turning(axis, degrees), 512)


def test_open_mouths_and_closed_eyes_are_refused(backend: PortraitBackend, rigs: dict[str, PortraitRig]) -> None:
    artist = Artist(rigs["marcus"])
    gaping = artist.draw(Pose({"jaw": 0.9, "au25": 0.5}))
    with pytest.raises(InvalidRequest, match="mouth is open"):
        backend.prepare(Portrait("x", gaping))


def test_who_is_filmed_may_speak_and_blink_but_not_turn_away_or_bring_somebody(
    reader: FaceReader, rigs: dict[str, PortraitRig]
) -> None:
    artist = Artist(rigs["marcus"])
    for pose in (Pose({"jaw": 0.9, "au25": 0.5}), Pose({"blink_l": 1.0, "blink_r": 1.0})):
        assert framing.flaw_of(artist.draw(pose), reader) == ""
    assert framing.flaw_of(picture("anna"), _Turning(1, 40)) == "turned away"
    small = np.asarray(cv2.resize(picture("anna"), (160, 160), interpolation=cv2.INTER_AREA), np.uint8)
    assert framing.flaw_of(small, reader) == "too small"
    assert framing.flaw_of(np.hstack([picture("anna"), picture("kenji")]), reader) == "several faces"
    assert framing.flaw_of(np.zeros((64, 64, 3), np.uint8), reader) == "no face"


@pytest.mark.parametrize("side_px", [256, 1080])
def test_any_size_of_portrait_is_framed_alike(backend: PortraitBackend, reader: FaceReader, side_px: int) -> None:
    image = np.asarray(cv2.resize(picture("ingrid"), (side_px, side_px), interpolation=cv2.INTER_AREA), np.uint8)
    wide = cv2.copyMakeBorder(image, side_px // 8, 0, side_px // 2, 0, cv2.BORDER_REPLICATE)

    framed = framing.frame(np.asarray(wide, np.uint8), reader, 512)

    assert framed.image.shape == (512, 512, 3)
    apart = float(np.linalg.norm(framed.landmarks[468, :2] - framed.landmarks[473, :2]))
    assert 0.16 < apart / 512 < 0.22
    assert 200 < framed.landmarks[168, 0] < 312


def test_a_small_face_in_the_background_is_not_a_second_person(backend: PortraitBackend) -> None:
    image = np.asarray(cv2.resize(picture("anna"), (1024, 1024)), np.uint8)
    image[20:220, 800:1000] = cv2.resize(picture("kenji"), (200, 200), interpolation=cv2.INTER_AREA)

    assert isinstance(backend.prepare(Portrait("x", image)), PortraitRig)
