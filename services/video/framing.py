"""Cuts a portrait around its one face, or says why it cannot be used: the same for every renderer.

A deployment may so change its renderer, and every portrait that it has goes on.
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from perception.face import Face, FaceReader
from services.common.errors import InvalidRequest

FIELD = "portrait"
IRIS_DISTANCE_MM = 63.0
"""Of an average adult (Dodgson 2004): the scale of a face."""
ORIGIN, IRIS_RIGHT, IRIS_LEFT = 168, 468, 473
"""Landmarks: between the eyes, and the irises. Right and left are the person's: the right eye is at the left of the
picture."""
SIDE_MIN_PX = 128
IRIS_DISTANCE_MIN_PX = 36.0
"""Below this the picture would be enlarged more than 2.7 times."""
IRIS_PART = 0.192
"""Distance of the irises in the cut, as a part of its side: head and shoulders."""
IRIS_PART_MAX = 0.36
EYE_HEIGHT = 0.42
"""Where the eyes lie in the cut, from the top."""
SLACK = 1.15
"""A picture that is nearly framed so is taken whole."""
TURN_MAX_DEG = 22.0
TILT_MAX_DEG = 25.0
FACING_PITCH_DEG = 4.0
"""What the landmarks of a face that looks straight ahead measure: the forehead's top lies behind the chin."""
LIP_GAP_MAX_MM = 5.0
LID_GAP_MIN_MM = 2.5
BYSTANDER_PART = 0.25
"""A face smaller than this part of the largest is background, not a second person."""


@dataclass(frozen=True)
class Square:
    """A part of a picture, px."""

    left: int
    top: int
    side: int


@dataclass(frozen=True)
class Framed:
    """A portrait cut to size.

    Attributes:
        image: uint8 (size, size, 3), RGB.
        landmarks: float32 (478, 3), px of `image`.
        square: Which part of the portrait it is.
    """

    image: NDArray[np.uint8]
    landmarks: NDArray[np.float32]
    square: Square


class Unusable(InvalidRequest):
    """There is not exactly one usable face.

    Args:
        why: The same in a few words, without the figures ("turned away").
        problem: What was found, and what would be right.
    """

    def __init__(self, why: str, problem: str) -> None:
        super().__init__(FIELD, problem)
        self.why = why


def frame(image: NDArray[np.uint8], reader: FaceReader, size_px: int) -> Framed:
    """Cuts `image`, uint8 (height, width, 3), RGB, to head and shoulders.

    Raises:
        services.common.errors.InvalidRequest: There is not exactly one face, or it cannot be animated.
    """
    if image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < SIDE_MIN_PX:
        shape = "x".join(str(side) for side in image.shape[1::-1])
        raise InvalidRequest(FIELD, f"the picture is {shape} px; send one in colour, {SIDE_MIN_PX} px a side or larger")
    face = _only_face(reader.read(image))
    _check_place(face)
    _check_rest(face)
    square = _square(image, face)
    picture = cut(image, square, size_px)
    return Framed(picture, _landmarks(picture, reader), square)


def cut(image: NDArray[np.uint8], square: Square, size_px: int) -> NDArray[np.uint8]:
    """Returns a part of `image` scaled to `size_px` a side."""
    part = image[square.top : square.top + square.side, square.left : square.left + square.side]
    smooth = cv2.INTER_AREA if square.side > size_px else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(part, (size_px, size_px), interpolation=smooth), np.uint8)


def flaw_of(image: NDArray[np.uint8], reader: FaceReader) -> str:
    """Returns why a picture of a film has not exactly one usable face, in a few words; empty when it has.

    Who is filmed speaks and blinks: an open mouth and closed eyes are no flaws here.

    Args:
        image: uint8 (height, width, 3), RGB.
        reader: Finds the faces.
    """
    try:
        _check_place(_only_face(reader.read(image)))
    except Unusable as unusable:
        return unusable.why
    return ""


