"""Any model behind a server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, or OpenAI itself.

The server holds the weights and knows the model's own format; what the model perceives and how its answers are held to
a set differ from server to server, and no server tells, so the settings say. Both are proved at the start.
"""

import hashlib
import json
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import openai
from pydantic import Field, HttpUrl, SecretStr, field_validator, model_validator

from services.common.errors import BackendFailed, NotReady, ServiceError
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.limits import Limits
from services.mllm.chat.model import Choice, Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.domain import Modality
from services.mllm.remote.alternatives import label_log_likelihoods
from services.mllm.remote.completions import piece_of, text_of
from services.mllm.remote.failures import failure_of
from services.mllm.remote.guides import PROOF, PROOF_CHOICES, Guide, answer_of, request_of, start_of
from services.mllm.remote.loop import BackgroundLoop, Stopped
from services.mllm.remote.messages import messages_of

Result = TypeVar("Result")

log = logging.getLogger(__name__)

ALTERNATIVES = 20
"""Alternatives of a token that are asked for: what OpenAI, vLLM and SGLang give at most unless told otherwise."""
TOLD = ("owned_by", "root", "parent", "max_model_len", "meta")
"""What a server may tell of a model that stays the same from one start to the next."""


class Settings(ChatSettings):
    """Settings of a model behind an OpenAI-compatible server."""

    base_url: HttpUrl
    """Where the server's API begins ("http://vllm:8000/v1")."""
    model: str = Field(min_length=1)
    """The model's name, as the server lists it."""
    api_key: SecretStr | None = None
    """What the server wants to see; many want nothing."""
    api_key_file: Path | None = None
    """A file with the key in it, instead of `api_key`."""
    timeout_s: float = Field(default=30, gt=0)
    """Longest wait for the server's next word."""
    perceives: frozenset[Modality] = frozenset({Modality.TEXT})
    """What the served model can be given, as JSON (`["text", "audio", "video"]`)."""
    guided: Guide = Guide.NONE
    """How this server holds an answer to a set; see `Guide` for which servers know which way."""
    frames_max: int = Field(default=8, ge=1, le=64)
    """Frames of the user's video that are sent; vLLM must be started with `--limit-mm-per-prompt` to take as many."""
    frame_side_px_max: int = Field(default=512, ge=32)
    """Longer side of a frame that is sent."""

    @field_validator("base_url")
    @classmethod
    def _without_password(cls, url: HttpUrl) -> HttpUrl:
        if url.username or url.password:
            raise ValueError("it has a user name or a password in it; use api_key, which is kept secret")
        return url

    @field_validator("perceives")
    @classmethod
    def _with_text(cls, perceives: frozenset[Modality]) -> frozenset[Modality]:
        if Modality.TEXT not in perceives:
            raise ValueError(f"{sorted(perceives)} lacks text, which every chat is made of")
        return perceives

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key and self.api_key_file:
            raise ValueError("api_key and api_key_file are both set; set one")
        return self

    @property
    def server(self) -> str:
        """The server's address, for messages."""
        return str(self.base_url).rstrip("/")

    def key(self) -> str:
        """Returns the key; the word that servers without keys expect when there is none."""
        if self.api_key_file:
            return self.api_key_file.read_text("utf-8").strip()
        return self.api_key.get_secret_value() if self.api_key else "EMPTY"


