"""Finds faces in an image and reads 478 landmarks and 52 blendshapes from each.

The three networks are those of Google's Face Landmarker bundle (`face_landmarker.task`, Apache-2.0): BlazeFace short
range (Bazarevsky et al. 2019, arXiv:1907.05047), Face Mesh V2 with iris points, and the blendshape MLP-Mixer. They run
in LiteRT on one thread; everything around them (anchors, suppression, crops, un-projection) is numpy and OpenCV here,
with the constants of MediaPipe 1.0 (`face_detector_graph.cc`, `face_landmarker_graph.cc`, `face_blendshapes_graph.cc`).
"""

import hashlib
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from perception.face_names import BLENDSHAPE_LANDMARKS, BLENDSHAPES

DETECTOR_PX = 128
MESH_PX = 256
SCORE_MIN = 0.5
PRESENCE_MIN = 0.5
CONFIDENCE_MIN = 0.6
"""Score times presence. One network alone sees faces in clouds; small and dark real ones still reach 0.75."""
OVERLAP_MAX = 0.3
SCORE_LEAD = 0.15
CROP_SCALE = 1.5
"""Side of the landmark crop, in face boxes."""
ASPECT_SPLIT = 1.3
"""Images longer than this are also searched in squares, or letterboxing would shrink their faces too far."""
TILES_SIDE_MIN_PX = 640
"""Images at least this large are also searched in four overlapping tiles, for small faces."""
TILE_FRACTION = 0.6

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class FaceBox:
    """Where a face is.

    Attributes:
        x: Left edge, px; may lie outside the image.
        y: Top edge, px.
        width: Width, px.
        height: Height, px.
        score: Detector's confidence, 0 to 1.
        keypoints: float32 (6, 2), px: right eye, left eye, nose tip, mouth, right ear, left ear (of the person).
    """

    x: float
    y: float
    width: float
    height: float
    score: float
    keypoints: NDArray[np.float32]


@dataclass(frozen=True)
class Face:
    """A face that was read.

    Attributes:
        box: Where the detector saw it; for a followed face, the square around its landmarks.
        presence: The mesh network's own confidence that its crop holds a face, 0 to 1.
        landmarks: float32 (478, 3), px of the image: x right, y down, z away from the viewer (same scale as x, zero
            about the head's centre). Points 468 to 477 are the irises. Numbering: MediaPipe's canonical face mesh.
        blendshapes: ARKit-like name to weight 0 to 1; left and right are the person's. `_neutral` is included.
    """

    box: FaceBox
    presence: float
    landmarks: NDArray[np.float32]
    blendshapes: dict[str, float]


@dataclass(frozen=True)
class _Crop:
    """A turned square of the image: centre and side in px, angle in radians (clockwise on screen)."""

    x: float
    y: float
    side: float
    angle: float


