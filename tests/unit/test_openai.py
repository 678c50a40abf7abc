"""A model behind an OpenAI-compatible server: a real one (llama.cpp's), and one that plays every fault."""

import base64
import io
import itertools
import json
import re
import threading
import traceback
import urllib.request
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import emotions
from services.common.errors import BackendFailed, NotReady, Overloaded, ServiceError
from services.mllm.backends import openai
from services.mllm.backends.openai import OpenaiModel, Settings
from services.mllm.chat.model import Chooser, Sampling, Scorer, Turn
from services.mllm.domain import Frame, Message, Modality
from services.mllm.remote.alternatives import Token, label_log_likelihoods
from services.mllm.remote.guides import Guide
from tests.llama_server import MODEL, llama_server
from tests.scripted_server import (
    Answer,
    ScriptedServer,
    answer_body,
    answer_json,
    answer_stream,
    chunk,
    completion,
    scripted_server,
    wait_for_ever,
)

KEY = "a-key-that-nobody-may-see"
LABELS = ("happy", "sad", "angry", "disappointed", "disgusted", "neutral")
QUESTION = (Turn("system", "Name the feeling in one word."), Turn("user", "My dog died and I cry all day."))
SAMPLING = Sampling(tokens_max=24, temperature=0.7, top_p=0.9, seed=3)


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    with llama_server(KEY) as url:
        yield url


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


# With a real server.


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


# What is sent.


def test_the_key_is_sent_and_shown_nowhere(server: ScriptedServer, connect: Callable[..., OpenaiModel]) -> None:
    connect(server.url)
    assert set(server.keys) == {f"Bearer {KEY}"}
    settings = Settings.model_validate({"base_url": server.url, "model": "some-model", "api_key": KEY})
    assert KEY not in repr(settings) + str(settings.model_dump())


def test_a_server_without_keys_gets_a_word_in_its_place(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    connect(server.url, api_key=None)
    assert set(server.keys) == {"Bearer EMPTY"}


def test_audio_and_frames_are_sent_as_parts_before_the_words(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    model = connect(server.url, perceives=["text", "audio", "video"], frames_max=3, frame_side_px_max=64)
    audio = np.sin(np.arange(8000) / 20).astype(np.float32)
    frames = tuple(Frame(second / 5, np.full((96, 128, 3), 40 * second, np.uint8)) for second in range(6))
    model.choose((Turn("system", "Listen and look."), Turn("user", "Hi.", audio, frames)), LABELS, never)
    system, user = server.asked[-1]["messages"]
    assert system == {"role": "system", "content": "Listen and look."}
    kinds = [part["type"] for part in user["content"]]
    assert kinds == ["image_url", "image_url", "image_url", "input_audio", "text"]
    assert user["content"][-1]["text"] == "Hi."
    greys = []
    for part in user["content"][:3]:
        head, _, content = part["image_url"]["url"].partition(",")
        assert head == "data:image/jpeg;base64"
        image = Image.open(io.BytesIO(base64.b64decode(content)))
        assert (image.format, image.size) == ("JPEG", (64, 48))
        greys.append(np.asarray(image).mean())
    assert greys == pytest.approx([0, 80, 200], abs=4), "the first, one in the middle, the last"
    sound = user["content"][3]["input_audio"]
    assert sound["format"] == "wav"
    with wave.open(io.BytesIO(base64.b64decode(sound["data"]))) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (16_000, 1, 2)
        heard = np.frombuffer(reader.readframes(reader.getnframes()), "<i2") / 32767
    assert np.abs(heard - audio).max() < 1e-4


@pytest.mark.parametrize(
    ("guide", "written", "sent"),
    [
        (Guide.STRUCTURED_OUTPUTS, "sad", {"structured_outputs": {"choice": list(LABELS)}}),
        (Guide.GUIDED_CHOICE, "sad", {"guided_choice": list(LABELS)}),
        (Guide.REGEX, "sad", {"regex": "(happy|sad|angry|disappointed|disgusted|neutral)"}),
        (
            Guide.GRAMMAR,
            "sad",
            {"grammar": 'root ::= "happy" | "sad" | "angry" | "disappointed" | "disgusted" | "neutral"'},
        ),
        (
            Guide.JSON_SCHEMA,
            '{"emotion": "sad"}',
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "emotion",
                        "strict": True,
                        "schema": {
                            "type": "object",
                            "properties": {"emotion": {"type": "string", "enum": list(LABELS)}},
                            "required": ["emotion"],
                            "additionalProperties": False,
                        },
                    },
                }
            },
        ),
        (Guide.NONE, "I think sad.", {}),
    ],
)
def test_each_server_is_told_the_set_in_its_own_way(
    server: ScriptedServer, connect: Callable[..., OpenaiModel], guide: Guide, written: str, sent: dict[str, Any]
) -> None:
    server.answer = answer_json(completion('{"emotion": "walnut"}' if guide is Guide.JSON_SCHEMA else "walnut"))
    model = connect(server.url, guided=guide)
    server.answer = answer_json(completion(written))
    choice = model.choose(QUESTION, LABELS, never)
    plain = {"model", "messages", "max_tokens", "temperature", "seed", "logprobs", "top_logprobs"}
    asked = server.asked[-1]
    assert {name: value for name, value in asked.items() if name not in plain} == sent
    assert (asked["model"], asked["temperature"]) == ("some-model", 0)
    assert (choice.text, choice.guided) == (("sad", True) if sent else ("I think sad.", False))


