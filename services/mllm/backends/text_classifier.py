"""Votes on what was written: sentence meaning and fitting emoji, weighed by a linear head, one label of the wheel each.

Features: the all-MiniLM-L6-v2 embedding (see `perception.text`) and how well each of 151 emoji would go with the
text, by a fastText model of social media posts (Joulin et al., 2017, "Bag of Tricks for Efficient Text
Classification"), both for the whole text and once more for its end. The head is a softmax regression that
`services.mllm.training.train` fits to the project's own sentences, `services/mllm/training/sentences.toml`, and to
nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import fasttext
import numpy as np
from numpy.typing import NDArray
from pydantic_settings import BaseSettings, SettingsConfigDict

import emotions
from emotions import Wheel
from perception.text import DIMENSIONS, SentenceReader
from services.common.weights import digest_of
from services.mllm.domain import Card, Level, Message, Modality, Prediction
from services.mllm.reply.legible import unreadable

HEAD_PATH = Path(__file__).with_suffix(".npz")
MEANING_SCALE = 5.0
"""Brings the unit embedding to the spread of the scaled emoji features, so that one penalty suits both."""
EMOJI_SCALE = 0.2
"""Per nat of log-probability: the emoji then weigh about as much as the meaning."""
PROBABILITY_MIN = 1e-6
BARE_WORDS_MAX = 3
"""A message this short that sounds neutral ("yes", "me too") is read together with the user's last one."""


END_SHARE = 0.3
"""Weight of a text's last part beside the whole: "I practised for months, but I failed" is about having failed, and a
linear head cannot tell the order of things."""
TURN = re.compile(r"(?<=[.!?])\s+|,? but |,? and then |,? and now ")
"""Where a text may turn."""
PART_WORDS_MIN = 2


class Settings(BaseSettings):
    """What the text classifier can be told."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MLLM_", frozen=True, hide_input_in_errors=True)

    models_dir: Path = Path(".models")
    """Folder of the weights, as `make models` fills it."""


class FeatureReader:
    """Turns texts into the numbers that the head weighs.

    Args:
        models_dir: Folder that holds `minilm/` and `emoji/`.

    Raises:
        FileNotFoundError: A file of a model is missing; the message names it.
    """

    def __init__(self, models_dir: Path) -> None:
        path = models_dir / "emoji" / "nade_250k_hp.ftz"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing; `make models` puts it there")
        self._sentences = SentenceReader(models_dir)
        self._emoji = fasttext.load_model(str(path))
        names = self._emoji.predict("a", k=-1, threshold=-1.0)[0]
        self._column = {name: index for index, name in enumerate(sorted(names))}

    @property
    def length(self) -> int:
        """Features per text."""
        return DIMENSIONS + len(self._column)

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the features of `texts`, float32 (n, `length`): the embedding, then the emoji in order of name.

        The end of a text counts extra, see `END_SHARE`.
        """
        features = self._read(texts)
        ends = {row: end for row, text in enumerate(texts) if (end := ending(text)) != text.strip()}
        if ends:
            rows = list(ends)
            features[rows] += END_SHARE * (self._read(list(ends.values())) - features[rows])
        return features

    def _read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        emoji = np.full((len(texts), len(self._column)), np.log(PROBABILITY_MIN), np.float32)
        for row, text in enumerate(texts):
            # fastText reads one line; a line break would end the text.
            names, probabilities = self._emoji.predict(" ".join(text.split()), k=-1, threshold=-1.0)
            for name, probability in zip(names, probabilities, strict=True):
                emoji[row, self._column[name]] = np.log(max(probability, PROBABILITY_MIN))
        meaning = self._sentences.embed(texts)
        return np.concatenate([meaning * MEANING_SCALE, emoji * EMOJI_SCALE], axis=1)


