"""The Triton back-end over a real channel, against a server that speaks Triton's protocol and can be told to fail."""

import base64
import io
import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image

from services.common.errors import BackendFailed, DeadlineExceeded, FailedPrecondition, NotReady, ServiceError
from services.mllm.backends.triton import Settings, TritonModel
from services.mllm.chat.limits import Limited, Limits
from services.mllm.chat.model import Sampling, Turn
from services.mllm.domain import Frame, Modality
from tests.fakes import PATIENCE_S
from tests.ports import HeldPort
from tests.stops import never
from tests.triton_server import INPUTS, Speaking, Triton, failed, listening, said

CHAT = (Turn("user", "Hi"),)
SAMPLING = Sampling(tokens_max=40, temperature=0.7, top_p=0.9, seed=3)


@pytest.fixture
def triton() -> Triton:
    return Triton()


@pytest.fixture
def server(triton: Triton) -> Iterator[tuple[grpc.Server, int]]:
    with listening(triton) as found:
        yield found


@pytest.fixture
def connect(server: tuple[grpc.Server, int]) -> Iterator[Callable[..., TritonModel]]:
    models = []

    def connecting(**settings: Any) -> TritonModel:
        model = TritonModel(settings_of(server[1], **settings))
        models.append(model)
        return model

    yield connecting
    for model in models:
        model.close()


def settings_of(port: int, **settings: Any) -> Settings:
    return Settings(**{"server": f"127.0.0.1:{port}", "model": "m", "chat_template": "chatml"} | settings)


def answer(model: TritonModel) -> str:
    return "".join(model.stream(CHAT, SAMPLING, never))


def test_an_answer_comes_in_the_pieces_that_the_server_sends(connect: Callable[..., TritonModel]) -> None:
    assert list(connect().stream(CHAT, SAMPLING, never)) == ["Hel", "lo."]