class FaceReader:
    """Reads faces. About 10 ms per face; not for several threads at once.

    Args:
        models_dir: The model folder; the file is `face/face_landmarker.task` in it.

    Raises:
        FileNotFoundError: The model file is missing.
    """

    def __init__(self, models_dir: Path) -> None:
        path = models_dir / "face" / "face_landmarker.task"
        self.digest = hashlib.sha256(path.read_bytes()).hexdigest()
        """SHA-256 (hex) of the weights."""
        with zipfile.ZipFile(path) as bundle:
            self._detector = _Network(bundle.read("face_detector.tflite"))
            self._mesh = _Network(bundle.read("face_landmarks_detector.tflite"))
            self._mixer = _Network(bundle.read("face_blendshapes.tflite"))
        self._anchors = _anchors()

    def detect(self, image: Image) -> list[FaceBox]:
        """Returns every face that the detector sees, best first.

        Args:
            image: uint8 (height, width, 3), RGB.
        """
        faces: list[FaceBox] = []
        for x, y, side in _views(*image.shape[:2]):
            for box in _suppress(self._detect_in(image, x, y, side)):
                same = [face for face in faces if _overlap(box, face) > OVERLAP_MAX]
                # The whole comes first and wins unless it saw little: a tile may cut through a face.
                if all(box.score > face.score + SCORE_LEAD for face in same):
                    faces = [face for face in faces if not any(face is other for other in same)]
                    faces.append(box)
        return sorted(faces, key=lambda face: -face.score)

    def read(self, image: Image) -> list[Face]:
        """Reads every face in `image` (uint8, (height, width, 3), RGB), best first.

        Detections are left out when the mesh network sees no face in them, or both are in doubt.
        """
        faces = [self._read_crop(image, _crop_of_box(box), box) for box in self.detect(image)]
        return [face for face in faces if face and face.box.score * face.presence >= CONFIDENCE_MIN]

    def follow(self, image: Image, before: Face) -> Face | None:
        """Reads, in the next frame of a video, the face that was `before`; None when it is lost.

        Needs no detector, so it is twice as fast as `read`, and steadier.
        """
        return self._read_crop(image, _crop_of_landmarks(before.landmarks), None)

    def _detect_in(self, image: Image, x: int, y: int, side: int) -> list[FaceBox]:
        scale = side / DETECTOR_PX
        matrix = np.array([[1 / scale, 0, -x / scale], [0, 1 / scale, -y / scale]], np.float64)
        # Warping takes single samples; shrink by area first, or small faces alias away.
        if scale > 2:
            whole = _padded(image, x, y, side)
            view = np.asarray(cv2.resize(whole, (DETECTOR_PX, DETECTOR_PX), interpolation=cv2.INTER_AREA))
        else:
            view = np.asarray(cv2.warpAffine(image, matrix, (DETECTOR_PX, DETECTOR_PX), flags=cv2.INTER_LINEAR))
        raw, logits = self._detector.run(view[None].astype(np.float32) / 127.5 - 1.0)
        scores = 1.0 / (1.0 + np.exp(-np.clip(logits.ravel().astype(np.float64), -100, 100)))
        keep = np.flatnonzero(scores >= SCORE_MIN)
        values = raw[0, keep].reshape(-1, 8, 2) / DETECTOR_PX
        boxes = []
        for value, anchor, score in zip(values, self._anchors[keep], scores[keep], strict=True):
            centre, size = value[0] + anchor, value[1]
            corner = (centre - size / 2) * side + (x, y)
            keypoints = ((value[2:] + anchor) * side + (x, y)).astype(np.float32)
            width, height = (size * side).tolist()
            boxes.append(FaceBox(float(corner[0]), float(corner[1]), width, height, float(score), keypoints))
        return boxes

    def _read_crop(self, image: Image, crop: _Crop, box: FaceBox | None) -> Face | None:
        to_image = _crop_to_image(crop)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        view = np.asarray(cv2.warpAffine(image, to_image, (MESH_PX, MESH_PX), flags=flags))
        points, presence_logit, _ = self._mesh.run(view[None].astype(np.float32) / 255.0)
        presence = 1.0 / (1.0 + math.exp(-float(presence_logit.ravel()[0])))
        if presence < PRESENCE_MIN:
            return None
        local = points.reshape(478, 3)
        landmarks = np.empty((478, 3), np.float32)
        landmarks[:, :2] = local[:, :2] @ to_image[:, :2].T + to_image[:, 2]
        landmarks[:, 2] = local[:, 2] * (crop.side / MESH_PX)
        (weights,) = self._mixer.run(landmarks[None, BLENDSHAPE_LANDMARKS, :2])
        blendshapes = dict(zip(BLENDSHAPES, weights.ravel().tolist(), strict=True))
        return Face(box or _box_of_landmarks(landmarks, presence), presence, landmarks, blendshapes)


class _Network:
    """One LiteRT model with one input."""

    def __init__(self, content: bytes) -> None:
        self._content = content  # The interpreter reads from this memory.
        self._interpreter = Interpreter(model_content=content, num_threads=1)
        self._interpreter.allocate_tensors()
        self._input: int = self._interpreter.get_input_details()[0]["index"]
        self._outputs: list[int] = [row["index"] for row in self._interpreter.get_output_details()]

    def run(self, value: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        self._interpreter.set_tensor(self._input, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


def _anchors() -> NDArray[np.float64]:
    """Centres of the detector's 896 anchors, (896, 2), 0 to 1: two per cell of 16x16, then six per cell of 8x8."""
    centres = []
    for cells, count in ((16, 2), (8, 6)):
        axis = (np.arange(cells) + 0.5) / cells
        y, x = np.meshgrid(axis, axis, indexing="ij")
        centres.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), count, axis=0))
    return np.concatenate(centres)


