"""The portraits of all identities, animated, and what landmarks say of the frames."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from perception.face import Face, FaceReader
from services.video.backends.portrait import PortraitBackend, Settings
from services.video.domain import Expression, Portrait, Rig, Speech, VisemeSpan
from services.video.portrait.acting import SCORE
from services.video.portrait.lips import Lips, Loudness
from services.video.portrait.rig import PortraitRig

ROOT = Path(__file__).parents[1]
NAMES = ("anna", "ingrid", "kenji", "marcus")
RATE_HZ = 24_000
FPS = 25


def picture(name: str) -> NDArray[np.uint8]:
    image = cv2.imread(str(ROOT / "services" / "memory" / "identities" / name / "portrait.png"))
    assert image is not None
    return np.ascontiguousarray(image[:, :, ::-1], np.uint8)


@cache
def renderer() -> PortraitBackend:
    return PortraitBackend(Settings(models_dir=ROOT / ".models"))


@cache
def face_reader() -> FaceReader:
    return FaceReader(ROOT / ".models")


@cache
def rigged() -> dict[str, PortraitRig]:
    """The rig of every identity. They take seconds, and nothing changes them: one set serves all tests."""
    return {name: renderer().prepare(Portrait(name, picture(name))) for name in NAMES}


def speech(spans: list[tuple[str, float]]) -> Speech:
    """Speech whose vowels are loud and whose stops are nearly silent."""
    start_s, visemes, sound = 0.0, [], []
    for viseme, duration_s in spans:
        visemes.append(VisemeSpan(viseme, start_s, duration_s))
        start_s += duration_s
        level = {"sil": 0, "PP": 200, "FF": 700}.get(viseme, 7000)
        time = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
        sound.append(level * np.sin(2 * np.pi * 150 * time))
    return Speech(np.concatenate(sound).astype(np.int16), RATE_HZ, tuple(visemes))


def mute() -> tuple[Lips, Loudness]:
    return Lips(SCORE["visemes"], SCORE["dominance"], FPS), Loudness(FPS)


def silence(duration_s: float) -> Speech:
    return Speech(np.zeros(round(duration_s * RATE_HZ), np.int16), RATE_HZ, (VisemeSpan("sil", 0.0, duration_s),))


def animate(
    backend: PortraitBackend, rig: Rig, said: Speech, face_class: str = "neutral", intensity: float = 1.0, seed: int = 1
) -> list[NDArray[np.uint8]]:
    performance = backend.perform(rig, Expression(face_class, intensity), seed, backend.qualities[0])
    return [*performance.feed(said), *performance.finish()]


@dataclass(frozen=True)
class Measures:
    """What landmarks say of a face, in iris distances."""

    gap: float  # between the inner lips
    corners: float  # how high the corners of the mouth are above its middle
    inner_brows: float  # above the eye line
    brows: float
    width: float  # of the mouth
    lids: float  # opening of the eyes
    upper_lip: float  # below the eye line


def measure(face: Face) -> Measures:
    points = face.landmarks[:, :2].astype(float)
    right, left = points[468], points[473]
    apart = float(np.linalg.norm(left - right))
    across = (left - right) / apart
    down = np.array([-across[1], across[0]])
    height = {i: float((points[i] - points[168]) @ down) / apart for i in range(468)}
    brows = [height[i] for i in (70, 63, 105, 66, 107, 300, 293, 334, 296, 336)]
    eyes = (height[33] + height[133] + height[263] + height[362]) / 4
    return Measures(
        gap=height[14] - height[13],
        corners=(height[0] + height[17]) / 2 - (height[61] + height[291]) / 2,
        inner_brows=eyes - (height[107] + height[55] + height[336] + height[285]) / 4,
        brows=eyes - float(np.mean(brows)),
        width=float(np.linalg.norm(points[291] - points[61])) / apart,
        lids=(height[145] - height[159] + height[374] - height[386]) / 2,
        upper_lip=height[0] - eyes,
    )


def read(reader: FaceReader, frame: NDArray[np.uint8]) -> Measures:
    (face,) = reader.read(frame)
    return measure(face)


def resting(
    reader: FaceReader, backend: PortraitBackend, rig: Rig, face_class: str, intensity: float = 1.0
) -> Measures:
    """The settled expression of a silent face, at a moment without a blink."""
    frames = animate(backend, rig, silence(0.8), face_class, intensity)
    best = [read(reader, frame) for frame in frames[-6::5]]
    return max(best, key=lambda found: found.lids)
