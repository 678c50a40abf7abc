"""A chat model behind Triton Inference Server, spoken to as Triton's own vLLM back-end wants it.

Checked against that back-end's source of January 2026: one request per stream with `text_input`, `image` (base64),
`stream`, `sampling_parameters` (JSON), `exclude_input_in_output` and `return_logprobs`; `text_output` comes in pieces,
and Triton marks the last. The server takes a finished prompt, so the chat template is applied here.
"""

import base64
import codecs
import hashlib
import json
import math
import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tritonclient.grpc as triton
from pydantic import Field

from services.common.errors import BackendFailed
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.limits import Limits
from services.mllm.chat.model import Choice, Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.domain import Modality
from services.mllm.remote.alternatives import Token, label_log_likelihoods
from services.mllm.remote.guides import PROOF, PROOF_CHOICES
from services.mllm.remote.messages import jpeg_of
from services.mllm.remote.prompts import PromptFormat
from services.mllm.remote.triton_server import TritonServer, is_last

INPUTS = frozenset({"text_input", "stream", "sampling_parameters", "exclude_input_in_output"})
"""What every request holds."""


class Settings(ChatSettings):
    """Settings of a model behind Triton Inference Server."""

    server: str = Field(min_length=1)
    """Address of the server's gRPC port ("triton:8001")."""
    model: str = Field(min_length=1)
    """The model's name in the server's repository."""
    model_version: str = ""
    """The model's version; empty takes the one that the server prefers."""
    chat_template: str = Field(min_length=1)
    """How the model reads a chat: the name of a file of `services/mllm/chat/templates` ("chatml"), or a folder with
    the model's own tokenizer_config.json or chat_template.jinja."""
    guided: Literal["structured_outputs", "guided_decoding", "none"] = "structured_outputs"
    """The sampling parameter that holds an answer to a set: structured_outputs from Triton 25.11 on, guided_decoding
    from 25.01 to 25.10; none lets the model write freely."""
    logprobs: int = Field(default=20, ge=0, le=100)
    """Alternatives of a token that are asked for where the server tells them. vLLM refuses more than its own limit, 20
    unless it is started otherwise; 0 asks for none."""
    timeout_s: float = Field(default=30, gt=0)
    """Longest wait for the server's next word."""
    frames_max: int = Field(default=0, ge=0, le=64)
    """Frames of the user's video that are sent, evenly spread; 0 for a model that only reads. vLLM must be started with
    `limit_mm_per_prompt` in its model.json to take as many."""
    frame_side_px_max: int = Field(default=512, ge=32)
    """Longer side of a frame that is sent."""


@dataclass(frozen=True)
class Piece:
    """A part of an answer, and its tokens where the server tells them."""

    text: str
    tokens: tuple[Token, ...]