def _views(height: int, width: int) -> list[tuple[int, int, int]]:
    """Squares (x, y, side) to search: the letterboxed whole, squares along a long image, tiles of a large one."""
    long, short = max(height, width), min(height, width)
    views = [((width - long) // 2, (height - long) // 2, long)]
    if long > ASPECT_SPLIT * short:
        count = math.ceil(long / short * 1.5)
        offsets = np.linspace(0, long - short, count).astype(int).tolist()
        views += [(offset, 0, short) if width > height else (0, offset, short) for offset in offsets]
    if short >= TILES_SIDE_MIN_PX:
        side = int(short * TILE_FRACTION)
        columns = np.linspace(0, width - side, math.ceil(width / side * 1.2)).astype(int).tolist()
        rows = np.linspace(0, height - side, math.ceil(height / side * 1.2)).astype(int).tolist()
        views += [(x, y, side) for y in rows for x in columns]
    return views


def _padded(image: Image, x: int, y: int, side: int) -> Image:
    height, width = image.shape[:2]
    part = image[max(y, 0) : y + side, max(x, 0) : x + side]
    top, left = max(-y, 0), max(-x, 0)
    bottom, right = max(y + side - height, 0), max(x + side - width, 0)
    if not (top or left or bottom or right):
        return part
    return np.asarray(cv2.copyMakeBorder(part, top, bottom, left, right, cv2.BORDER_CONSTANT), np.uint8)


def _suppress(boxes: Sequence[FaceBox]) -> list[FaceBox]:
    """Merges boxes of the same face: the score-weighted mean of all that overlap the best one."""
    left = sorted(boxes, key=lambda box: -box.score)
    merged = []
    while left:
        best = left[0]
        cluster = [box for box in left if box is best or _overlap(best, box) > OVERLAP_MAX]
        left = [box for box in left if not any(box is other for other in cluster)]
        merged.append(_mean_box(cluster))
    return merged


def _mean_box(cluster: Sequence[FaceBox]) -> FaceBox:
    weights = np.array([box.score for box in cluster])
    weights /= weights.sum()
    x, y, width, height = (weights @ [[box.x, box.y, box.width, box.height] for box in cluster]).tolist()
    keypoints = np.tensordot(weights, np.stack([box.keypoints for box in cluster]), 1).astype(np.float32)
    return FaceBox(x, y, width, height, cluster[0].score, keypoints)


def _overlap(a: FaceBox, b: FaceBox) -> float:
    """Intersection over union, or over the smaller box when one lies almost wholly inside the other."""
    width = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    height = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    if width <= 0 or height <= 0:
        return 0.0
    common, first, second = width * height, a.width * a.height, b.width * b.height
    inside = common / min(first, second)
    # A tile that cuts a face makes a smaller box within the whole face's: the same face.
    return inside if inside > 0.7 else common / (first + second - common)


def _crop_of_box(box: FaceBox) -> _Crop:
    (right_x, right_y), (left_x, left_y) = box.keypoints[0].tolist(), box.keypoints[1].tolist()
    angle = math.atan2(left_y - right_y, left_x - right_x)
    side = CROP_SCALE * max(box.width, box.height)
    return _Crop(box.x + box.width / 2, box.y + box.height / 2, side, angle)


def _crop_of_landmarks(landmarks: NDArray[np.float32]) -> _Crop:
    points = landmarks[:, :2].astype(np.float64)
    dx, dy = points[263] - points[33]
    angle = math.atan2(dy, dx)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    turned = points @ turn.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    x, y = ((low + high) / 2 @ turn).tolist()
    return _Crop(x, y, CROP_SCALE * float((high - low).max()), angle)


def _crop_to_image(crop: _Crop) -> NDArray[np.float64]:
    """The 2x3 matrix from the mesh network's pixels to the image's."""
    scale = crop.side / MESH_PX
    cos, sin = scale * math.cos(crop.angle), scale * math.sin(crop.angle)
    half = MESH_PX / 2
    return np.array([[cos, -sin, crop.x - half * (cos - sin)], [sin, cos, crop.y - half * (sin + cos)]], np.float64)


def _box_of_landmarks(landmarks: NDArray[np.float32], score: float) -> FaceBox:
    (x, y), (right, bottom) = landmarks[:, :2].min(axis=0).tolist(), landmarks[:, :2].max(axis=0).tolist()
    keypoints = landmarks[[468, 473, 1, 13, 234, 454], :2]
    return FaceBox(x, y, right - x, bottom - y, score, keypoints)