def _only_face(faces: list[Face]) -> Face:
    if not faces:
        problem = "no face was found; send a picture of one person who looks at the camera, well lit"
        raise Unusable("no face", problem)
    largest = max(faces, key=lambda face: face.box.width)
    people = [face for face in faces if face.box.width > BYSTANDER_PART * largest.box.width]
    if len(people) > 1:
        problem = f"{len(people)} faces were found; send a picture of one person, or cut it to one face"
        raise Unusable("several faces", problem)
    return largest


def _check_place(face: Face) -> None:
    points = face.landmarks
    apart = _iris_distance(points)
    if apart < IRIS_DISTANCE_MIN_PX:
        raise Unusable(
            "too small",
            f"the face is too small: the eyes are {apart:.0f} px apart; send a picture with at least "
            f"{IRIS_DISTANCE_MIN_PX:.0f} px between them (a face some {IRIS_DISTANCE_MIN_PX * 2.4:.0f} px wide)",
        )
    yaw, pitch, roll = _turn_deg(points)
    if abs(yaw) > TURN_MAX_DEG or abs(pitch) > TURN_MAX_DEG:
        raise Unusable(
            "turned away",
            f"the face is turned away ({abs(yaw):.0f} degrees sideways, {abs(pitch):.0f} up or down); "
            f"send a picture that looks at the camera, within {TURN_MAX_DEG:.0f} degrees",
        )
    if abs(roll) > TILT_MAX_DEG:
        raise Unusable("tilted", f"the head is tilted by {abs(roll):.0f} degrees; turn the picture upright")


def _check_rest(face: Face) -> None:
    points = face.landmarks
    unit = _iris_distance(points) / IRIS_DISTANCE_MM
    if float(np.linalg.norm(points[14] - points[13])) / unit > LIP_GAP_MAX_MM:
        raise InvalidRequest(FIELD, "the mouth is open; send a picture with closed lips, which can be animated")
    lids = min(float(np.linalg.norm(points[a] - points[b])) for a, b in ((159, 145), (386, 374))) / unit
    if lids < LID_GAP_MIN_MM:
        raise InvalidRequest(FIELD, "the eyes are closed; send a picture with open eyes")


def _square(image: NDArray[np.uint8], face: Face) -> Square:
    height, width = image.shape[:2]
    apart = _iris_distance(face.landmarks)
    wanted = apart / IRIS_PART
    side = min(height, width)
    if apart / side > IRIS_PART_MAX:
        raise InvalidRequest(FIELD, "the face fills the picture; send one that shows the whole head and the shoulders")
    if side > wanted * SLACK:
        side = round(wanted)
    x, y = face.landmarks[ORIGIN, :2].tolist()
    left = int(np.clip(round(x - side / 2), 0, width - side))
    top = int(np.clip(round(y - EYE_HEIGHT * side), 0, height - side))
    return Square(left, top, side)


def _landmarks(picture: NDArray[np.uint8], reader: FaceReader) -> NDArray[np.float32]:
    """Reads the cut picture's landmarks: the mean of readings from slightly different crops, for steadiness."""
    faces = reader.read(picture)
    if not faces:
        raise InvalidRequest(FIELD, "the face could not be read after cutting; send a larger, sharper picture")
    face = max(faces, key=lambda found: found.box.width)
    readings = [face.landmarks]
    for _ in range(3):
        followed = reader.follow(picture, face)
        if followed is None:
            break
        face = followed
        readings.append(face.landmarks)
    return np.asarray(np.mean(readings, axis=0), np.float32)


def _iris_distance(points: NDArray[np.float32]) -> float:
    """In space, so that a turned head does not count as a small one."""
    return float(np.linalg.norm(points[IRIS_LEFT] - points[IRIS_RIGHT]))


def _turn_deg(points: NDArray[np.float32]) -> tuple[float, float, float]:
    """Yaw, pitch and roll of a face, degrees, from the outer eye corners and the line from forehead to chin."""
    across, down = points[263] - points[33], points[152] - points[10]
    yaw = math.degrees(math.atan2(float(across[2]), float(np.hypot(across[0], across[1]))))
    pitch = math.degrees(math.atan2(float(down[2]), float(np.hypot(down[0], down[1])))) - FACING_PITCH_DEG
    roll = math.degrees(math.atan2(float(across[1]), float(across[0])))
    return yaw, pitch, roll
