"""The vote: how likely each label is as the next word after the message.

A model that was not trained for the question likes some words more than others, whatever the message. A prompt file
with `empty` messages frees it of that, as in Zhao et al. 2021, "Calibrate Before Use": what it answers to messages
without content is its prior, and it is taken off. With the prompt's own examples half of the prior is measured so; the
other half is the mean over the stored messages of all labels (Zhou et al. 2023, "Batch Calibration"), which is shipped
with the prompt.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.mllm.language.model import LanguageModel
from services.mllm.prompts import content_of

MESSAGE_CHARS_MAX = 600
"""The vote reads the end of a longer message: feelings come last, and reading costs 8 ms per token."""


@dataclass(frozen=True)
class VotePrompt:
    """A versioned prompt file of `services/mllm/prompts`.

    Attributes:
        version: Its name.
        instruction: First line.
        form: A message with its answer, or with an open end; `{message}` and `{label}` are filled in.
        shots: Messages with their labels.
        empty: Messages without content; with none, nothing is taken off.
        pieces: By label: the token that stands for it where the word is more than one token.
        prior: By label: mean log-likelihood over the stored messages; empty without `empty`.
        temperature: The log-likelihoods are divided by it, so that a probability is how often the vote is right.
    """

    version: str
    instruction: str
    form: str
    shots: tuple[tuple[str, str], ...]
    empty: tuple[str, ...]
    pieces: Mapping[str, str]
    prior: Mapping[str, float]
    temperature: float

    @classmethod
    def load(cls, version: str) -> "VotePrompt":
        """Reads the prompt called `version`.

        Raises:
            ValueError: There is none; the message lists those there are.
        """
        content = content_of(version, "vote-*", "E3RG_MLLM_VOTE_PROMPT")
        return cls(
            version=version,
            instruction=content["instruction"],
            form=content["form"],
            shots=tuple((message, label) for message, label in content["shots"]),
            empty=tuple(content["empty"]),
            pieces=content["pieces"],
            prior=content["prior"],
            temperature=content["temperature"],
        )

    def text(self, message: str, shots: Sequence[tuple[str, str]]) -> str:
        """The whole prompt."""
        solved = "".join(self.form.format(message=shot, label=f" {label}") + "\n\n" for shot, label in shots)
        return self.instruction + solved + self.form.format(message=message, label="")


class LabelVote:
    """Scores the labels for a message."""

    def __init__(self, model: LanguageModel, prompt: VotePrompt, labels: tuple[str, ...]) -> None:
        self._model, self._prompt, self._labels = model, prompt, labels
        self._pieces = label_pieces(prompt, labels)
        self._prior = self._prior_after(prompt.shots)
        if prompt.empty:
            self._prior = [
                0.5 * measured + 0.5 * prompt.prior[label] for measured, label in zip(self._prior, labels, strict=True)
            ]

    def distribution(self, message: str, shots: Sequence[tuple[str, str]] | None = None) -> dict[str, float]:
        """Returns a probability per label; they sum to 1.

        Args:
            message: The message.
            shots: Solved examples, messages with their labels, to show in place of the prompt's own.
        """
        text = " ".join(message.split())[-MESSAGE_CHARS_MAX:]
        prior = self._prior if shots is None else self._prior_after(shots)
        shown = self._prompt.shots if shots is None else shots
        scores = self._model.likelihoods(self._prompt.text(text, shown), self._pieces)
        logits = [(score - liking) / self._prompt.temperature for score, liking in zip(scores, prior, strict=True)]
        weights = [math.exp(logit - max(logits)) for logit in logits]
        total = sum(weights)
        return {label: weight / total for label, weight in zip(self._labels, weights, strict=True)}

    def _prior_after(self, shots: Sequence[tuple[str, str]]) -> list[float]:
        """Returns, by label, the log of its mean likelihood over the empty messages after `shots`."""
        if not self._prompt.empty:
            return [0.0] * len(self._labels)
        rows = [
            self._model.likelihoods(self._prompt.text(message, shots), self._pieces) for message in self._prompt.empty
        ]
        return [math.log(sum(math.exp(row[i]) for row in rows) / len(rows)) for i in range(len(self._labels))]


def label_pieces(prompt: VotePrompt, labels: tuple[str, ...]) -> list[str]:
    """Returns, for each label, the token that stands for it after the prompt."""
    return [f" {prompt.pieces.get(label, label)}" for label in labels]