@dataclass(frozen=True, eq=False)
class Head:
    """The trained part.

    Attributes:
        labels: The wheel's labels, in the order of the columns.
        centre: float32 (features,), subtracted from the features.
        weights: float32 (features, labels).
        bias: float32 (labels,).
        temperature: The logits are divided by it, so that a probability is how often the vote is right.
        sentences_sha256: Digest of the training sentences that it was fitted to.
    """

    labels: tuple[str, ...]
    centre: NDArray[np.float32]
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    temperature: float
    sentences_sha256: str

    @classmethod
    def load(cls, path: Path) -> "Head":
        """Reads what `save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            return cls(
                labels=tuple(str(name) for name in stored["labels"]),
                centre=stored["centre"].astype(np.float32),
                weights=stored["weights"].astype(np.float32),
                bias=stored["bias"].astype(np.float32),
                temperature=float(stored["temperature"]),
                sentences_sha256=str(stored["sentences_sha256"]),
            )

    def save(self, path: Path) -> None:
        """Writes the head; the weights in half precision, which changes no probability by more than 0.001."""
        np.savez_compressed(
            path,
            labels=np.array(self.labels),
            centre=self.centre.astype(np.float32),
            weights=self.weights.astype(np.float16),
            bias=self.bias.astype(np.float32),
            temperature=np.float32(self.temperature),
            sentences_sha256=np.array(self.sentences_sha256),
        )

    def probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns float64 (n, labels) for float32 (n, features); rows sum to 1."""
        logits = ((features - self.centre) @ self.weights + self.bias).astype(np.float64) / self.temperature
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


class TextClassifierBackend:
    """Votes on text, at the level of labels; 10 to 20 ms a message.

    Args:
        reader: Makes the features.
        head: Weighs them.
        wheel: The ontology; the head must know exactly its labels.
        digest: SHA-256 of all weights.

    Raises:
        ValueError: The head was trained for another wheel or for other features.
    """

    def __init__(self, reader: FeatureReader, head: Head, wheel: Wheel, digest: str) -> None:
        if head.labels != tuple(wheel.labels) or head.weights.shape[0] != reader.length:
            raise ValueError(
                f"{HEAD_PATH.name} does not fit the wheel or the features; run python -m services.mllm.training.train"
            )
        self._reader = reader
        self._head = head
        self.card = Card("minilm-emoji-softmax", digest, frozenset({Modality.TEXT}), Level.LABEL)

    def predict(self, message: Message) -> Prediction:
        """Votes on the text; abstains when there is none, or none in Latin script."""
        reason = unreadable(message.text)
        if reason:
            return Prediction(Level.LABEL, {}, frozenset(), "classified", abstained=reason)
        texts = [message.text]
        earlier = _last_of_user(message)
        if earlier and len(message.text.split()) <= BARE_WORDS_MAX:
            texts.append(f"{earlier} {message.text}")
        votes = [self._vote(row) for row in self._head.probabilities(self._reader.read(texts))]
        with_earlier = len(votes) > 1 and _first(votes[0]) == "neutral"
        return _to_prediction(votes[with_earlier], with_earlier, message)

    def close(self) -> None:
        """Nothing is held but memory."""

    def _vote(self, probabilities: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self._head.labels, probabilities.tolist(), strict=True))


def ending(text: str) -> str:
    """Returns the last part of `text`, a sentence or what follows a turn such as "but"; shorter parts do not count."""
    parts = [part for part in TURN.split(text.strip()) if len(part.split()) >= PART_WORDS_MIN]
    return parts[-1] if parts else text.strip()


def create() -> TextClassifierBackend:
    """Loads the classifier, warm.

    Raises:
        FileNotFoundError: Weights are missing.
        ValueError: The head does not fit the wheel.
    """
    folder = Settings().models_dir
    weights = (folder / "minilm/model.onnx", folder / "minilm/tokenizer.json", folder / "emoji/nade_250k_hp.ftz")
    digest = digest_of(*weights, HEAD_PATH)
    backend = TextClassifierBackend(FeatureReader(folder), Head.load(HEAD_PATH), emotions.load(), digest)
    backend.predict(Message(text="A first message, so that the first caller does not wait."))
    return backend


def _last_of_user(message: Message) -> str:
    return next((turn.text for turn in reversed(message.history) if turn.speaker == "user"), "")


def _first(vote: Mapping[str, float]) -> str:
    return max(vote, key=vote.__getitem__)


def _to_prediction(vote: Mapping[str, float], with_earlier: bool, message: Message) -> Prediction:
    words = len(message.text.split())
    best = sorted(vote, key=vote.__getitem__, reverse=True)[:3]
    evidence = {"nearest_labels": ", ".join(f"{name} {vote[name]:.2f}" for name in best), "words": str(words)}
    if with_earlier:
        evidence["read"] = "together with the user's message before, because this one says little"
    unread = len(message.history) - with_earlier
    saw = frozenset({Modality.TEXT})
    return Prediction(Level.LABEL, vote, saw, "classified", evidence=evidence, history_dropped=unread)
