"""Any language model in a GGUF file, on llama.cpp in this process: Llama, Qwen, Gemma, Mistral and others, by path."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

import emotions
from services.common.errors import BackendFailed, TooLarge
from services.common.weights import digest_of
from services.mllm.chat.backend import ChatBackend
from services.mllm.chat.model import Sampling, Turn
from services.mllm.chat.question import EmotionPrompt
from services.mllm.chat.settings import ChatSettings
from services.mllm.domain import Message, Modality
from services.mllm.language.calibrated import CalibratedModel
from services.mllm.language.form import ChatForm, CompletionForm, Form, has_chat_template
from services.mllm.language.runtime import Runtime
from services.mllm.language.scoring import Tokens, log_likelihoods, shared

BIAS = 100.0
"""Added to the logits of the tokens that may come: larger than any gap between logits, so only these remain."""
LEFT_OVER_MAX = 0.01
"""Probability that other tokens may keep; with more, the bias was too small and the ratios are not the model's."""
PROBABILITY_MIN = 1e-12
"""A token that is not among those told has this at most."""
VOTES, REPLIES = 0, 1
"""Places for what was read of a prompt: the beginning that all votes share stays read while replies come and go."""
EMPTY = ("N/A", "(nothing)", "...")
"""Messages without content."""


class Settings(ChatSettings):
    """Settings of a model in a GGUF file."""

    weights: Path
    """The GGUF file; its name without the ending is the model's name."""
    context_tokens: int = Field(default=4096, ge=256)
    """Room for the prompt and the answer; memory grows with it."""
    threads: int = Field(default=1, ge=1)
    """Threads that compute. On a machine that is shared with other services, more are slower."""
    gpu_layers: int = Field(default=0, ge=0)
    """Layers that are computed on a GPU, which needs a build of xllamacpp with one."""


class LlamaCppModel:
    """A model and the form of its prompts: its chat template, or plain text where the file brings none.

    Raises:
        BackendFailed: The file is missing or cannot be loaded.
    """

    perceives = frozenset({Modality.TEXT})

    def __init__(self, settings: Settings) -> None:
        self._context_tokens = settings.context_tokens
        self._runtime = Runtime(
            settings.weights,
            settings.context_tokens,
            parallel=len((VOTES, REPLIES)),
            threads=settings.threads,
            gpu_layers=settings.gpu_layers,
        )
        self.name, self.digest = settings.weights.stem, digest_of(settings.weights)
        is_chat = has_chat_template(settings.weights)
        self._form: Form = ChatForm(self._runtime) if is_chat else CompletionForm(self._runtime)
        self._answers: dict[str, Tokens] = {}

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields the answer token by token. Closing the iterator, or `stopped`, stops the model at the next token.

        Raises:
            TooLarge: Prompt and answer do not fit into `context_tokens`.
            BackendFailed: The model failed.
        """
        request = {
            "prompt": self._prompt(turns, sampling.tokens_max),
            "max_tokens": sampling.tokens_max,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "samplers": ["top_p", "temperature"],
            "seed": sampling.seed,
            "id_slot": REPLIES,
            **self._form.bounds,
            # What an earlier call left behind changes the last digits, and with them, now and then, the draw.
            "cache_prompt": False,
        }
        yield from self._runtime.stream(request, stopped)

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer when the model can say nothing but these; see `scoring`.

        Once `stopped`, the model is not asked any more, and what is returned is of no use.

        Raises:
            TooLarge: The prompt does not fit into `context_tokens`.
            BackendFailed: The model failed.
        """
        wanted = [self._answer(answer) for answer in answers]
        prompt = self._prompt(turns, max(len(tokens) for tokens in wanted))

        def following(said: Tokens, children: Sequence[int]) -> Mapping[int, float]:
            return dict.fromkeys(children, 0.0) if stopped() else self._following([*prompt, *said], children)

        return log_likelihoods(wanted, following)

    def close(self) -> None:
        """Frees the model."""
        self._runtime.close()

    def _following(self, prompt: Sequence[int], tokens: Sequence[int]) -> Mapping[int, float]:
        """Returns the log-probability of each of `tokens` after `prompt`; only these share it."""
        answer = self._runtime.complete(
            {
                "prompt": list(prompt),
                "max_tokens": 1,
                "logit_bias": [[token, BIAS] for token in tokens],
                "logprobs": len(tokens),
                "post_sampling_probs": True,
                "samplers": ["temperature"],
                "temperature": 1.0,
                "seed": 0,
                "id_slot": VOTES,
                "cache_prompt": True,
            }
        )
        told = answer["choices"][0]["logprobs"]["content"][0]["top_probs"]
        found = {entry["id"]: entry["prob"] for entry in told}
        if math.fsum(found.get(token, 0.0) for token in tokens) < 1 - LEFT_OVER_MAX:
            raise BackendFailed(f"the model could not be held to {len(tokens)} tokens")
        return shared({token: math.log(max(found.get(token, 0.0), PROBABILITY_MIN)) for token in tokens})

    def _answer(self, text: str) -> Tokens:
        if text not in self._answers:
            self._answers[text] = self._form.answer(text)
        return self._answers[text]

    def _prompt(self, turns: Sequence[Turn], answer_tokens: int) -> list[int]:
        tokens = self._form.prompt(turns)
        if len(tokens) + answer_tokens > self._context_tokens:
            problem = f"{len(tokens)} tokens with its history and the question, and {answer_tokens} for the answer"
            limit = f"this model has room for {self._context_tokens}"
            raise TooLarge("text", f"{problem}; {limit}: send less, or raise E3RG_MLLM_CONTEXT_TOKENS")
        return tokens


def create() -> ChatBackend:
    """Loads the model, measures what it answers to messages without content, and asks it once for everything."""
    settings = Settings()  # type: ignore[call-arg]  # they come from the environment
    labels, prompt = tuple(emotions.load().labels), EmotionPrompt.load(settings.emotion_prompt)
    questions = [prompt.turns(Message(text=text), (), (), labels, frozenset({Modality.TEXT})) for text in EMPTY]
    backend = ChatBackend(CalibratedModel(LlamaCppModel(settings), questions, labels), settings)
    backend.warm_up()
    return backend