def test_the_sampling_is_passed_on(server: ScriptedServer, connect: Callable[..., OpenaiModel]) -> None:
    model = connect(server.url)
    server.answer = answer_stream([chunk("Oh"), chunk(" no."), chunk("", "stop"), "[DONE]"])
    assert list(model.stream(QUESTION, Sampling(7, 0.5, 0.8, 11), never)) == ["Oh", " no."]
    asked = server.asked[-1]
    assert {name: asked[name] for name in ("max_tokens", "temperature", "top_p", "seed", "stream")} == {
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.8,
        "seed": 11,
        "stream": True,
    }


def test_a_server_that_tells_no_alternatives_is_not_asked_for_them_again(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    def answer(handler: Any) -> None:
        refused = "logprobs" in server.asked[-1]
        body = {"error": {"message": "logprobs are not supported"}} if refused else completion("sad")
        answer_json(body, 400 if refused else 200)(handler)

    server.answer = answer
    model = connect(server.url)
    choice = model.choose(QUESTION, LABELS, never)
    assert (choice.text, dict(choice.log_likelihoods)) == ("sad", {})
    assert ["logprobs" in asked for asked in server.asked] == [True, False, False]


# Faults.


def model_that_gets(
    server: ScriptedServer, connect: Callable[..., OpenaiModel], answer: Answer, **settings: Any
) -> OpenaiModel:
    model = connect(server.url, **settings)
    server.answer = answer
    return model


FAULTS: list[tuple[Answer, type[ServiceError], str]] = [
    (answer_json({"error": {"message": f"bad key {KEY}"}}, 401), BackendFailed, r"refuses the API key \(401\).*\*\*\*"),
    (answer_json({"error": {"message": "no rights"}}, 403), BackendFailed, r"refuses the API key \(403\)"),
    (answer_json({"error": {"message": "unloaded"}}, 404), NotReady, r"has no such model.*\(404\).*unloaded"),
    (answer_json({"error": {"message": "wait"}}, 503), NotReady, r"loading or draining \(503\)"),
    (answer_json({"error": {"message": "out of memory"}}, 500), BackendFailed, r"failed \(500\).*out of memory"),
    (answer_body(b"<html>gateway</html>", "text/html", 502), BackendFailed, r"failed \(502\)"),
    (answer_json({"error": {"message": "too long"}}, 400), BackendFailed, r"failed \(400\).*too long"),
]


@pytest.mark.parametrize(("answer", "kind", "words"), FAULTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_the_server_refuses_is_told_with_its_name_and_status_and_without_the_key(
    server: ScriptedServer,
    connect: Callable[..., OpenaiModel],
    answer: Answer,
    kind: type[ServiceError],
    words: str,
    streamed: bool,
) -> None:
    model = model_that_gets(server, connect, answer)
    with pytest.raises(kind, match=f"{re.escape(server.url)} .*{words}") as failed:
        list(model.stream(QUESTION, SAMPLING, never)) if streamed else model.choose(QUESTION, LABELS, never)
    assert KEY not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize(
    ("headers", "wait_s"), [({"Retry_After": "7"}, 7.0), ({}, 1.0), ({"Retry_After": "soon"}, 1.0)]
)
def test_a_full_server_says_when_to_come_back(
    server: ScriptedServer, connect: Callable[..., OpenaiModel], headers: dict[str, str], wait_s: float
) -> None:
    model = model_that_gets(server, connect, answer_json({"error": {"message": "busy"}}, 429, **headers))
    with pytest.raises(Overloaded, match=r"is full \(429\).*busy") as full:
        model.choose(QUESTION, LABELS, never)
    assert full.value.retry_after_s == wait_s
    assert len(server.asked) == 2, "it is not asked again behind the caller's back"


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"null", b'"sad"', b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": 7}', b"not json", b""],
)
def test_garbage_is_no_answer(server: ScriptedServer, connect: Callable[..., OpenaiModel], body: bytes) -> None:
    model = model_that_gets(server, connect, answer_body(body))
    with pytest.raises(BackendFailed, match=f"{re.escape(server.url)} answered with no chat completion"):
        model.choose(QUESTION, LABELS, never)


def test_a_page_is_no_answer(server: ScriptedServer, connect: Callable[..., OpenaiModel]) -> None:
    model = model_that_gets(server, connect, answer_body(b"<html>hello</html>", "text/html"))
    with pytest.raises(BackendFailed, match="answered with no chat completion"):
        model.choose(QUESTION, LABELS, never)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answer_stream([chunk("Oh"), chunk(" no")]), "cut the answer short"),
        (answer_stream([]), "cut the answer short"),
        (answer_stream([chunk("Oh"), "{broken"]), "answered with no chat completion"),
        (answer_stream([chunk("Oh"), {"choices": [{"index": 0}]}]), "answered with no chat completion"),
        (answer_stream([chunk("Oh"), {"error": {"message": "out of memory"}}]), "failed: .*out of memory"),
        (answer_body(b'data: {"choi', "text/event-stream", Content_Length="999"), "the connection to .* broke"),
        (answer_body(b"<html>hello</html>", "text/html"), "cut the answer short"),
    ],
)
def test_a_reply_that_breaks_off_is_a_failure_not_a_reply(
    server: ScriptedServer, connect: Callable[..., OpenaiModel], answer: Answer, words: str
) -> None:
    model = model_that_gets(server, connect, answer)
    with pytest.raises(BackendFailed, match=words):
        list(model.stream(QUESTION, SAMPLING, never))