class OpenaiModel:
    """A model behind a server.

    `digest` is the SHA-256 over the address, the model's name and what the server tells of the model (on vLLM the path
    of its weights). It says which model was asked, not which weights answered.

    Raises:
        NotReady: The server cannot be reached, is loading, or does not list the model.
        DeadlineExceeded: It does not answer within `timeout_s`.
        BackendFailed: It refuses the key, or takes no notice of `guided`.
        FileNotFoundError: There is no such `api_key_file`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self._key = settings, settings.key()
        self._loop = BackgroundLoop("openai")
        self._client = openai.AsyncOpenAI(
            base_url=settings.server,
            api_key=self._key,
            timeout=settings.timeout_s,
            max_retries=0,  # the caller has a deadline and knows whether another try fits into it
            # A kept connection that the server closes just now would fail the next question.
            http_client=openai.DefaultAsyncHttpxClient(limits=httpx2.Limits(max_keepalive_connections=0)),
        )
        self.name, self.perceives = settings.model, settings.perceives
        if Modality.VIDEO in settings.perceives:
            self.limits = Limits(math.inf, settings.frames_max)
        try:
            listed = self._listed()
            told = json.dumps({key: listed[key] for key in TOLD if key in listed}, sort_keys=True)
            self.digest = hashlib.sha256("\n".join((settings.server, self.name, told)).encode()).hexdigest()
            self._alternatives = ALTERNATIVES
            self._prove()
        except BaseException:
            self.close()
            raise

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields what the server sends, as it sends it. Closing the iterator, or `stopped`, closes the connection.

        Raises:
            BackendFailed: The server failed, or cut the answer short.
            NotReady: It cannot be reached, is loading, or has lost the model.
            Overloaded: It has no room.
            DeadlineExceeded: It was silent for longer than `timeout_s`.
        """
        request = self._request(turns) | {
            "max_tokens": sampling.tokens_max,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "stream": True,
        }
        pieces = self._pieces(request)
        try:
            while (piece := self._run(anext(pieces, None), stopped)) is not None:
                if piece:
                    yield piece
        except Stopped:
            return
        finally:
            self._run(pieces.aclose())

    def choose(self, turns: Sequence[Turn], choices: Sequence[str], stopped: Callable[[], bool]) -> Choice:
        """Returns the server's answer at temperature 0, and how likely it was where the server tells.

        Raises:
            BackendFailed, NotReady, Overloaded, DeadlineExceeded: As above.
        """
        return self._choice(turns, choices, self._settings.answer_tokens_max, stopped)

    def close(self) -> None:
        """Closes the connections to the server."""
        self._loop.run(self._client.close())
        self._loop.close()

    def _choice(
        self, turns: Sequence[Turn], choices: Sequence[str], tokens_max: int, stopped: Callable[[], bool]
    ) -> Choice:
        guide = self._settings.guided
        request = self._request(turns) | {"max_tokens": tokens_max, "temperature": 0.0, "seed": 0}
        if self._alternatives:
            request |= {"logprobs": True, "top_logprobs": self._alternatives}
        try:
            answer = self._run(self._client.chat.completions.create(**request, **request_of(guide, choices)), stopped)
        except Stopped:
            return Choice("", guided=False)
        written, tokens = self._looked_at(text_of, answer)
        text, start = answer_of(guide, written), start_of(guide, "".join(token.text for token in tokens))
        guided = guide is not Guide.NONE and text in choices
        return Choice(text, guided, label_log_likelihoods(tokens, choices, start, guided))

    def _request(self, turns: Sequence[Turn]) -> dict[str, Any]:
        return {"model": self.name, "messages": messages_of(turns, self._settings.frame_side_px_max)}

    def _listed(self) -> dict[str, Any]:
        """Returns what the server tells of the model."""
        listed = self._run(self._models())
        for model in listed:
            if model.get("id") == self.name:
                return model
        names = ", ".join(sorted(str(model.get("id")) for model in listed)) or "none"
        raise NotReady(f"{self._settings.server} has no model {self.name!r}; it has: {names}")

    async def _models(self) -> list[dict[str, Any]]:
        answer = await self._client.models.with_raw_response.list()
        try:
            return [dict(model) for model in answer.http_response.json()["data"]]
        except (KeyError, TypeError, ValueError) as error:
            raise BackendFailed(
                f"{self._settings.server} is no OpenAI-compatible server: its /models is none"
            ) from error

    def _prove(self) -> None:
        """Asks once, to learn whether the server tells alternatives and whether it heeds `guided`."""
        guide, server = self._settings.guided, self._settings.server
        tokens_max = 1 if guide is Guide.NONE else self._settings.answer_tokens_max
        try:
            choice = self._choice(PROOF, PROOF_CHOICES, tokens_max, lambda: False)
        except BackendFailed as refused:
            self._alternatives = 0
            choice = self._choice(PROOF, PROOF_CHOICES, tokens_max, lambda: False)
            log.info("the server tells no alternatives, so votes come without a distribution: %s", refused)
        if guide is not Guide.NONE and not choice.guided:
            raise BackendFailed(f"{server} takes no notice of {guide.value!r}; set guided to its own way, or to 'none'")

    async def _pieces(self, request: Mapping[str, Any]) -> AsyncGenerator[str]:
        stream = await self._client.chat.completions.create(**request)
        finished = False
        try:
            async for chunk in stream:
                piece, last = self._looked_at(piece_of, chunk)
                finished = finished or last
                yield piece
        finally:
            await stream.close()
        if not finished:
            raise BackendFailed(f"{self._settings.server} cut the answer short")

    def _looked_at(self, look: Callable[[Any], Result], answer: Any) -> Result:
        """Returns what `look` finds in an answer, which may be anything: the library hands it on as it came."""
        try:
            return look(answer)
        except (AttributeError, IndexError, TypeError) as error:
            raise BackendFailed(f"{self._settings.server} answered with no chat completion: {error}") from error

    def _run(self, call: Awaitable[Result], stopped: Callable[[], bool] = lambda: False) -> Result:
        try:
            return self._loop.run(call, stopped)
        except (openai.OpenAIError, httpx2.HTTPError, ValueError) as error:
            failure: ServiceError = failure_of(error, self._settings.server, self._key)
        # Outside of the handler: the library's own words may hold the key, and a log prints what went before.
        raise failure


def create() -> ChatBackend:
    """Reaches the server, finds the model and asks it once for everything."""
    settings = Settings()  # type: ignore[call-arg]  # they come from the environment
    backend = ChatBackend(OpenaiModel(settings), settings)
    backend.warm_up()
    return backend
