"""What a studio remembers of portraits."""

import numpy as np
from numpy.typing import NDArray

from services.video.domain import Studio
from tests.fakes import FakeFace


def test_a_portrait_is_not_looked_into_again_while_its_rig_is_kept() -> None:
    studio, looked = Studio(FakeFace(), rigs_max=1), []

    def image() -> NDArray[np.uint8]:
        looked.append("at it")
        return np.ones((8, 8, 3), np.uint8)

    rig = studio.rig("a", image)
    assert studio.rig("a", image) is rig
    assert len(looked) == 1
    studio.rig("b", image)
    studio.rig("a", image)
    assert len(looked) == 3
