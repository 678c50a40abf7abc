"""Every back-end of video keeps the same promises."""

from pathlib import Path

from services.common import backends
from services.video.backends import portrait
from services.video.domain import Backend
from tests.conformance.face import FacePromises
from tests.conformance.suites import suites

ELSEWHERE = {"dice_talk": "tests/models/dice_talk/test_promises.py"}
"""Those that need PyTorch: `make test-models` runs them."""


class TestPortrait(FacePromises):
    @classmethod
    def create(cls) -> Backend:
        return portrait.create()


def test_no_back_end_is_left_out() -> None:
    here = {name.removeprefix("Test").lower() for name in suites(Path(__file__), "FacePromises")}
    assert here | set(ELSEWHERE) == set(backends.names("services.video.backends"))
    for path in ELSEWHERE.values():
        assert suites(Path(__file__).parents[2] / path, "FacePromises"), f"{path} takes up no promises"
