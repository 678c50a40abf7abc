"""The vote: how likely each label is as the next word after the message, freed of the model's liking for some words.

Calibration follows Zhao et al. 2021, "Calibrate Before Use": what the model answers to messages without content is its
prior, and it is taken off. Half of the prior is measured so at the start; the other half is the mean over the stored
messages of all labels (Zhou et al. 2023, "Batch Calibration"), which is shipped with the prompt.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from services.mllm.language.model import LanguageModel

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
        empty: Messages without content.
        pieces: By label: the token that stands for it where the word is more than one token.
        prior: By label: mean log-likelihood over the stored messages.
    """

    version: str
    instruction: str
    form: str
    shots: tuple[tuple[str, str], ...]
    empty: tuple[str, ...]
    pieces: Mapping[str, str]
    prior: Mapping[str, float]

    @classmethod
    def load(cls, version: str) -> "VotePrompt":
        """Reads the prompt called `version`.

        Raises:
            FileNotFoundError: There is none.
        """
        file = resources.files("services.mllm").joinpath("prompts", f"{version}.toml")
        content = tomllib.loads(file.read_text("utf-8"))
        return cls(
            version=version,
            instruction=content["instruction"],
            form=content["form"],
            shots=tuple((message, label) for message, label in content["shots"]),
            empty=tuple(content["empty"]),
            pieces=content["pieces"],
            prior=content["prior"],
        )

    def text(self, message: str) -> str:
        """The whole prompt. All of it but the message is the same every time, so it is read once."""
        shots = "".join(self.form.format(message=shot, label=f" {label}") + "\n\n" for shot, label in self.shots)
        return self.instruction + shots + self.form.format(message=message, label="")


class LabelVote:
    """Scores the labels for a message."""

    def __init__(self, model: LanguageModel, prompt: VotePrompt, labels: tuple[str, ...]) -> None:
        self._model, self._prompt, self._labels = model, prompt, labels
        self._pieces = label_pieces(prompt, labels)
        empty = [model.likelihoods(prompt.text(message), self._pieces) for message in prompt.empty]
        self._prior = [
            0.5 * math.log(sum(math.exp(row[i]) for row in empty) / len(empty)) + 0.5 * prompt.prior[label]
            for i, label in enumerate(labels)
        ]

    def distribution(self, message: str) -> dict[str, float]:
        """Returns a probability per label; they sum to 1."""
        text = " ".join(message.split())[-MESSAGE_CHARS_MAX:]
        scores = self._model.likelihoods(self._prompt.text(text), self._pieces)
        weights = [math.exp(score - prior) for score, prior in zip(scores, self._prior, strict=True)]
        total = sum(weights)
        return {label: weight / total for label, weight in zip(self._labels, weights, strict=True)}


def label_pieces(prompt: VotePrompt, labels: tuple[str, ...]) -> list[str]:
    """Returns, for each label, the token that stands for it after the prompt."""
    return [f" {prompt.pieces.get(label, label)}" for label in labels]
