"""SmolLM2 on llama.cpp: the likelihood of the next word out of a set."""

import math
from collections.abc import Sequence
from pathlib import Path

from services.common.errors import BackendFailed
from services.mllm.language.runtime import Runtime

BIAS = 40.0
"""Added to the logits of the words that may come: larger than any gap between logits, so only these remain, and
equal for all, so that their ratios stay the model's own."""


class LanguageModel:
    """One loaded model.

    Reads prompts on one thread, each from its beginning: the same prompt gets the same answer.

    Args:
        weights: A GGUF file.
        context_tokens: Room for a prompt.
        adapter: A LoRA in GGUF, laid over the weights.

    Raises:
        BackendFailed: The weights cannot be loaded.
    """

    def __init__(self, weights: Path, context_tokens: int, adapter: Path | None = None) -> None:
        self._runtime = Runtime(weights, context_tokens, adapter=adapter)

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

    def close(self) -> None:
        """Frees the model."""
        self._runtime.close()
