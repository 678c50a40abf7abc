"""What a model behind an OpenAI-compatible server is asked, and what is read of its answers."""

import base64
import io
import json
import math
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from services.mllm.backends.openai import OpenaiModel, Settings
from services.mllm.chat.limits import Limited, Limits
from services.mllm.chat.model import Sampling, Turn
from services.mllm.domain import Frame
from services.mllm.remote.guides import Guide
from tests.scripted_server import KEY, ScriptedServer, answer_json, answer_stream, chunk, completion
from tests.stops import never

LABELS = ("happy", "sad", "angry", "disappointed", "disgusted", "neutral")
QUESTION = (Turn("system", "Name the feeling in one word."), Turn("user", "My dog died and I cry all day."))


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
    model = connect(server.url, perceives=["text", "audio", "video"], frame_side_px_max=64)
    audio = np.sin(np.arange(8000) / 20).astype(np.float32)
    frames = tuple(Frame(second / 5, np.full((96, 128, 3), 40 * second, np.uint8)) for second in (0, 2, 5))
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
    assert greys == pytest.approx([0, 80, 200], abs=4)
    sound = user["content"][3]["input_audio"]
    assert sound["format"] == "wav"
    with wave.open(io.BytesIO(base64.b64decode(sound["data"]))) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (16_000, 1, 2)
        heard = np.frombuffer(reader.readframes(reader.getnframes()), "<i2") / 32767
    assert np.abs(heard - audio).max() < 1e-4


def test_a_model_that_sees_says_how_many_frames_it_takes(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    model = connect(server.url, perceives=["text", "video"], frames_max=3)
    assert isinstance(model, Limited)
    assert model.limits == Limits(math.inf, 3)
    assert not isinstance(connect(server.url), Limited)


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


def test_a_mark_that_a_server_leaves_in_a_token_is_a_space(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    written = [("\u2581s", -0.5, "\u0120hap"), ("ad", 0.0, "ad")]
    tokens = [
        {"token": text, "logprob": value, "top_logprobs": [{"token": other, "logprob": -1.0}]}
        for text, value, other in written
    ]
    model = connect(server.url)
    server.answer = answer_json(completion(" sad", tokens))
    assert model.choose(QUESTION, ("sad", "angry"), never).log_likelihoods == pytest.approx({"sad": -0.5})


def test_the_digest_tells_apart_what_the_server_tells_of_the_model(
    server: ScriptedServer, connect: Callable[..., OpenaiModel]
) -> None:
    digests = [connect(server.url).digest, connect(server.url, "another-model").digest]
    for root, created in (("/weights/a", 1), ("/weights/b", 1), ("/weights/b", 2)):
        server.listing = answer_json({"data": [{"id": "some-model", "root": root, "created": created}]})
        digests.append(connect(server.url).digest)
    assert len(set(digests[:4])) == 4
    assert digests[3] == digests[4], "the time of its start changes nothing"


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
