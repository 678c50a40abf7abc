"""A server that refuses, breaks off, answers garbage or nothing, and answers that nobody waits for any more."""

import re
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from services.common.errors import BackendFailed, DeadlineExceeded, NotReady, Overloaded, ServiceError
from services.mllm.backends.openai import OpenaiModel
from services.mllm.chat.model import Sampling, Turn
from tests.scripted_server import (
    KEY,
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
from tests.stops import after, never

LABELS = ("happy", "sad")
QUESTION = (Turn("user", "My dog died and I cry all day."),)
SAMPLING = Sampling(tokens_max=24, temperature=0.7, top_p=0.9, seed=3)


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
    words = f"{re.escape(server.url)} did not answer in time; E3RG_MLLM_TIMEOUT_S allows more"
    with pytest.raises(DeadlineExceeded, match=words):
        model.choose(QUESTION, LABELS, never)
    assert server.left.wait(10)


def test_a_server_that_is_too_slow_at_the_start_is_not_taken_for_one_that_tells_no_alternatives(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    server.answer = wait_for_ever
    with pytest.raises(DeadlineExceeded, match="did not answer in time"):
        connect(server.url, timeout_s=0.2)
    assert len(server.asked) == 1


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
