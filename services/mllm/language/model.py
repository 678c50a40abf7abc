"""SmolLM2 on llama.cpp: the likelihood of the next word out of a set, and several candidate texts at once."""

import math
import secrets
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xllamacpp

from services.common.errors import BackendFailed
from services.mllm.language.signals import kept

BIAS = 40.0
"""Added to the logits of the words that may come: larger than any gap between logits, so only these remain, and
equal for all, so that their ratios stay the model's own."""

BATCH_TOKENS = 128
"""Tokens read in one go. More is not faster on one thread and takes memory."""


@dataclass(frozen=True)
class Sampling:
    """How candidates are drawn.

    Attributes:
        count: How many, drawn side by side from one reading of the prompt.
        tokens_max: Longest candidate.
        temperature: 0 takes the likeliest token.
        top_p: The likeliest tokens that together reach this probability may come.
        grammar: GBNF that every candidate obeys.
        seed: The same seed and prompt give the same candidates.
    """

    count: int
    tokens_max: int
    temperature: float
    top_p: float
    grammar: str
    seed: int


@dataclass(frozen=True)
class Candidate:
    """A text that the model wrote. `log_likelihood` is the mean over its tokens."""

    text: str
    log_likelihood: float


class LanguageModel:
    """One loaded model.

    Reads prompts on one thread. What a vote's prompt shares with the one before is not read again.

    Args:
        weights: A GGUF file.
        context_tokens: Room for all candidates together with their prompt.
        candidates_max: How many candidates `sample` may be asked for.
        adapter: A LoRA in GGUF, laid over the weights.

    Raises:
        BackendFailed: The weights cannot be loaded.
    """

    def __init__(self, weights: Path, context_tokens: int, candidates_max: int, adapter: Path | None = None) -> None:
        for file in (weights, *([adapter] if adapter else [])):
            if not file.is_file():
                raise BackendFailed(f"{file} is missing; fill the model folder with `make models`")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(weights)
        parameters.n_ctx = context_tokens
        parameters.n_parallel = candidates_max
        parameters.kv_unified = True
        parameters.cache_ram_mib = 0
        # Room for the answers' logits goes with the batch: 49152 words x 4 bytes each.
        parameters.n_batch = parameters.n_ubatch = BATCH_TOKENS
        parameters.warmup = False
        parameters.verbosity = -1
        # More threads than one spin against the other services' threads and are slower on a busy machine.
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        # The library also listens on a loopback port, which nothing here uses: a key that nobody knows closes it.
        parameters.api_keys = [secrets.token_hex(32)]
        parameters.n_threads_http = 1
        if adapter:
            lora = xllamacpp.CommonAdapterLoraInfo()
            lora.path, lora.scale = str(adapter), 1.0
            parameters.lora_adapters = [lora]
        with kept(signal.SIGINT, signal.SIGTERM):
            try:
                self._server: xllamacpp.Server | None = xllamacpp.Server(parameters)
            except RuntimeError as error:
                raise BackendFailed(f"{weights} cannot be loaded: {error}") from error
        # A server that is freed before its loop has begun never ends; the first answer proves that it has.
        self._complete({"prompt": "a", "max_tokens": 1})

    def likelihoods(self, prompt: str, pieces: Sequence[str]) -> list[float]:
        """Returns the log-likelihood of each of `pieces` as the next token; only these share the probability.

        Each piece must be one token of the vocabulary (with its leading space).
        """
        answer = self._complete(
            {
                "prompt": prompt,
                "max_tokens": 1,
                "logit_bias": [[piece, BIAS] for piece in pieces],
                "logprobs": len(pieces),
                "post_sampling_probs": True,
                "samplers": ["temperature"],
                "temperature": 1.0,
                "seed": 0,
                "cache_prompt": True,
            }
        )
        found = {entry["token"]: entry["prob"] for entry in answer["choices"][0]["logprobs"]["content"][0]["top_probs"]}
        missing = [piece for piece in pieces if piece not in found]
        if missing:
            raise BackendFailed(f"not one token each: {missing}")
        return [math.log(max(found[piece], 1e-12)) for piece in pieces]

    def sample(self, prompt: str, sampling: Sampling, stopped: Callable[[], bool] = lambda: False) -> list[Candidate]:
        """Draws candidates that continue `prompt`.

        Args:
            prompt: The text to continue.
            sampling: How.
            stopped: Asked at every token; once it says yes, the model stops and the candidates are left unfinished.
        """
        parts: list[_Part] = []
        failures: list[object] = []

        def take(piece: dict[str, Any] | list[dict[str, Any]]) -> bool:
            # The first tokens of all candidates come together.
            for one in piece if isinstance(piece, list) else [piece]:
                if "choices" not in one:
                    failures.append(one)
                else:
                    parts.extend(_part(choice) for choice in one["choices"])
            return stopped()

        self._loaded().handle_completions(
            {
                "prompt": prompt,
                "n": sampling.count,
                "max_tokens": sampling.tokens_max,
                "temperature": sampling.temperature,
                "top_k": 40,
                "top_p": sampling.top_p,
                "min_p": 0.05,
                "samplers": ["top_k", "top_p", "min_p", "temperature"],
                "grammar": sampling.grammar,
                "logprobs": 1,
                "seed": sampling.seed,
                # What an earlier call left behind changes the last digits, and with them, now and then, the draw.
                "cache_prompt": False,
                "stream": True,
            },
            take,
        )
        if failures:
            raise BackendFailed(f"the model refused: {failures[0]}")
        return [_candidate(part for part in parts if part.index == index) for index in range(sampling.count)]

    def close(self) -> None:
        """Frees the model."""
        self._server = None

    def _complete(self, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._loaded().handle_completions(request)
        if "choices" not in answer:
            raise BackendFailed(f"the model refused: {answer}")
        return answer

    def _loaded(self) -> xllamacpp.Server:
        if self._server is None:
            raise BackendFailed("the model is closed")
        return self._server


@dataclass(frozen=True)
class _Part:
    """A piece of candidate number `index`."""

    index: int
    text: str
    log_likelihoods: tuple[float, ...]


def _part(choice: dict[str, Any]) -> _Part:
    tokens = (choice.get("logprobs") or {}).get("content") or []
    return _Part(int(choice["index"]), choice["text"], tuple(token["logprob"] for token in tokens))


def _candidate(parts: Iterable[_Part]) -> Candidate:
    found = list(parts)
    likelihoods = [value for part in found for value in part.log_likelihoods]
    mean = sum(likelihoods) / len(likelihoods) if likelihoods else 0.0
    return Candidate("".join(part.text for part in found).strip(), max(mean, -99.0))
