"""A chat model behind Triton Inference Server, spoken to as Triton's own vLLM back-end wants it.

Checked against that back-end's source of January 2026: one request per stream with `text_input`, `image` (base64),
`stream`, `sampling_parameters` (JSON), `exclude_input_in_output` and `return_logprobs`; `text_output` comes in pieces,
and Triton marks the last. The server takes a finished prompt, so the chat template is applied here.
"""

import base64
import codecs
import hashlib
import json
import queue
import struct
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tritonclient.grpc as triton
from pydantic import Field
from tritonclient.utils import InferenceServerException

from services.common.errors import BackendFailed, DeadlineExceeded, FailedPrecondition, NotReady, ServiceError
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.model import Choice, Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.domain import Modality
from services.mllm.remote.alternatives import Token, label_log_likelihoods
from services.mllm.remote.messages import jpeg_of, thinned
from services.mllm.remote.prompts import PromptFormat

CHECK_TIMEOUT_S = 5.0
"""How long the server may take to say whether it is ready."""
POLL_S = 0.05
"""How soon a silent server is left when nobody waits for its answer any more."""
ANSWER_TOKENS_MAX = 64
"""Room for a label in a sentence; a guided answer ends by itself."""
INPUTS = frozenset({"text_input", "stream", "sampling_parameters", "exclude_input_in_output"})
"""What every request holds."""
UNREACHABLE = frozenset(f"StatusCode.{name}" for name in ("UNAVAILABLE", "NOT_FOUND", "CANCELLED", "DEADLINE_EXCEEDED"))
"""Statuses of a call that may do better later: the server is away, loads, drains, or has not loaded the model."""
CHANNEL = [
    # A server that comes back is found again within two seconds, not after gRPC's default of up to 120 s.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
PROOF = (Turn("user", "How much is two and two?"),)
PROOF_CHOICES = ("walnut", "umbrella")
"""Nobody answers that with one of these by chance."""


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
        self._place = f"{settings.server}, model {settings.model!r}"
        self._client = triton.InferenceServerClient(settings.server, channel_args=CHANNEL)
        self.name = settings.model
        self.perceives = frozenset({Modality.TEXT, *([Modality.VIDEO] if settings.frames_max else [])})
        try:
            self._check_ready()
            described = self._client.get_model_metadata(
                settings.model, settings.model_version, client_timeout=CHECK_TIMEOUT_S
            )
            self._check_inputs(described)
            self._tells = settings.logprobs > 0 and "return_logprobs" in {one.name for one in described.inputs}
            self.digest = self._identity(described)
            if settings.guided != "none" and not self.choose(PROOF, PROOF_CHOICES, lambda: False).guided:
                raise BackendFailed(f"{self._place}: it takes no notice of {settings.guided}; set guided otherwise")
        except InferenceServerException as error:
            self.close()
            raise self._meaning(error) from error
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
        parameters: dict[str, Any] = {"max_tokens": ANSWER_TOKENS_MAX, "temperature": 0.0, "seed": 0}
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
        # Closing alone would wait for an answer that is still coming.
        self._client.stop_stream(cancel_requests=True)
        self._client.close()

    def _check_ready(self) -> None:
        """Finds out what keeps the server from answering, if anything does.

        Raises:
            NotReady, InferenceServerException: Something does.
        """
        if not self._client.is_server_live(client_timeout=CHECK_TIMEOUT_S):
            raise NotReady(f"{self._place}: the server is not live")
        if not self._client.is_server_ready(client_timeout=CHECK_TIMEOUT_S):
            raise NotReady(f"{self._place}: the server is not ready; it is loading models, or one could not be loaded")
        model, version = self._settings.model, self._settings.model_version
        if not self._client.is_model_ready(model, version, client_timeout=CHECK_TIMEOUT_S):
            # Says why, as a failure of its own, where the server does not even know the model.
            self._client.get_model_metadata(model, version, client_timeout=CHECK_TIMEOUT_S)
            raise NotReady(f"{self._place}: the server is ready, the model is not")

    def _check_inputs(self, described: Any) -> None:
        there = {one.name for one in described.inputs}, {one.name for one in described.outputs}
        needed = INPUTS | ({"image"} if self._settings.frames_max else set())
        if missing := sorted(needed - there[0]) + sorted({"text_output"} - there[1]):
            wanted = "serve it as Triton's vLLM back-end does"
            raise FailedPrecondition(f"{self._place}: it has no {', '.join(missing)}; {wanted}")

    def _identity(self, described: Any) -> str:
        model, version = self._settings.model, self._settings.model_version
        server = self._client.get_server_metadata(client_timeout=CHECK_TIMEOUT_S)
        config = self._client.get_model_config(model, version, as_json=True, client_timeout=CHECK_TIMEOUT_S)
        told = [server.name, server.version, model, version, described.platform, *described.versions, config]
        return hashlib.sha256(json.dumps([*told, self._format.jinja], sort_keys=True).encode()).hexdigest()

    def _request(self, turns: Sequence[Turn], parameters: dict[str, Any]) -> list[triton.InferInput]:
        frames = thinned(turns[-1].frames, self._settings.frames_max)
        images = [base64.b64encode(jpeg_of(frame, self._settings.frame_side_px_max)) for frame in frames]
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
        with closing(self._results(request, stopped)) as results:
            for result in results:
                try:
                    text = decoder.decode(b"".join(_values(result, "text_output")), final=_is_last(result))
                    tokens = tuple(token for value in _values(result, "logprobs") for token in _tokens(value))
                except (ValueError, TypeError, LookupError, AttributeError, struct.error) as error:
                    raise BackendFailed(f"{self._place}: its answer cannot be read: {error}") from error
                yield Piece(text, tokens)

    def _results(
        self, request: Sequence[triton.InferInput], stopped: Callable[[], bool]
    ) -> Generator[triton.InferResult]:
        """Yields what the server answers. Each request has its own stream, for only a stream can be cancelled."""
        arrived: queue.SimpleQueue[tuple[triton.InferResult, None] | tuple[None, InferenceServerException]]
        arrived = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: arrived.put((result, error)))
        stream = self._client._stream
        listener = stream._handler
        try:
            model, version = self._settings.model, self._settings.model_version
            # Without the last argument, an end that comes without words is not told.
            self._client.async_stream_infer(model, request, version, enable_empty_final_response=True)
            waits_until = time.monotonic() + self._settings.timeout_s
            while not stopped():
                # The library does not tell that a server ended the stream in peace: its thread just ends.
                is_open = listener.is_alive()
                try:
                    result, error = arrived.get(timeout=POLL_S)
                except queue.Empty:
                    if not is_open:
                        raise NotReady(f"{self._place}: the server cut the answer short") from None
                    if time.monotonic() > waits_until:
                        silent = f"silent for {self._settings.timeout_s:g} s"
                        raise DeadlineExceeded(f"{self._place}: {silent}; E3RG_MLLM_TIMEOUT_S allows more") from None
                    continue
                if error is not None:
                    raise self._meaning(error) from error
                yield result
                if _is_last(result):
                    return
                waits_until = time.monotonic() + self._settings.timeout_s
        finally:
            self._client.stop_stream(cancel_requests=True)
            # The library leaves the thread that feeds a cancelled stream waiting for its next request for ever.
            stream._request_queue.put(None)

    def _meaning(self, error: InferenceServerException) -> ServiceError:
        """Returns what a failed call means for the caller."""
        said = f"{self._place}: {error.message()}"
        if error.status() in UNREACHABLE:
            return NotReady(said)
        if error.status() is None:
            # Failures within a stream have no status. Whether the model is still there, the server tells now.
            try:
                self._check_ready()
            except (NotReady, InferenceServerException) as reason:
                return NotReady(f"{said} ({reason})")
        return BackendFailed(said)


def _input(name: str, datatype: str, values: Sequence[Any]) -> triton.InferInput:
    one = triton.InferInput(name, [len(values)], datatype)
    one.set_data_from_numpy(np.array(values, np.object_ if datatype == "BYTES" else np.bool_))
    return one


def _values(result: triton.InferResult, name: str) -> list[bytes]:
    found = result.as_numpy(name)
    return [] if found is None else list(found.flat)


def _is_last(result: triton.InferResult) -> bool:
    return bool(result.get_response().parameters["triton_final_response"].bool_param)


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