def test_a_server_that_says_nothing_is_given_up_after_the_timeout(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    model = model_that_gets(server, connect, wait_for_ever, timeout_s=0.2)
    with pytest.raises(BackendFailed, match=f"{re.escape(server.url)} did not answer in time"):
        model.choose(QUESTION, LABELS, never)
    assert server.left.wait(10)


def test_a_server_that_is_gone_cannot_be_reached(connect: Callable[..., OpenaiModel]) -> None:
    with scripted_server("some-model") as running:
        running.answer = answer_json(completion("sad"))
        model = connect(running.url)
    with pytest.raises(NotReady, match=f"{re.escape(running.url)} cannot be reached"):
        model.choose(QUESTION, LABELS, never)
    with pytest.raises(NotReady, match=f"{re.escape(running.url)} cannot be reached"):
        connect(running.url)


@pytest.mark.parametrize("body", [{"data": []}, {"data": [{"id": "some-other"}]}])
def test_a_server_that_lists_other_models_is_not_ready(
    server: ScriptedServer, connect: Callable[..., OpenaiModel], body: object
) -> None:
    server.listing = answer_json(body)
    with pytest.raises(NotReady, match=r"has no model 'some-model'; it has: (none|some-other)"):
        connect(server.url)


@pytest.mark.parametrize("answer", [answer_json({}), answer_json([]), answer_body(b"<html></html>", "text/html")])
def test_a_server_that_lists_nothing_is_no_openai_server(
    server: ScriptedServer, connect: Callable[..., OpenaiModel], answer: Answer
) -> None:
    server.listing = answer
    with pytest.raises(BackendFailed, match=r"is no OpenAI-compatible server"):
        connect(server.url)


# Nobody waits any more.


def after(count: int) -> Callable[[], bool]:
    """Returns what says yes from the `count`th time on that it is asked."""
    times = itertools.count(1)
    return lambda: next(times) >= count


def test_a_stop_leaves_a_server_that_has_not_answered_yet(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    model = model_that_gets(server, connect, wait_for_ever)
    assert model.choose(QUESTION, LABELS, after(2)).text == ""
    assert server.left.wait(10)
    server.left.clear()
    assert list(model.stream(QUESTION, SAMPLING, after(2))) == []
    assert server.left.wait(10)


def test_a_stop_between_two_words_ends_the_reply_and_the_connection(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    model = model_that_gets(server, connect, answer_stream([chunk("Oh")], wait_for_ever))
    stop = threading.Event()
    pieces = model.stream(QUESTION, SAMPLING, stop.is_set)
    assert next(pieces) == "Oh"
    stop.set()
    assert list(pieces) == []
    assert server.left.wait(10)


def test_closing_the_reply_closes_the_connection(server: ScriptedServer, connect: Callable[..., OpenaiModel]) -> None:
    model = model_that_gets(server, connect, answer_stream([chunk("Oh")], wait_for_ever))
    pieces = model.stream(QUESTION, SAMPLING, never)
    assert next(pieces) == "Oh"
    pieces.close()  # type: ignore[attr-defined]  # the port says Iterator; this is a generator
    assert server.left.wait(10)


# Settings.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"perceives": ["audio"]}, "lacks text"),
        ({"base_url": "http://me:secret@host/v1"}, "user name or a password"),
        ({"base_url": "host:8000"}, "base_url"),
        ({"model": ""}, "model"),
        ({"guided": "please"}, "structured_outputs"),
        ({"api_key": "one", "api_key_file": "two"}, "both set"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Settings.model_validate({"base_url": "http://host/v1", "model": "any"} | changes)


# Likelihoods out of alternatives.


def token(text: str, **others: float) -> Token:
    return Token(text, {name.replace("_", " "): np.log(chance) for name, chance in others.items()})


def told(tokens: list[Token], labels: tuple[str, ...], *, guided: bool, start: int = 0) -> dict[str, float]:
    found = label_log_likelihoods(tokens, labels, start, guided)
    return {label: round(float(np.exp(value)), 6) for label, value in found.items()}


def test_the_first_token_tells_labels_that_begin_alone() -> None:
    tokens = [token("sad", sad=0.4, happy=0.08, ang=0.02, An=0.4, the=0.05), token("", **{"": 1.0})]
    # The server told them before it ruled "An" and "the" out.
    assert told(tokens, ("sad", "happy", "angry"), guided=True) == {"sad": 0.8, "happy": 0.16, "angry": 0.04}


def test_labels_that_share_the_written_token_are_told_apart_at_the_next() -> None:
    tokens = [token("dis", dis=0.4, sad=0.6), token("app", app=0.6, gust=0.2, may=0.2), token("ointed", ointed=1.0)]
    assert told(tokens, ("disappointed", "disgusted", "sad"), guided=True) == {
        "disappointed": 0.3,
        "disgusted": 0.1,
        "sad": 0.6,
    }


def test_labels_that_share_a_token_that_was_not_written_are_left_out() -> None:
    tokens = [token("sad", sad=0.5, dis=0.5)]
    assert told(tokens, ("disappointed", "disgusted", "sad"), guided=True) == {"sad": 0.5}


def test_a_label_that_begins_another_ends_where_the_answer_ends() -> None:
    labels = ("sad", "saddened")
    assert told([token("sad", sad=0.5)], labels, guided=True) == {"sad": 1.0}
    ended = [token("sad", sad=0.5), token("", **{"": 0.8, "dened": 0.2})]
    assert told(ended, labels, guided=True) == {"sad": 0.8, "saddened": 0.2}


def test_free_text_tells_whole_labels_only_in_any_case_and_spacing() -> None:
    tokens = [token("Sad", Sad=0.3, _sad=0.2, happ=0.2, angry=0.1), token(".", **{".": 1.0})]
    assert told(tokens, ("sad", "happy", "angry"), guided=False) == {"sad": 0.5, "angry": 0.1}


def test_free_text_tells_the_label_that_was_written_in_several_tokens() -> None:
    tokens = [token("dis", dis=0.5, sad=0.1), token("gusted", gusted=0.4, like=0.5), token(".", **{".": 1.0})]
    assert told(tokens, ("disgusted", "sad"), guided=False) == {"disgusted": 0.2, "sad": 0.1}


def test_free_text_that_begins_with_something_else_tells_nothing() -> None:
    tokens = [token("I", I=0.9), token(" feel", _feel=0.9), token(" sad", _sad=0.9)]
    assert told(tokens, ("sad",), guided=False) == {}


def test_an_answer_in_an_object_is_read_where_its_value_begins() -> None:
    tokens = [
        token('{"emotion": "', **{'{"emotion": "': 0.9}),
        token("sad", sad=0.6, happy=0.4),
        token('"}', **{'"}': 1.0}),
    ]
    assert told(tokens, ("sad", "happy"), guided=True, start=13) == {"sad": 0.6, "happy": 0.4}
    glued = [token('{"emotion":', **{'{"emotion":': 0.9}), token('"sad', **{'"sad': 0.6, '"happy': 0.2, "sad": 0.1})]
    assert told(glued, ("sad", "happy"), guided=True, start=12) == {"sad": 0.75, "happy": 0.25}


@pytest.mark.parametrize("start", [0, 3, 50])
def test_no_tokens_tell_nothing(start: int) -> None:
    assert told([], ("sad",), guided=True, start=start) == {}


def test_the_scripted_servers_tokens_become_likelihoods(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    alternatives = [{"token": "sad", "logprob": -0.5, "bytes": None}, {"token": "ang", "logprob": -1.5, "bytes": None}]
    tokens = [{"token": "sad", "logprob": -0.5, "bytes": None, "top_logprobs": alternatives}]
    proof = [{"token": "walnut", "logprob": 0.0, "bytes": None, "top_logprobs": []}]
    server.answer = answer_json(completion("walnut", proof))
    model = connect(server.url, guided="structured_outputs")
    server.answer = answer_json(completion("sad", tokens))
    choice = model.choose(QUESTION, LABELS, never)
    inside = float(np.logaddexp(-0.5, -1.5))
    assert json.loads(json.dumps(choice.log_likelihoods)) == pytest.approx(
        {"sad": -0.5 - inside, "angry": -1.5 - inside}
    )
