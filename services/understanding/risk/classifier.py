"""Classifier of risks: the text encoder with an adapter that `services.understanding.training.risk_adapter` trains."""

from pathlib import Path

import numpy as np

from perception.mpnet import Array, Encoder, plain, softmax
from services.understanding.risk.screen import KINDS
from services.understanding.spelling import readable

ADAPTER = Path(__file__).with_suffix(".npz")


class Classifier:
    """Reads how likely a text speaks of each kind of risk, and how severe it is.

    Args:
        models_dir: The model folder.
        adapter: The adapter and the head.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
    """

    def __init__(self, models_dir: Path, adapter: Path = ADAPTER) -> None:
        self._encoder = Encoder(models_dir, adapter)

    def read(self, text: str) -> tuple[Array, Array]:
        """Return the probability of each of `KINDS`, float32 (6,), and of each severity, float32 (3,).

        Of a long text, those of the window that most likely speaks of a risk.
        """
        windows = self._encoder.read(readable(plain(text)))
        kinds = [softmax(window[: len(KINDS) + 1])[1:] for window in windows]
        found = int(np.argmax([kind.sum() for kind in kinds]))
        return kinds[found], softmax(windows[found, len(KINDS) + 1 :])
