"""SmolLM2 on llama.cpp: the likelihood of the next word out of a set, and several candidate texts at once."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.common.errors import BackendFailed
from services.mllm.language.runtime import Runtime

BIAS = 40.0
"""Added to the logits of the words that may come: larger than any gap between logits, so only these remain, and
equal for all, so that their ratios stay the model's own."""


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

    Reads prompts on one thread, each from its beginning: the same prompt gets the same answer.

    Args:
        weights: A GGUF file.
        context_tokens: Room for all candidates together with their prompt.
        candidates_max: How many candidates `sample` may be asked for.
        adapter: A LoRA in GGUF, laid over the weights.

    Raises:
        BackendFailed: The weights cannot be loaded.
    """

    def __init__(self, weights: Path, context_tokens: int, candidates_max: int, adapter: Path | None = None) -> None:
        self._runtime = Runtime(weights, context_tokens, candidates_max, adapter)

    def likelihoods(self, prompt: str, pieces: Sequence[str]) -> list[float]:
        """Returns the log-likelihood of each of `pieces` as the next token; only these share the probability.

        Each piece must be one token of the vocabulary (with its leading space).
        """
        answer = self._runtime.complete(
            {
                "prompt": prompt,
                "max_tokens": 1,
                "logit_bias": [[piece, BIAS] for piece in pieces],
                "logprobs": len(pieces),
                "post_sampling_probs": True,
                "samplers": ["temperature"],
                "temperature": 1.0,
                "seed": 0,
                # What an earlier call left behind would move a probability by some hundredths.
                "cache_prompt": False,
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

        def take(piece: dict[str, Any]) -> None:
            parts.extend(_part(choice) for choice in piece["choices"])

        self._runtime.follow(
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
            },
            take,
            stopped,
        )
        return [_candidate(part for part in parts if part.index == index) for index in range(sampling.count)]

    def close(self) -> None:
        """Frees the model."""
        self._runtime.close()


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
