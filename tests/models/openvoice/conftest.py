"""What the tests of this family need."""

from pathlib import Path

import pytest
import torch

from services.tts.openvoice.converter import Converter, load_converter
from services.tts.openvoice.melo import Melo
from services.tts.openvoice.synthesizer import BaseSpeaker
from tests.models.openvoice import cases, tiny

torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """Lets jieba be compiled, whose regular expressions are no raw strings, and pykakasi's old interface be used."""
    config.addinivalue_line("filterwarnings", "ignore:invalid escape sequence")
    config.addinivalue_line("filterwarnings", "ignore:Call to deprecated method:DeprecationWarning")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Official folders with made-up weights."""
    place = tmp_path_factory.mktemp("official")
    return {
        "converter_v1": tiny.write_converter(place / "v1", tiny.converter_config("v1")),
        "converter_v2": tiny.write_converter(place / "v2", tiny.converter_config("v2")),
        "base_speaker": tiny.write_base_speaker(place / "EN", tiny.base_speaker_config()),
        "melo": tiny.write_melo(place / "melo", tiny.melo_config()),
    }


@pytest.fixture(params=["v1", "v2"])
def converter(folders: dict[str, Path], request: pytest.FixtureRequest) -> Converter:
    return load_converter(folders[f"converter_{request.param}"], "cpu", cases.FULL)


@pytest.fixture(params=["base_speaker", "melo"])
def speaker(folders: dict[str, Path], request: pytest.FixtureRequest) -> BaseSpeaker | Melo:
    return cases.load_speaker(folders, request.param, cases.FULL)
