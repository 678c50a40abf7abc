"""A model behind a real OpenAI-compatible server: llama.cpp's."""

import re
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import emotions
from services.common.errors import BackendFailed, NotReady
from services.mllm.backends import openai
from services.mllm.backends.openai import OpenaiModel
from services.mllm.chat.model import Chooser, Sampling, Scorer, Turn
from services.mllm.domain import Message, Modality
from services.mllm.remote.guides import Guide
from tests.llama_server import MODEL, llama_server
from tests.scripted_server import KEY
from tests.stops import never

LABELS = ("happy", "sad", "angry", "disappointed", "disgusted", "neutral")
QUESTION = (Turn("system", "Name the feeling in one word."), Turn("user", "My dog died and I cry all day."))
SAMPLING = Sampling(tokens_max=24, temperature=0.7, top_p=0.9, seed=3)


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    with llama_server(KEY) as url:
        yield url


def test_it_finds_the_model_and_says_what_it_is(llama: str, connect: Callable[..., OpenaiModel]) -> None:
    model = connect(llama, MODEL)
    assert (model.name, model.perceives) == (MODEL, frozenset({Modality.TEXT}))
    assert len(bytes.fromhex(model.digest)) == 32
    assert connect(llama, MODEL).digest == model.digest
    assert isinstance(model, Chooser)
    assert not isinstance(model, Scorer)


def test_the_reply_comes_piece_by_piece_and_the_same_for_the_same_seed(
    llama: str, connect: Callable[..., OpenaiModel]
) -> None:
    model = connect(llama, MODEL)
    turns = (Turn("user", "Say something kind."),)
    pieces = list(model.stream(turns, SAMPLING, never))
    assert len(pieces) > 5
    assert list(model.stream(turns, SAMPLING, never)) == pieces
    others = {"".join(model.stream(turns, Sampling(24, 1.5, 1.0, seed), never)) for seed in (4, 5, 6)}
    assert len(others) > 1


@pytest.mark.parametrize("guide", [Guide.GRAMMAR, Guide.JSON_SCHEMA])
def test_a_guided_answer_is_a_label_with_its_likelihood(
    llama: str, connect: Callable[..., OpenaiModel], guide: Guide
) -> None:
    choice = connect(llama, MODEL, guided=guide).choose(QUESTION, LABELS, never)
    assert choice.guided
    assert choice.text in LABELS
    assert choice.text in choice.log_likelihoods
    assert set(choice.log_likelihoods) <= set(LABELS)
    assert max(choice.log_likelihoods.values()) <= 0


def test_an_unguided_answer_is_free_text(llama: str, connect: Callable[..., OpenaiModel]) -> None:
    choice = connect(llama, MODEL).choose(QUESTION, LABELS, never)
    assert choice.text
    assert not choice.guided


@pytest.mark.parametrize("guide", [Guide.STRUCTURED_OUTPUTS, Guide.GUIDED_CHOICE, Guide.REGEX])
def test_a_way_that_the_server_does_not_know_is_found_out_at_the_start(
    llama: str, connect: Callable[..., OpenaiModel], guide: Guide
) -> None:
    with pytest.raises(BackendFailed, match=rf"{llama} takes no notice of '{guide.value}'; set guided"):
        connect(llama, MODEL, guided=guide)


def test_a_wrong_key_is_refused_and_not_told(llama: str, connect: Callable[..., OpenaiModel]) -> None:
    wrong = KEY[::-1]
    with pytest.raises(BackendFailed, match=rf"{llama} refuses the API key \(401\)") as refused:
        connect(llama, MODEL, api_key=wrong)
    assert wrong not in "".join(traceback.format_exception(refused.value))


def test_a_model_that_is_not_there_is_named_with_those_that_are(
    llama: str, connect: Callable[..., OpenaiModel]
) -> None:
    with pytest.raises(NotReady, match=rf"{llama} has no model 'gpt-12'; it has: {MODEL}"):
        connect(llama, "gpt-12")


def predicted(llama: str) -> int:
    """Returns how many tokens the server has written since its start."""
    request = urllib.request.Request(llama.replace("/v1", "/metrics"), headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        found = re.search(r"^llamacpp:tokens_predicted_total (\d+)", answer.read().decode(), re.MULTILINE)
    assert found
    return int(found[1])


def test_closing_the_reply_stops_the_model_on_the_server(llama: str, connect: Callable[..., OpenaiModel]) -> None:
    model = connect(llama, MODEL)
    turns, long = (Turn("user", "Tell me a very long story about a king."),), Sampling(150, 0.0, 1.0, 0)
    whole = list(model.stream(turns, long, never))
    assert len(whole) > 100, "or what follows proves nothing"
    before = predicted(llama)
    pieces = model.stream(turns, long, never)
    assert next(pieces) == whole[0]
    pieces.close()  # type: ignore[attr-defined]  # the port says Iterator; this is a generator
    # The server has one place; an answer means that the first reply has left it.
    assert list(model.stream(turns, Sampling(2, 0.0, 1.0, 0), never)) == whole[:2]
    assert predicted(llama) - before < 60


def test_as_a_back_end_it_warms_up_and_votes(llama: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    for name, value in (
        ("BASE_URL", llama),
        ("MODEL", MODEL),
        ("API_KEY_FILE", str(tmp_path / "key")),
        ("GUIDED", "grammar"),
        ("SHOTS", "0"),
        ("REPLY_TOKENS_MAX", "8"),
    ):
        monkeypatch.setenv(f"E3RG_MLLM_{name}", value)
    backend = openai.create()
    try:
        prediction = backend.predict(Message(text="We won the cup!"))
        assert prediction.parse == "guided"
        assert prediction.saw == {Modality.TEXT}
        assert set(prediction.distribution) <= set(emotions.load().labels)
        assert sum(prediction.distribution.values()) == pytest.approx(1)
    finally:
        backend.close()
