"""Takes off a model's answers what it would answer to anything: small models like some words more than others."""

import math
from collections.abc import Callable, Iterator, Sequence

from services.mllm.chat.model import ChatModel, Sampling, Scorer, Turn


class CalibratedModel:
    """A chat model whose likelihoods are relative to those after messages without content.

    Zhao et al. 2021, "Calibrate Before Use". The prior is measured once, when this is made; answers that it was not
    measured for keep their likelihood.

    Args:
        model: Is asked.
        questions: Chats that end in a message without content.
        answers: What the prior is measured for.
    """

    def __init__(self, model: ChatModel, questions: Sequence[Sequence[Turn]], answers: Sequence[str]) -> None:
        if not isinstance(model, Scorer):
            raise TypeError(f"{model.name} cannot tell how likely an answer is")
        self._model, self._scorer = model, model
        self.name, self.digest, self.perceives = model.name, model.digest, model.perceives
        rows = [model.log_likelihoods(question, answers, lambda: False) for question in questions]
        columns = zip(*rows, strict=True)
        self._prior = {
            answer: math.log(math.fsum(math.exp(value) for value in column) / len(rows))
            for answer, column in zip(answers, columns, strict=True)
        }

    def stream(self, turns: Sequence[Turn], sampling: Sampling, stopped: Callable[[], bool]) -> Iterator[str]:
        """Yields what the model writes."""
        return self._model.stream(turns, sampling, stopped)

    def log_likelihoods(
        self, turns: Sequence[Turn], answers: Sequence[str], stopped: Callable[[], bool]
    ) -> Sequence[float]:
        """Returns the log-likelihood of each answer, less its prior."""
        found = self._scorer.log_likelihoods(turns, answers, stopped)
        return [value - self._prior.get(answer, 0.0) for answer, value in zip(answers, found, strict=True)]

    def close(self) -> None:
        """Frees the model."""
        self._model.close()
