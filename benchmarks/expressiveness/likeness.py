"""Tells whose face it is, with a network that knows nothing of this project (dlib's, King 2017, CC0).

Its author calls two pictures the same person when their embeddings are less than 0.6 apart, where it was right on
99.38 % of the pairs of Labeled Faces in the Wild.
"""

from pathlib import Path

import dlib
import numpy as np
from numpy.typing import NDArray

from perception.face import Face

BOX_SIDE, BOX_DROP = 2.25, 0.52
"""dlib's own face box, in distances of the irises: its side, and how far below them its centre lies."""


class Likeness:
    """Embeds faces, about 0.1 s each.

    Args:
        models_dir: The model folder; the files are in its folder `judges`.

    Raises:
        FileNotFoundError: One is missing.
    """

    def __init__(self, models_dir: Path) -> None:
        layout, network = models_dir / "judges" / "face_5_points.dat", models_dir / "judges/face_recognition_resnet.dat"
        for path in (layout, network):
            if not path.is_file():
                raise FileNotFoundError(path)
        self._layout = dlib.shape_predictor(str(layout))
        self._network = dlib.face_recognition_model_v1(str(network))

    def embed(self, image: NDArray[np.uint8], face: Face) -> NDArray[np.float64]:
        """Returns float64 (128,) for `face` in `image`, uint8 (height, width, 3), RGB."""
        right, left = face.landmarks[468, :2].astype(float), face.landmarks[473, :2].astype(float)
        apart = float(np.linalg.norm(left - right))
        x, y = ((left + right) / 2).tolist()
        half = round(BOX_SIDE * apart / 2)
        y += BOX_DROP * apart
        box = dlib.rectangle(round(x) - half, round(y) - half, round(x) + half, round(y) + half)
        picture = np.ascontiguousarray(image)
        return np.array(self._network.compute_face_descriptor(picture, self._layout(picture, box)))
