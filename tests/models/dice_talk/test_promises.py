"""DICE-Talk keeps the promises of every face; with random weights, so nothing is asked of how it looks."""

import tempfile
from pathlib import Path

from services.video.backends.dice_talk import DiceTalkBackend
from services.video.domain import Backend
from tests.conformance.face import FacePromises
from tests.models.dice_talk.tiny import write
from tests.models.dice_talk.watching import SCHEDULE_WARNS

pytestmark = SCHEDULE_WARNS


class TestDiceTalk(FacePromises):
    trained = False

    @classmethod
    def create(cls) -> Backend:
        with tempfile.TemporaryDirectory() as folder:
            backend = DiceTalkBackend(write(Path(folder)))
        backend.warm_up()
        return backend
