"""The Triton back-end against a real Triton server, behind which a real language model answers."""

import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton

import emotions
from services.common.errors import BackendFailed, DeadlineExceeded, NotReady
from services.mllm.backends.triton import Settings, TritonModel
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.model import Sampling, Turn
from services.mllm.domain import Message, Modality, Profile, ReplyRecord, ReplyRequest, ReplySentence
from tests.fakes import PATIENCE_S
from tests.models.triton.server import MODEL, Triton, triton_server
from tests.stops import never

SEA = (Turn("user", "Tell me about the sea."),)
PROFILE = Profile(name="Anna", age="young", gender="female", timbre="mid")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    with triton_server(tmp_path_factory.mktemp("triton")) as running:
        yield running


@pytest.fixture(scope="module")
def settings(server: Triton) -> Settings:
    return Settings(server=server.address, model=MODEL, chat_template="chatml", shots=1)


@pytest.fixture(scope="module")
def model(settings: Settings) -> Iterator[TritonModel]:
    one = TritonModel(settings)
    yield one
    one.close()


@pytest.fixture
def client(server: Triton) -> Iterator[Any]:
    """The operator's hands on the server; the model is there again afterwards."""
    with triton.InferenceServerClient(server.address) as operator:
        yield operator
        operator.load_model(MODEL)


def sampled(seed: int, tokens_max: int = 30) -> Sampling:
    return Sampling(tokens_max, temperature=0.8, top_p=0.95, seed=seed)


def test_an_emotion_is_voted_on_by_guided_decoding(model: TritonModel, settings: Settings) -> None:
    backend = ChatBackend(model, settings)
    vote = backend.predict(Message(text="My dog died yesterday and I cannot stop crying."))
    assert (vote.parse, set(vote.saw), vote.abstained) == ("guided", {Modality.TEXT}, "")
    assert vote.answer in emotions.load().labels
    assert sum(vote.distribution.values()) == pytest.approx(1)
    assert max(vote.distribution, key=vote.distribution.__getitem__) == vote.answer


def test_a_reply_is_written_sentence_by_sentence(model: TritonModel, settings: Settings) -> None:
    backend = ChatBackend(model, settings)
    request = ReplyRequest(Message(text="I passed my exam today!"), "proud", "joyful", PROFILE, seed=1)
    *sentences, record = backend.write(request)
    assert sentences
    assert all(isinstance(one, ReplySentence) and one.text for one in sentences)
    assert isinstance(record, ReplyRecord)


def test_text_comes_while_it_is_written_and_the_same_for_the_same_seed(model: TritonModel) -> None:
    texts = [list(model.stream(SEA, sampled(seed), never)) for seed in (1, 1, 2)]
    assert len(texts[0]) > 10
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_a_choice_names_a_member_of_the_set_and_how_likely_others_were(model: TritonModel) -> None:
    choice = model.choose([Turn("user", "Is the sky blue? Answer Yes or No.")], ["Yes", "No"], never)
    assert (choice.text in {"Yes", "No"}, choice.guided) == (True, True)
    assert choice.log_likelihoods.keys() == {"Yes", "No"}
    assert max(choice.log_likelihoods, key=choice.log_likelihoods.__getitem__) == choice.text
    assert sum(math.exp(value) for value in choice.log_likelihoods.values()) == pytest.approx(1)


def close(pieces: Any, stopped: threading.Event) -> None:
    pieces.close()


def stop(pieces: Any, stopped: threading.Event) -> None:
    stopped.set()
    assert list(pieces) == []


@pytest.mark.parametrize("leave", [close, stop])
def test_the_server_stops_decoding_when_the_answer_is_left(
    model: TritonModel, server: Triton, leave: Callable[[Any, threading.Event], None]
) -> None:
    stopped = threading.Event()
    pieces = model.stream(SEA, sampled(1, tokens_max=1000), stopped.is_set)
    next(pieces)
    leave(pieces, stopped)
    line = server.logged("cancelled after", PATIENCE_S)
    assert int(line.split("cancelled after ")[1].split()[0]) < 200


def test_what_the_model_refuses_is_told_with_its_reason(model: TritonModel, server: Triton) -> None:
    with pytest.raises(BackendFailed, match=f"{server.address}, model '{MODEL}': Error generating stream: .*context"):
        list(model.stream([Turn("user", "word " * 6000)], sampled(1), never))
    assert list(model.stream(SEA, sampled(1), never))


def test_a_model_that_the_server_does_not_have_is_named(settings: Settings) -> None:
    with pytest.raises(NotReady, match="model 'other': Request for unknown model: 'other'"):
        TritonModel(settings.model_copy(update={"model": "other"}))


def test_a_model_that_is_unloaded_is_missed_and_found_again_when_it_is_back(model: TritonModel, client: Any) -> None:
    client.unload_model(MODEL)
    with pytest.raises(NotReady, match=f"model '{MODEL}': "):
        list(model.stream(SEA, sampled(1), never))
    client.load_model(MODEL)
    assert list(model.stream(SEA, sampled(1), never))


def test_the_digest_stays_the_same_from_one_connection_to_the_next(model: TritonModel, settings: Settings) -> None:
    other = TritonModel(settings)
    other.close()
    assert other.digest == model.digest


@pytest.mark.parametrize(
    ("kill", "kinds"),
    [
        (Triton.kill, NotReady),
        # Triton itself does not notice that the process of its model is gone, or falls over it.
        (Triton.kill_model, (DeadlineExceeded, NotReady)),
    ],
)
def test_a_server_or_a_model_that_dies_within_an_answer_is_told(
    tmp_path: Path, settings: Settings, kill: Callable[[Triton], None], kinds: Any
) -> None:
    with triton_server(tmp_path) as server:
        model = TritonModel(settings.model_copy(update={"server": server.address, "timeout_s": 2.0}))
        pieces = model.stream(SEA, sampled(1, tokens_max=1000), never)
        next(pieces)
        kill(server)
        with pytest.raises(kinds, match=f"{server.address}, model '{MODEL}': "):
            list(pieces)
        model.close()