def test_the_request_is_what_the_vllm_back_end_of_triton_takes(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    answer(connect(model_version="2"))
    (asked,) = triton.asked
    sampling = json.loads(asked.pop("sampling_parameters")[0])
    assert asked == {
        "model": ["m", "2"],
        "text_input": [b"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"],
        "stream": [True],
        "exclude_input_in_output": [True],
    }
    assert sampling == {"max_tokens": 40, "temperature": 0.7, "top_p": 0.9, "seed": 3}


def test_frames_go_as_jpeg_in_base64_with_a_mark_for_each_in_the_prompt(
    triton: Triton, connect: Callable[..., TritonModel], tmp_path: Path
) -> None:
    parts = "{% for part in said %}{{ part.text or '<image>' }}{% endfor %}"
    jinja = "{% set said = messages[0].content %}{% if said is string %}{{ said }}{% else %}" + parts + "{% endif %}"
    (tmp_path / "chat_template.jinja").write_text(jinja)
    model = connect(chat_template=str(tmp_path), frames_max=2, frame_side_px_max=32)
    frames = tuple(Frame(float(shade), np.full((48, 64, 3), shade * 100, np.uint8)) for shade in (0, 2))
    list(model.stream([Turn("user", "Look", frames=frames)], SAMPLING, never))
    (asked,) = triton.asked
    images = [Image.open(io.BytesIO(base64.b64decode(image, validate=True))) for image in asked["image"]]
    assert [(image.format, image.size, round(np.asarray(image).mean() / 100)) for image in images] == [
        ("JPEG", (32, 24), 0),
        ("JPEG", (32, 24), 2),
    ]
    assert asked["text_input"] == [b"<image><image>Look"]
    assert model.perceives == {Modality.TEXT, Modality.VIDEO}
    assert isinstance(model, Limited)
    assert model.limits == Limits(math.inf, 2)
    assert not isinstance(connect(), Limited)


def test_a_template_without_a_place_for_images_is_refused_when_frames_are_to_be_sent(
    connect: Callable[..., TritonModel],
) -> None:
    with pytest.raises(ValueError, match="frames_max: 4, but chatml has no place for images"):
        connect(frames_max=4)


@pytest.mark.parametrize("guided", ["structured_outputs", "guided_decoding"])
def test_a_choice_is_guided_and_told_with_the_likelihoods_of_its_alternatives(
    triton: Triton, connect: Callable[..., TritonModel], guided: str
) -> None:
    told = [{"7": {"logprob": -0.5, "decoded_token": "sad"}, "8": {"logprob": -1.5, "decoded_token": "hap"}}]
    triton.speak = lambda asked, context: iter([said(b"sad", logprobs=told), said(b"", is_last=True)])
    choice = connect(guided=guided, answer_tokens_max=9).choose(CHAT, ["happy", "sad"], never)
    assert (choice.text, choice.guided) == ("sad", True)
    # What was likely besides the set could not come.
    shares = {name: math.exp(value) for name, value in choice.log_likelihoods.items()}
    assert shares == pytest.approx({"sad": 1 / (1 + math.exp(-1)), "happy": 1 / (1 + math.exp(1))})
    (asked,) = triton.asked
    sampling = json.loads(asked["sampling_parameters"][0])
    assert (sampling["temperature"], sampling["max_tokens"]) == (0, 9)
    assert (sampling["logprobs"], asked["return_logprobs"]) == (20, [True])
    assert json.loads(sampling[guided]) == {"choice": ["happy", "sad"]}


def test_likelihoods_are_not_asked_for_where_the_model_does_not_tell_them(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    triton.inputs = INPUTS[:-1]
    triton.speak = lambda asked, context: iter([said(b"sad", is_last=True)])
    assert connect().choose(CHAT, ["happy", "sad"], never).log_likelihoods == {}
    (asked,) = triton.asked
    assert "return_logprobs" not in asked
    assert "logprobs" not in json.loads(asked["sampling_parameters"][0])


def test_without_guidance_a_choice_is_what_the_model_wrote(triton: Triton, connect: Callable[..., TritonModel]) -> None:
    triton.heeds = False
    triton.speak = lambda asked, context: iter([said(b" sad\n"), said(is_last=True)])
    choice = connect(guided="none").choose(CHAT, ["happy", "sad"], never)
    assert (choice.text, choice.guided) == ("sad", False)


def test_a_server_that_takes_no_notice_of_the_guidance_is_found_out_at_the_start(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    triton.heeds = False
    with pytest.raises(BackendFailed, match="model 'm': it takes no notice of structured_outputs"):
        connect()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("is_live", "the server is not live"),
        ("is_ready", "the server is not ready"),
        ("is_model_ready", "the server is ready, the model is not"),
        ("knows_model", "unknown model: 'm' is not found"),
    ],
)
def test_what_is_not_ready_is_named_at_the_start_and_when_it_fails_later(
    triton: Triton, connect: Callable[..., TritonModel], server: tuple[grpc.Server, int], what: str, reason: str
) -> None:
    model = connect()
    setattr(triton, what, False)
    triton.speak = lambda asked, context: iter([failed("it is gone")])
    place = f"127.0.0.1:{server[1]}, model 'm': "
    with pytest.raises(NotReady, match=f"{place}.*{reason}"):
        connect()
    with pytest.raises(NotReady, match=f"{place}it is gone .*{reason}"):
        answer(model)


def test_a_server_that_is_not_there_is_named() -> None:
    with HeldPort() as port, pytest.raises(NotReady, match=f"127.0.0.1:{port.number}, model 'm': .*"):
        TritonModel(settings_of(port.number))


def test_a_model_of_another_convention_is_refused_with_what_it_lacks(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    triton.inputs = ("text_input", "max_tokens", "stream")
    with pytest.raises(FailedPrecondition, match="has no exclude_input_in_output, sampling_parameters; serve it as"):
        connect()


def stop_after_words(status: grpc.StatusCode) -> Speaking:
    def speaking(asked: object, context: grpc.ServicerContext) -> Iterator[Any]:
        yield said(b"Well")
        context.abort(status, "it broke")

    return speaking


@pytest.mark.parametrize(
    ("speak", "kind", "reason"),
    [
        (lambda *_: iter([said(b"a"), failed("CUDA out of memory")]), BackendFailed, "CUDA out of memory"),
        (stop_after_words(grpc.StatusCode.INTERNAL), BackendFailed, "it broke"),
        (stop_after_words(grpc.StatusCode.UNAVAILABLE), NotReady, "it broke"),
        (stop_after_words(grpc.StatusCode.CANCELLED), NotReady, "it broke"),
        (stop_after_words(grpc.StatusCode.DEADLINE_EXCEEDED), NotReady, "it broke"),
        (lambda *_: iter([said(b"a")]), NotReady, "the server cut the answer short"),
        (lambda *_: iter([]), NotReady, "the server cut the answer short"),
        (lambda *_: iter([said(b"\xff\xfe")]), BackendFailed, "its answer cannot be read: .*utf-8"),
        (lambda *_: iter([said(b"caf\xc3", is_last=True)]), BackendFailed, "its answer cannot be read: .*utf-8"),
    ],
)
def test_a_failure_within_an_answer_names_the_server_and_what_happened(
    triton: Triton,
    connect: Callable[..., TritonModel],
    server: tuple[grpc.Server, int],
    speak: Speaking,
    kind: type[ServiceError],
    reason: str,
) -> None:
    model = connect()
    triton.speak = speak
    with pytest.raises(kind, match=f"127.0.0.1:{server[1]}, model 'm': {reason}") as kept:
        answer(model)
    # Even while somebody keeps the error, and with it all that was going on, the next answer comes.
    assert kept.value.__traceback__
    triton.speak = Triton().speak
    assert answer(model) == "Hello."


@pytest.mark.parametrize("raw", [b"\x05", b"\xff\xff\xff\x7fabc", b"\x01\x00\x00\x00a\x01\x00\x00\x00b"])
def test_an_answer_that_is_no_tensor_is_refused(
    triton: Triton, connect: Callable[..., TritonModel], raw: bytes
) -> None:
    def speaking(*_: object) -> Iterator[Any]:
        broken = said(b"a")
        broken.infer_response.raw_output_contents[0] = raw
        yield broken

    model = connect()
    triton.speak = speaking
    with pytest.raises(BackendFailed, match="its answer cannot be read"):
        answer(model)


@pytest.mark.parametrize("told", ["x", [1], [{"7": {"logprob": "no"}}], [{}]])
def test_likelihoods_that_are_none_are_refused(
    triton: Triton, connect: Callable[..., TritonModel], told: object
) -> None:
    model = connect()
    triton.speak = lambda *_: iter([said(b"sad", logprobs=told, is_last=True)])
    with pytest.raises(BackendFailed, match="its answer cannot be read"):
        model.choose(CHAT, ["happy", "sad"], never)


def test_a_character_that_two_pieces_share_comes_whole(triton: Triton, connect: Callable[..., TritonModel]) -> None:
    triton.speak = lambda *_: iter([said(b"caf\xc3"), said(b"\xa9"), said(is_last=True)])
    assert list(connect().stream(CHAT, SAMPLING, never)) == ["caf", "\u00e9"]


def test_a_server_that_falls_silent_is_left_after_the_longest_wait(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    model = connect(timeout_s=0.2)
    triton.speak = triton.hang
    with pytest.raises(DeadlineExceeded, match=r"silent for 0\.2 s; E3RG_MLLM_TIMEOUT_S allows more"):
        answer(model)
    assert triton.left.wait(PATIENCE_S)


def test_the_time_that_a_reader_takes_is_not_the_servers_silence(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    model, polls, awaited = connect(timeout_s=1), itertools.count(), threading.Event()

    def speaking(*_: object) -> Iterator[Any]:
        yield said(b"Well")
        assert awaited.wait(PATIENCE_S)
        yield said(b", no.", is_last=True)

    def stopped() -> bool:
        if next(polls) == 3:
            awaited.set()
        return False

    triton.speak = speaking
    pieces = model.stream(CHAT, SAMPLING, stopped)
    assert next(pieces) == "Well"
    polls = itertools.count()
    threading.Event().wait(1.1)
    assert list(pieces) == [", no."]


def test_a_silent_server_is_left_when_nobody_waits_any_more(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    model, stopped = connect(), threading.Event()
    triton.speak = triton.hang
    pieces = model.stream(CHAT, SAMPLING, stopped.is_set)
    assert next(pieces) == "Well"
    stopped.set()
    assert list(pieces) == []
    assert triton.left.wait(PATIENCE_S)


def test_closing_the_iterator_cancels_the_request_and_leaves_no_thread(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    model = connect()
    triton.speak = triton.hang
    before = set(threading.enumerate())
    for _ in range(3):
        triton.left.clear()
        pieces = model.stream(CHAT, SAMPLING, never)
        assert next(pieces) == "Well"
        pieces.close()  # type: ignore[attr-defined]  # it is a generator
        assert triton.left.wait(PATIENCE_S)
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith("ThreadPoolExecutor"):  # the test's own server
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_closing_the_model_does_not_wait_for_an_answer(triton: Triton, connect: Callable[..., TritonModel]) -> None:
    model = connect()
    triton.speak = triton.hang
    pieces = model.stream(CHAT, SAMPLING, never)
    assert next(pieces) == "Well"
    model.close()
    assert triton.left.wait(PATIENCE_S)
    with pytest.raises(NotReady):
        next(pieces)


def test_a_server_that_dies_within_an_answer_is_found_again_when_it_is_back() -> None:
    triton = Triton()
    with HeldPort() as port:
        with listening(triton, port.number) as (server, _):
            model = TritonModel(settings_of(port.number))
            triton.speak = triton.hang
            pieces = model.stream(CHAT, SAMPLING, never)
            assert next(pieces) == "Well"
            server.stop(0)
            with pytest.raises(NotReady, match=f"127.0.0.1:{port.number}, model 'm': "):
                next(pieces)
        with listening(Triton(), port.number):
            found = ""
            for _ in range(1000):
                try:
                    found = answer(model)
                    break
                except NotReady:  # until the connection is tried again
                    threading.Event().wait(0.01)
            assert found == "Hello."
        model.close()


def test_the_digest_tells_models_templates_and_versions_apart(
    triton: Triton, connect: Callable[..., TritonModel]
) -> None:
    digests = [connect().digest, connect(chat_template="gemma").digest, connect(model_version="1").digest]
    triton.parameters = {"model": "org/model-8b"}
    digests.append(connect().digest)
    assert len(set(digests)) == len(digests)
    assert connect().digest == digests[-1]