class TritonModel:
    """One model of a Triton server.

    `digest` is the SHA-256 over the server's version, the model's versions and configuration there, and the chat
    template. It says which model was asked, not which weights answered: Triton does not tell.

    Raises:
        NotReady: The server cannot be reached, is not live or not ready, or the model is not; the message says which.
        FailedPrecondition: The model does not take what this back-end sends.
        BackendFailed: It takes no notice of `guided`.
        ValueError: The chat template is none, or has no place for frames that are to be sent.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._format = PromptFormat.load(settings.chat_template)
        if settings.frames_max and not self._format.takes_images:
            raise ValueError(
                f"frames_max: {settings.frames_max}, but {self._format.name} has no place for images; set 0"
            )
        self.name = settings.model
        self.perceives = frozenset({Modality.TEXT, *([Modality.VIDEO] if settings.frames_max else [])})
        if settings.frames_max:
            self.limits = Limits(math.inf, settings.frames_max)
        self._server = TritonServer(settings.server, settings.model, settings.model_version, settings.timeout_s)
        try:
            described, told = self._server.described()
            self._server.check_takes(described, INPUTS | ({"image"} if settings.frames_max else set()), "text_output")
            self._tells = settings.logprobs > 0 and "return_logprobs" in {one.name for one in described.inputs}
            self.digest = hashlib.sha256(json.dumps([*told, self._format.jinja], sort_keys=True).encode()).hexdigest()
            if settings.guided != "none" and not self.choose(PROOF, PROOF_CHOICES, lambda: False).guided:
                place = self._server.place
                raise BackendFailed(f"{place}: it takes no notice of {settings.guided}; set guided otherwise")
        except BaseException:
            self.close()
            raise

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer piece by piece. Closing the iterator, or `stopped`, cancels the request on the server.

        Raises:
            NotReady: The server or the model has gone, or the answer was cut short.
            DeadlineExceeded: The server was silent for longer than `timeout_s`.
            BackendFailed: The model failed, or what came is no text.
        """
        parameters = {
            "max_tokens": sampling.tokens_max,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
        }
        with closing(self._pieces(self._request(turns, parameters), stopped)) as pieces:
            for piece in pieces:
                if piece.text:
                    yield piece.text

    def choose(self, turns: Sequence[Turn], choices: Sequence[str], stopped: Callable[[], bool]) -> Choice:
        """Returns the model's answer at temperature 0, and how likely it was where the server tells.

        Raises:
            NotReady, DeadlineExceeded, BackendFailed: As above.
        """
        guide = self._settings.guided
        parameters: dict[str, Any] = {"max_tokens": self._settings.answer_tokens_max, "temperature": 0.0, "seed": 0}
        if guide != "none":
            # JSON within JSON: the server's back-end reads this one parameter once more.
            parameters[guide] = json.dumps({"choice": list(choices)})
        if self._tells:
            parameters["logprobs"] = self._settings.logprobs
        request = self._request(turns, parameters)
        if self._tells:
            request.append(_input("return_logprobs", "BOOL", [True]))
        pieces = list(self._pieces(request, stopped))
        written = "".join(piece.text for piece in pieces)
        text, start = written.strip(), len(written) - len(written.lstrip())
        is_guided = guide != "none" and text in choices
        tokens = [token for piece in pieces for token in piece.tokens]
        told = label_log_likelihoods(tokens, choices, start, is_guided)
        return Choice(text, is_guided, told)

    def close(self) -> None:
        """Closes the connection to the server."""
        self._server.close()

    def _request(self, turns: Sequence[Turn], parameters: dict[str, Any]) -> list[triton.InferInput]:
        side_px_max = self._settings.frame_side_px_max
        images = [base64.b64encode(jpeg_of(frame, side_px_max)) for frame in turns[-1].frames]
        request = [
            _input("text_input", "BYTES", [self._format.prompt(turns, len(images)).encode()]),
            _input("stream", "BOOL", [True]),
            _input("exclude_input_in_output", "BOOL", [True]),
            _input("sampling_parameters", "BYTES", [json.dumps(parameters).encode()]),
        ]
        return [*request, _input("image", "BYTES", images)] if images else request

    def _pieces(self, request: Sequence[triton.InferInput], stopped: Callable[[], bool]) -> Generator[Piece]:
        # A piece may end within a character.
        decoder = codecs.getincrementaldecoder("utf-8")()
        with closing(self._server.results(request, stopped)) as results:
            for result in results:
                try:
                    text = decoder.decode(b"".join(_values(result, "text_output")), final=is_last(result))
                    tokens = tuple(token for value in _values(result, "logprobs") for token in _tokens(value))
                except (ValueError, TypeError, LookupError, AttributeError, struct.error) as error:
                    raise BackendFailed(f"{self._server.place}: its answer cannot be read: {error}") from error
                yield Piece(text, tokens)


def _input(name: str, datatype: str, values: Sequence[Any]) -> triton.InferInput:
    one = triton.InferInput(name, [len(values)], datatype)
    one.set_data_from_numpy(np.array(values, np.object_ if datatype == "BYTES" else np.bool_))
    return one


def _values(result: triton.InferResult, name: str) -> list[bytes]:
    found = result.as_numpy(name)
    return [] if found is None else list(found.flat)


def _tokens(value: bytes) -> list[Token]:
    """Reads JSON: null, or by token an object of the tokens that could stand there; the first is the one that does."""
    tokens = []
    for could_stand in json.loads(value) or []:
        alternatives = [(str(one["decoded_token"] or ""), float(one["logprob"])) for one in could_stand.values()]
        tokens.append(Token(alternatives[0][0], dict(alternatives)))
    return tokens


def create() -> ChatBackend:
    """Reaches the server, proves that the model is ready and heeds `guided`, and asks it once for everything."""
    settings = Settings()  # type: ignore[call-arg]  # they come from the environment
    backend = ChatBackend(TritonModel(settings), settings)
    backend.warm_up()
    return backend
