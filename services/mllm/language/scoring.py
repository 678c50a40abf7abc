"""The likelihood of answers that are several tokens long, under a model that can say nothing else."""

import math
from collections.abc import Callable, Mapping, Sequence

Tokens = tuple[int, ...]
Next = Callable[[Tokens, Sequence[int]], Mapping[int, float]]
"""Given the tokens of an answer so far and those that may come, the log-probability of each: together they have 1."""


def log_likelihoods(answers: Sequence[Tokens], following: Next) -> list[float]:
    """Returns the log-likelihood of each answer when the model is held to the answers; together they have 1.

    The answers form a tree of tokens. Where only one token can follow, it comes with certainty; the model is asked at
    the forks only, of which there are far fewer than answers.

    Args:
        answers: Each with the token that ends it, so that no answer is the beginning of another.
        following: Asks the model.
    """
    found = [0.0] * len(answers)
    forks: list[tuple[Tokens, list[int]]] = [((), list(range(len(answers))))]
    while forks:
        said, places = forks.pop()
        by_token: dict[int, list[int]] = {}
        for place in places:
            if len(answers[place]) > len(said):
                by_token.setdefault(answers[place][len(said)], []).append(place)
        chances = following(said, list(by_token)) if len(by_token) > 1 else dict.fromkeys(by_token, 0.0)
        for token, others in by_token.items():
            for place in others:
                found[place] += chances[token]
            if len(others) > 1:
                forks.append(((*said, token), others))
    return found


def shared(log_weights: Mapping[int, float]) -> dict[int, float]:
    """Returns log-probabilities, proportional to the weights, that have 1 together."""
    top = max(log_weights.values())
    total = top + math.log(math.fsum(math.exp(weight - top) for weight in log_weights.values()))
    return {token: weight - total for token, weight in log_weights.items()}
