"""What the tests of models behind OpenAI-compatible servers need."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.mllm.backends.openai import OpenaiModel, Settings
from tests.scripted_server import KEY, ScriptedServer, answer_json, completion, scripted_server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server("some-model", "another-model") as running:
        running.answer = answer_json(completion("sad"))
        yield running


@pytest.fixture
def connect() -> Iterator[Callable[..., OpenaiModel]]:
    """Makes models, and closes them when the test is over."""
    made: list[OpenaiModel] = []

    def make(url: str, model: str = "some-model", **settings: Any) -> OpenaiModel:
        one = OpenaiModel(Settings.model_validate({"base_url": url, "model": model, "api_key": KEY} | settings))
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
