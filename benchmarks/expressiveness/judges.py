"""Facial-expression networks that no service uses: what a stranger would see in a face.

Both are other people's, of other shapes than the network that votes in `services/mllm`. The portrait renderer's anger
and disgust were tuned with `Facex` on four of the ready portraits. `WhatTheFace` was never searched with, but its
scores were read when the last variants were compared. Both are small, learned from small grey pictures of people, and
know seven classes, not contempt: `controls.py` says how far they can be believed on faces like ours.
"""

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from perception.face import Face

CLASSES = ("neutral", "happy", "surprised", "angry", "fear", "sad", "disgusted")
"""Order of what a judge returns."""
IRIS_RIGHT, IRIS_LEFT = 468, 473
BOX_SIDE, BOX_DROP = 2.88, 0.27
"""The square that OpenCV's frontal Haar cascade puts around a face, with which both authors cut out what they taught:
its side, and how far below the middle between the irises its centre lies, in distances of the irises. Measured with
OpenCV 4.10 on the ready portraits."""
P_MIN = 0.01
"""Probabilities are cut to this and its complement before their odds are compared: a judge that says 0 means little."""

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Arrays = dict[str, Singles]


class Judge(Protocol):
    """One network."""

    name: str

    def classify(self, face: NDArray[np.uint8]) -> Floats:
        """Returns a probability per `CLASSES` for a square cut-out, grey, uint8 (side, side)."""


class Facex:
    """`facex` 1.1.0, MIT: 2.6 MB, on 200 x 200 px.

    Args:
        models_dir: The model folder; the file is `judges/facex.tflite` in it.

    Raises:
        FileNotFoundError: It is missing.
    """

    name = "facex"
    ORDER = ("angry", "disgusted", "fear", "happy", "neutral", "sad", "surprised")
    SIDE_PX = 200

    def __init__(self, models_dir: Path) -> None:
        self._content = (models_dir / "judges" / "facex.tflite").read_bytes()
        self._interpreter = Interpreter(model_content=self._content, num_threads=1)
        self._interpreter.allocate_tensors()
        self._input: int = self._interpreter.get_input_details()[0]["index"]
        self._output: int = self._interpreter.get_output_details()[0]["index"]

    def classify(self, face: NDArray[np.uint8]) -> Floats:
        """Returns a probability per `CLASSES`."""
        grey = cv2.resize(face, (self.SIDE_PX, self.SIDE_PX), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
        self._interpreter.set_tensor(self._input, np.repeat(grey[None, :, :, None], 3, axis=3))
        self._interpreter.invoke()
        return _ordered(self._interpreter.get_tensor(self._output)[0], self.ORDER)


class WhatTheFace:
    """`what-the-face-classification` 0.0.27, MIT: three convolutions and three layers, on 48 x 48 px (FER2013).

    The network is small enough to be run in numpy, so that its PyTorch file needs no PyTorch.

    Args:
        models_dir: The model folder; the file is `judges/what_the_face.pth` in it.

    Raises:
        FileNotFoundError: It is missing.
    """

    name = "what-the-face"
    ORDER = ("angry", "disgusted", "fear", "happy", "sad", "surprised", "neutral")
    SIDE_PX = 48

    def __init__(self, models_dir: Path) -> None:
        self._weights = read_arrays(models_dir / "judges" / "what_the_face.pth")

    def classify(self, face: NDArray[np.uint8]) -> Floats:
        """Returns a probability per `CLASSES`."""
        side = self.SIDE_PX
        small = np.asarray(cv2.resize(face, (side, side), interpolation=cv2.INTER_AREA), np.float32)
        value: Singles = small[None] / np.float32(255)
        for layer in ("conv1", "conv2", "conv3"):
            value = _halved(np.tanh(self._convolved(value, layer)))
        value = value.ravel()
        for layer in ("fc1", "fc2"):
            value = np.asarray(np.maximum(self._mixed(value, layer), 0))
        value = self._mixed(value, "fc3")
        odds = np.exp(value - value.max())
        return _ordered(odds / odds.sum(), self.ORDER)

    def _convolved(self, value: Singles, layer: str) -> Singles:
        windows = sliding_window_view(value, (3, 3), axis=(1, 2))
        weight, bias = self._weights[f"{layer}.weight"], self._weights[f"{layer}.bias"]
        return np.asarray(np.einsum("chwij,ocij->ohw", windows, weight, optimize=True) + bias[:, None, None])

    def _mixed(self, value: Singles, layer: str) -> Singles:
        return np.asarray(self._weights[f"{layer}.weight"] @ value + self._weights[f"{layer}.bias"])


def cut_out(image: NDArray[np.uint8], face: Face) -> NDArray[np.uint8]:
    """Returns what a judge looks at: the square around `face` in `image` (uint8, RGB), upright, grey, 200 px a side."""
    right, left = face.landmarks[IRIS_RIGHT, :2].astype(float), face.landmarks[IRIS_LEFT, :2].astype(float)
    across = left - right
    down = np.array([-across[1], across[0]])
    side, centre = Facex.SIDE_PX, (left + right) / 2 + BOX_DROP * down
    # Columns: one pixel of the cut-out along x and along y, and its corner, in px of the image.
    step_x, step_y = across * BOX_SIDE / side, down * BOX_SIDE / side
    corner = centre - (step_x + step_y) * side / 2
    matrix = np.stack([step_x, step_y, corner], axis=1)
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(grey, matrix, (side, side), flags=flags), np.uint8)


