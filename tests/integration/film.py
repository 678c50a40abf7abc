"""What the tests see and hear in a reply: decoded frames with landmarks, and the sound."""

import io
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from perception.face import Face, FaceReader

MODELS = Path(__file__).parents[2] / ".models"
UPPER_LIP, LOWER_LIP = 13, 14
CORNERS = (61, 291)
EYES = (33, 263)
INNER_BROWS = (55, 285)
INNER_EYES = (133, 362)


@dataclass(frozen=True)
class Film:
    """A decoded reply."""

    frames: list[NDArray[np.uint8]]
    fps: float
    video_s: float
    audio_s: float
    samples: NDArray[np.float32]
    sample_rate_hz: int
    codecs: tuple[str, str]


def decode(mp4: bytes) -> Film:
    """Decodes a whole file."""
    frames, times_s, sound, audio_end_s = [], [], [], 0.0
    with av.open(io.BytesIO(mp4), mode="r") as file:
        video, audio = file.streams.video[0], file.streams.audio[0]
        for frame in file.decode(video, audio):
            if isinstance(frame, av.VideoFrame):
                frames.append(frame.to_ndarray(format="rgb24").astype(np.uint8))
                times_s.append(frame.time or 0.0)
            elif isinstance(frame, av.AudioFrame):
                sound.append(frame.to_ndarray()[0])
                audio_end_s = (frame.time or 0.0) + frame.samples / frame.sample_rate
        return Film(
            frames=frames,
            fps=(len(frames) - 1) / (times_s[-1] - times_s[0]),
            video_s=times_s[-1] + 1 / 25,
            audio_s=audio_end_s,
            samples=np.concatenate(sound).astype(np.float32),
            sample_rate_hz=audio.rate,
            codecs=(video.codec_context.name, audio.codec_context.name),
        )


def faces(film: Film) -> list[Face]:
    """Reads the face of every frame; fails when a frame has not exactly one."""
    reader = FaceReader(MODELS)
    found = [reader.read(frame) for frame in film.frames]
    assert all(len(row) == 1 for row in found), "a frame of a reply shows not exactly one face"
    return [row[0] for row in found]


def mouth_opening(face: Face) -> float:
    """Gap of the lips, in distances between the eyes' outer corners."""
    points = face.landmarks
    return float(np.linalg.norm(points[UPPER_LIP] - points[LOWER_LIP]) / _scale(face))


def corner_rise(face: Face) -> float:
    """How far the mouth's corners stand above its middle, in distances between the eyes."""
    points = upright(face)
    middle = (points[UPPER_LIP, 1] + points[LOWER_LIP, 1]) / 2
    return float(middle - points[list(CORNERS), 1].mean())


def brow_rise(face: Face) -> float:
    """How far the inner brows stand above the inner eye corners, in distances between the eyes."""
    points = upright(face)
    return float(points[list(INNER_EYES), 1].mean() - points[list(INNER_BROWS), 1].mean())


def upright(face: Face) -> NDArray[np.float64]:
    """Landmarks (478, 2) with the eyes level, in distances between the eyes' outer corners, from their middle."""
    points = face.landmarks[:, :2].astype(np.float64)
    left, right = points[EYES[0]], points[EYES[1]]
    along = (right - left) / np.linalg.norm(right - left)
    turn = np.array([[along[0], along[1]], [-along[1], along[0]]])
    turned: NDArray[np.float64] = (points - (left + right) / 2) @ turn.T / np.linalg.norm(right - left)
    return turned


def _scale(face: Face) -> float:
    return float(np.linalg.norm(face.landmarks[EYES[0]] - face.landmarks[EYES[1]]))
