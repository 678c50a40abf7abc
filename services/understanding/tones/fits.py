"""Tells how well each stored reply fits a message, from what the reader found in it."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perception.mpnet import Array, sigmoid

PATH = Path(__file__).with_suffix(".npz")


@dataclass(frozen=True)
class Fit:
    """How well a reply fits.

    Attributes:
        sayable: Probability that a kind, sensible person could say it.
        good: That it takes up just what was said.
    """

    sayable: float
    good: float


class ReplyFits:
    """Two logistic regressions for each reply, learned from graded replies (`training.reply_fits`).

    Args:
        replies: All that may be said.
        path: Their rows.

    Raises:
        ValueError: A reply has none; names it.
    """

    def __init__(self, replies: Collection[str], path: Path = PATH) -> None:
        self._replies = tuple(dict.fromkeys(replies))
        with np.load(path) as learned:
            places = {reply: place for place, reply in enumerate(learned["replies"].tolist())}
            if missing := [reply for reply in self._replies if reply not in places]:
                raise ValueError(f"{path.name} has no rows for {missing[0]!r}: run `training.reply_fits`")
            kept = [places[reply] for reply in self._replies]
            self._rows: Array = learned["rows"][:, kept].astype(np.float32)
            self._biases: Array = learned["biases"][:, kept]

    def of(self, found: Array) -> dict[str, Fit]:
        """Return how well each reply fits a message.

        Args:
            found: The logits of the reader's head, and behind them its state, float32 (outputs + 768,).
        """
        sayable, good = sigmoid(self._rows @ found + self._biases).tolist()
        return dict(zip(self._replies, map(Fit, sayable, good), strict=True))
