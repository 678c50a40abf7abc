"""Every back-end of tts keeps the same promises."""

from pathlib import Path

from services.common import backends
from services.tts.backends import hibari, kokoro
from services.tts.domain import Backend
from tests.conformance.suites import suites
from tests.conformance.voice import VoicePromises

ELSEWHERE = {"openvoice": "tests/models/openvoice/test_promises.py"}
"""Those that need PyTorch: `make test-models` runs them."""


class TestHibari(VoicePromises):
    @classmethod
    def create(cls) -> Backend:
        return hibari.create()


class TestKokoro(VoicePromises):
    @classmethod
    def create(cls) -> Backend:
        return kokoro.create()


def test_no_back_end_is_left_out() -> None:
    here = {name.removeprefix("Test").lower() for name in suites(Path(__file__), "VoicePromises")}
    assert here | set(ELSEWHERE) == set(backends.names("services.tts.backends"))
    for path in ELSEWHERE.values():
        assert suites(Path(__file__).parents[2] / path, "VoicePromises"), f"{path} takes up no promises"