def rise(shown: Floats, plain: Floats) -> Floats:
    """Returns by how much the log odds of each class rose, float64 (7,), from `plain` to `shown`.

    A face at rest has an expression of its own for a stranger, a computer-made one still more; what an emotion did to
    it is what changed against the same person saying the same words plainly.
    """
    return np.asarray(_log_odds(shown) - _log_odds(plain))


def strongest(values: Floats) -> str:
    """Returns the class with the highest value."""
    return CLASSES[int(values.argmax())]


def read_arrays(path: Path) -> Arrays:
    """Reads the state dictionary of a PyTorch file (the zip format of 1.6 and later), float32 only.

    Raises:
        pickle.UnpicklingError: The file holds anything else.
    """
    with zipfile.ZipFile(path) as archive:
        folder = next(name for name in archive.namelist() if name.endswith("/data.pkl")).removesuffix("data.pkl")
        arrays: Arrays = _Arrays(archive, folder).load()
        return arrays


def _log_odds(probabilities: Floats) -> Floats:
    cut = np.clip(probabilities, P_MIN, 1 - P_MIN)
    return np.asarray(np.log(cut / (1 - cut)))


def _ordered(probabilities: NDArray[Any], order: tuple[str, ...]) -> Floats:
    return np.array([probabilities[order.index(name)] for name in CLASSES], np.float64)


def _halved(value: Singles) -> Singles:
    """Takes the largest of each 2 x 2; an odd last row or column is left out."""
    channels, height, width = value.shape
    even = value[:, : height // 2 * 2, : width // 2 * 2]
    return np.asarray(even.reshape(channels, height // 2, 2, width // 2, 2).max(axis=(2, 4)))


class _Arrays(pickle.Unpickler):
    """Unpickles a state dictionary as arrays; knows three names and refuses all others, so that no code is run."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(archive.open(f"{folder}data.pkl"))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _array,
            ("torch", "FloatStorage"): np.float32,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a file of weights")
        return known[module, name]

    def persistent_load(self, pid: tuple[Any, ...]) -> Singles:
        return np.frombuffer(self._archive.read(f"{self._folder}data/{pid[2]}"), "<f4")


def _array(storage: Singles, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object) -> Singles:
    return as_strided(storage[offset:], shape, [storage.itemsize * stride for stride in strides], writeable=False)
