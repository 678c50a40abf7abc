"""OpenVoice keeps the promises of every voice; with made-up weights nothing is asked of how it sounds."""

from pathlib import Path
from typing import ClassVar

import pytest

from services.tts.backends import openvoice
from services.tts.domain import Backend
from tests.conformance.voice import VoicePromises
from tests.models.openvoice import layout


class _OnMadeUpWeights(VoicePromises):
    trained = False
    chosen: ClassVar[dict[str, str]] = {}
    root: Path

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _weights(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        root = layout.write_openvoice(tmp_path_factory.mktemp("weights"))
        if cls.chosen.get("BASE_SPEAKER") == "melo":
            layout.write_melo(root)
        cls.root = root

    @classmethod
    def create(cls) -> Backend:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in layout.settings(cls.root, **cls.chosen).items():
                environment.setenv(name, value)
            return openvoice.create()


class TestV1(_OnMadeUpWeights):
    chosen: ClassVar = {"BATCH_MAX": "4"}


class TestV1WithTheV2Converter(_OnMadeUpWeights):
    chosen: ClassVar = {"CONVERTER": "checkpoints_v2/converter"}


class TestMelo(_OnMadeUpWeights):
    chosen: ClassVar = {"BASE_SPEAKER": "melo", "BATCH_MAX": "2"}
