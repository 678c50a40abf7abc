"""Votes on what was written: all-mpnet-base-v2 with an adapter and a head of ours, one label of the wheel each.

The encoder is that of the panel (`perception.mpnet`); `services.understanding.training.feeling_adapter` trains this
adapter, on messages and conversations that were written for this project, and on nothing else.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic_settings import BaseSettings, SettingsConfigDict

import emotions
from emotions import Wheel
from perception.mpnet import MODEL, SEPARATOR, Encoder, joined
from services.common.weights import digest_of
from services.mllm.domain import Card, Level, Message, Modality, Prediction
from services.mllm.reply.legible import unreadable

ADAPTER = Path(__file__).with_suffix(".npz")
TEMPERATURE = 1.0
"""The logits are divided by it, so that a probability is how often the vote is right."""
NEAREST = 3


class Settings(BaseSettings):
    """What the voter can be told."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MLLM_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models` fills it."""


class MpnetBackend:
    """Votes on text, at the level of labels; some 20 ms a message.

    Args:
        encoder: With this voter's adapter and head.
        labels: Of the head, in order.
        wheel: The ontology; the head must know exactly its labels.
        digest: SHA-256 of all weights.

    Raises:
        ValueError: The head was trained for another wheel.
    """

    def __init__(self, encoder: Encoder, labels: tuple[str, ...], wheel: Wheel, digest: str) -> None:
        if labels != tuple(wheel.labels):
            raise ValueError(
                f"{ADAPTER.name} does not fit the wheel; run services.understanding.training.feeling_adapter"
            )
        self._encoder, self._labels = encoder, labels
        self.card = Card("mpnet-emotion", digest, frozenset({Modality.TEXT}), Level.LABEL)

    def predict(self, message: Message) -> Prediction:
        """Votes on the text; abstains when there is none, or none in Latin script.

        A message that is not long is read behind what the user said before it. Of a page, the mean of its windows
        counts.
        """
        reason = unreadable(message.text)
        if reason:
            return Prediction(Level.LABEL, {}, frozenset(), "classified", abstained=reason)
        before = next((turn.text for turn in reversed(message.history) if turn.speaker == "user"), "")
        text = joined(message.text, before)
        probabilities = _softmax(self._encoder.read(text) / TEMPERATURE).mean(axis=0)
        vote = dict(zip(self._labels, probabilities.tolist(), strict=True))
        best = sorted(vote, key=vote.__getitem__, reverse=True)[:NEAREST]
        evidence = {"nearest_labels": ", ".join(f"{name} {vote[name]:.2f}" for name in best)}
        was_read = SEPARATOR in text
        if was_read:
            evidence["read"] = "together with the user's message before"
        saw = frozenset({Modality.TEXT})
        unread = len(message.history) - was_read
        return Prediction(Level.LABEL, vote, saw, "classified", evidence=evidence, history_dropped=unread)

    def close(self) -> None:
        """Nothing is held but memory."""


def create() -> MpnetBackend:
    """Loads the voter, warm.

    Raises:
        FileNotFoundError: Weights are missing.
        ValueError: The head does not fit the wheel.
    """
    folder = Settings().models_dir
    with np.load(ADAPTER) as trained:
        labels = tuple(json.loads(str(trained["labels"])))
    return MpnetBackend(Encoder(folder, ADAPTER), labels, emotions.load(), digest_of(folder / MODEL, ADAPTER))


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    raised = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(np.float64))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
