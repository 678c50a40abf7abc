"""What the tests of this family need."""

import pytest
import torch

from services.video.backends.dice_talk import DiceTalkBackend, Settings
from services.video.dice_talk.identity import Identity
from services.video.domain import Portrait
from tests.models.dice_talk.tiny import photograph, write

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return write(tmp_path_factory.mktemp("dice_talk"))


@pytest.fixture(scope="session")
def backend(settings: Settings) -> DiceTalkBackend:
    backend = DiceTalkBackend(settings)
    backend.warm_up()
    return backend


@pytest.fixture(scope="session")
def portrait() -> Portrait:
    return photograph()


@pytest.fixture(scope="session")
def rig(backend: DiceTalkBackend, portrait: Portrait) -> Identity:
    return backend.prepare(portrait)
