"""A prompt that a model has read, and what can be done with it: draw an answer, or score many."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from services.mllm.chat.model import Sampling


@dataclass(frozen=True)
class Prefix:
    """A prompt that has been read.

    Attributes:
        logits: Float (vocabulary,): of the token after it.
        cache: Keys and values of its tokens (a `Cache` of transformers), for one sequence.
        length: Its tokens.
        step: Reads more: tokens, int64 (sequences, n); a cache of as many sequences, which grows; tokens in the cache
            before. Returns logits (sequences, n, vocabulary).
    """

    logits: torch.Tensor
    cache: Any
    length: int
    step: Callable[[torch.Tensor, Any, int], torch.Tensor]


@dataclass(frozen=True)
class Answers:
    """Answers as the tokens that a model would have to write after a prompt.

    Attributes:
        tokens: Of each answer, up to the one that ends its turn.
        rewritten: Last tokens of the prompt, where the tokenizer merges them with the begin of an answer: every answer
            writes them anew. Mostly none.
    """

    tokens: tuple[tuple[int, ...], ...]
    rewritten: tuple[int, ...] = ()


def draw(prefix: Prefix, sampling: Sampling, stops: frozenset[int], stopped: Callable[[], bool]) -> Iterator[int]:
    """Yields tokens of an answer until one of `stops`, which is left out. Uses the prefix up.

    Between two tokens nothing runs, so that closing the iterator or `stopped` ends the work there.
    """
    chance = torch.Generator().manual_seed(sampling.seed)
    logits = prefix.logits
    for place in range(sampling.tokens_max):
        if stopped():
            return
        token = _drawn(logits.float().cpu(), sampling, chance)
        if token in stops:
            return
        yield token
        if place + 1 < sampling.tokens_max and not stopped():
            step = torch.tensor([[token]], device=prefix.logits.device)
            logits = prefix.step(step, prefix.cache, prefix.length + place)[0, -1]


def pieces(tokens: Iterable[int], decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """Yields the text of `tokens` as it grows; a character in several tokens comes when it is whole."""
    read: list[int] = []
    said = ""
    for token in tokens:
        read.append(token)
        text = decode(read)
        if not text.endswith("\N{REPLACEMENT CHARACTER}") and len(text) > len(said):
            yield text[len(said) :]
            said = text


def answer_log_likelihoods(prefix: Prefix, answers: Answers, at_once: int, stopped: Callable[[], bool]) -> list[float]:
    """Returns how much less likely the chat with each answer is than the chat without; nothing once `stopped`.

    Args:
        prefix: The prompt without the tokens that are `rewritten`.
        answers: One or more.
        at_once: As of `log_likelihoods`.
        stopped: Asked before each step.
    """
    if not answers.rewritten:
        return log_likelihoods(prefix, answers.tokens, at_once, stopped)
    scores = log_likelihoods(prefix, (answers.rewritten, *answers.tokens), at_once, stopped)
    return [score - scores[0] for score in scores[1:]]


def log_likelihoods(
    prefix: Prefix, answers: Sequence[Sequence[int]], at_once: int, stopped: Callable[[], bool]
) -> list[float]:
    """Returns the log-likelihood of each answer's tokens after the prefix; nothing once `stopped`.

    Args:
        prefix: Stays as it is.
        answers: One or more tokens each.
        at_once: So many answers share a step, each with a copy of the prefix's cache.
        stopped: Asked before each step.
    """
    scores: list[float] = []
    for begin in range(0, len(answers), at_once):
        if stopped():
            return []
        scores += _scored(prefix, answers[begin : begin + at_once])
    return scores


def _scored(prefix: Prefix, answers: Sequence[Sequence[int]]) -> list[float]:
    """Scores answers side by side. Padding stands behind an answer, where nothing of it looks."""
    device = prefix.logits.device
    longest = max(len(answer) for answer in answers)
    tokens = torch.tensor([[*answer, *[answer[0]] * (longest - len(answer))] for answer in answers], device=device)
    lengths = torch.tensor([len(answer) for answer in answers], device=device)
    scores = prefix.logits.float().log_softmax(-1)[tokens[:, 0]]
    if longest > 1:
        cache = copy.deepcopy(prefix.cache)
        cache.batch_repeat_interleave(len(answers))
        likely = prefix.step(tokens[:, :-1], cache, prefix.length).float().log_softmax(-1)
        likely = likely.gather(-1, tokens[:, 1:, None])[..., 0]
        inside = torch.arange(1, longest, device=device) < lengths[:, None]
        scores = scores + torch.where(inside, likely, 0.0).sum(-1)
    return [float(score) for score in scores]


def _drawn(logits: torch.Tensor, sampling: Sampling, chance: torch.Generator) -> int:
    """Draws a token out of the likeliest that together reach `top_p` (Holtzman et al. 2020)."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    ranked, order = (logits / sampling.temperature).softmax(-1).sort(descending=True)
    before = ranked.cumsum(-1) - ranked
    kept = torch.where(before < sampling.top_p, ranked, 0.0)
    return int(order[torch.multinomial(kept, 1, generator=chance)])
