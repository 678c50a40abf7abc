"""Pictures whose expression is known, to see how far the judges can be believed on computer-made faces.

`known/` holds two heads of nobody, modelled like the ready portraits but none of them, with expressions that were made
in three dimensions after EMFACS (Ekman and Friesen 1983) from the action units of the MakeHuman face, not by this
project's renderer: `<head>-<class>.jpg`. Licence: CC0 1.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.expressiveness.faces import Eye
from services.common.images import decode_image

FOLDER = Path(__file__).parent / "known"


@dataclass(frozen=True)
class Known:
    """One picture: which head, what it shows, and what each judge says, float64 (7,) per `judges.CLASSES`."""

    head: str
    shown: str
    votes: Mapping[str, NDArray[np.float64]]


def look(eye: Eye) -> list[Known]:
    """Has the judges look at the pictures.

    Raises:
        FaceLost: A picture shows no face.
    """
    known = []
    for path in sorted(FOLDER.glob("*.jpg")):
        head, shown = path.stem.split("-")
        image = decode_image(path.read_bytes(), path.name)
        known.append(Known(head, shown, eye.judge(image, eye.find(image))))
    return known
