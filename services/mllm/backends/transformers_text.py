"""Any chat model of transformers that reads text: Vicuna, Llama, InternLM, Qwen, MiniCPM and others, from a folder."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from services.common.errors import TooLarge
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.model import Sampling, Turn
from services.mllm.chat.settings import ChatSettings
from services.mllm.chat.template import ChatTemplate
from services.mllm.decoding.chat_format import ChatFormat
from services.mllm.decoding.folder import check_complete, digest_of_folder
from services.mllm.decoding.prefix import Prefix, answer_log_likelihoods, draw, pieces
from services.mllm.domain import Modality


class Settings(ChatSettings):
    """Settings of the text model."""

    weights: Path = Field(default=...)
    """Folder of the model with its tokenizer, as transformers saves it. Its name is the model's name."""
    device: str = "cuda"
    """Where the model runs: "cuda", "cuda:1", "cpu"; "auto" spreads it over all devices."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Type of the weights."""
    chat_template: str = ""
    """Name of a file of `services/mllm/chat/templates` ("vicuna-1.1"); empty takes the tokenizer's own template."""
    remote_code: bool = False
    """Runs the Python files that lie beside the weights. MiniCPM4 needs it. Read them before: they can do all that
    this process can."""
    answers_at_once: int = Field(default=12, ge=1)
    """Labels that are scored side by side; each holds a copy of the prompt's keys and values on the device."""


class TransformersTextModel:
    """A causal language model and its chat format.

    Raises:
        FileNotFoundError: The folder or the chat template is missing.
        ValueError: The folder lacks weights or a chat template, or needs its own code and may not run it.
    """

    perceives = frozenset({Modality.TEXT})

    def __init__(self, settings: Settings) -> None:
        self.name = settings.weights.resolve().name
        self.digest = digest_of_folder(settings.weights)
        self._at_once = settings.answers_at_once
        template = ChatTemplate.load(settings.chat_template) if settings.chat_template else None
        local = {"local_files_only": True, "trust_remote_code": settings.remote_code}
        try:
            tokenizer = AutoTokenizer.from_pretrained(settings.weights, **local)
            model, loaded = AutoModelForCausalLM.from_pretrained(
                settings.weights, dtype=settings.dtype, device_map=settings.device, output_loading_info=True, **local
            )
        except ValueError as error:
            if "trust_remote_code" not in str(error):
                raise
            reason = f"{settings.weights} brings its own code; read it, then allow it by E3RG_MLLM_REMOTE_CODE=true"
            raise ValueError(reason) from error
        check_complete(loaded, settings.weights)
        self._model = model.eval()
        ends = model.generation_config.eos_token_id
        self._format = ChatFormat(tokenizer, template, ends if isinstance(ends, list) else [ends] if ends else [])
        # The scores of a whole prompt over a whole vocabulary would be gigabytes; only the last are needed.
        takes = inspect.signature(model.forward).parameters
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer piece by piece, a token or some at a time.

        Raises:
            TooLarge: The chat is longer than the model reads.
        """
        tokens = self._tokens(turns)
        if not stopped():
            yield from pieces(draw(self._read(tokens), sampling, self._format.stops, stopped), self._format.decode)

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer with the token that ends its turn; nothing once `stopped`.

        Raises:
            TooLarge: The chat is longer than the model reads.
        """
        wanted = self._format.answers(answers)
        tokens = self._tokens(turns)
        if stopped():
            return []
        prefix = self._read(tokens[: len(tokens) - len(wanted.rewritten)])
        return answer_log_likelihoods(prefix, wanted, self._at_once, stopped)

    def close(self) -> None:
        """Frees the model."""
        del self._model

    def _tokens(self, turns: Sequence[Turn]) -> list[int]:
        tokens = self._format.tokens(self._format.prompt(self._format.messages(turns)))
        longest = self._model.config.max_position_embeddings
        if len(tokens) >= longest:
            problem = f"{len(tokens)} tokens with its history and the question; this model reads {longest}, send less"
            raise TooLarge("text", f"{problem} or lower E3RG_MLLM_HISTORY_CHARS_MAX")
        return tokens

    def _read(self, tokens: Sequence[int]) -> Prefix:
        cache = DynamicCache(config=self._model.config)
        read = torch.tensor([tokens], device=self._model.device)
        with torch.inference_mode():
            logits = self._model(input_ids=read, past_key_values=cache, use_cache=True, **self._last).logits[0, -1]
        return Prefix(logits, cache, len(tokens), self._step)

    def _step(self, tokens: torch.Tensor, cache: DynamicCache, read: int) -> torch.Tensor:
        mask = torch.ones((tokens.shape[0], read + tokens.shape[1]), dtype=torch.long, device=tokens.device)
        with torch.inference_mode():
            output = self._model(input_ids=tokens, attention_mask=mask, past_key_values=cache, use_cache=True)
        logits: torch.Tensor = output.logits
        return logits


def create() -> ChatBackend:
    """Loads the model and warms it up."""
    settings = Settings()
    backend = ChatBackend(TransformersTextModel(settings), settings)
    backend.warm_up()
    return backend
