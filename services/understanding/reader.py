"""Reads how a message sounds, which replies fit it, and whether it speaks of a risk, by an adapter of the encoder."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perception.mpnet import Array, Encoder, joined, sigmoid, softmax
from services.understanding.risk.domain import Kind
from services.understanding.spelling import readable
from services.understanding.tones.fits import Fit, ReplyFits
from services.understanding.tones.store import Act, Tone

ADAPTER = Path(__file__).with_suffix(".npz")
BEFORE = 2
"""Messages of the user that are read with the one that is answered."""
BEST_WEIGHT = 0.2
"""Of the probability that no tone fits better, beside that it fits: of two that fit, the more particular is said."""
IRONY, DANGER = "irony", "danger"
"""Tones: of what means the opposite, and of what may be a danger."""
IRONY_MARK = re.compile(r"\s*(?:(?<!\S)/s(?:arcasm)?|#sarcasm|#irony|\u2e2e)\s*$", re.IGNORECASE)
"""At the end of a message, says that it is meant as irony, whatever it reads like."""


@dataclass(frozen=True)
class Heard:
    """A tone that a message may have.

    Attributes:
        tone: The tone.
        fit: Probability that its replies fit.
        best: Probability that none fits better.
    """

    tone: Tone
    fit: float
    best: float


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        heard: All tones, the best first.
        fits: How well each stored reply fits.
    """

    heard: tuple[Heard, ...]
    fits: Mapping[str, Fit]

    @property
    def act(self) -> Act:
        """What the message does: the act of its best tone."""
        return self.heard[0].tone.act


class MessageReader:
    """Reads messages, each behind what the user said before it.

    Args:
        models_dir: The model folder.
        tones: Of which the head was taught.
        replies: Stored replies that may be said.
        adapter: The adapter and the head.

    Raises:
        FileNotFoundError: A file of the model is missing; the message names it.
        ValueError: The head was taught others, or a reply was not learned.
    """

    def __init__(
        self, models_dir: Path, tones: Sequence[Tone], replies: Collection[str], adapter: Path = ADAPTER
    ) -> None:
        self._tones = tones
        with np.load(adapter) as trained:
            if str(trained["names"]) != digest_of_names(tones):
                raise ValueError(f"{adapter.name} was taught other tones: train it anew with `training.reader_adapter`")
        self._fits = ReplyFits(replies)
        self._encoder = Encoder(models_dir, adapter)
        names = [tone.name for tone in tones]
        self._irony = names.index(IRONY)

    def read(self, text: str, before: str = "") -> Reading:
        """Return how a text sounds and what fits it; `before` is what the user said before it. Blocks for some 20 ms.

        A message that is marked as irony is taken for it. Of a long text, the window that is surest of its best tone
        counts.
        """
        plain = IRONY_MARK.sub("", text)
        means = self._encoder.means(readable(joined(plain, before)))
        windows = [
            (*self._split(logits)[:2], logits, mean)
            for logits, mean in zip(self._encoder.logits(means), means, strict=True)
        ]
        best, fit, logits, mean = max(windows, key=lambda window: float(window[0].max()))
        fits = self._fits.of(np.concatenate([logits, mean]))
        if plain != text:
            best = fit = np.eye(len(self._tones), dtype=np.float32)[self._irony]
            fits |= dict.fromkeys(self._tones[self._irony].replies, Fit(1.0, 1.0))
        return Reading(weighed(self._tones, best, fit), fits)

    def risk(self, text: str, before: str = "") -> tuple[Array, Array]:
        """Return the probability of each `Kind` of risk, float32 (6,), and of each `Severity`, float32 (3,).

        Of a long text, those of the window that most likely speaks of a risk. Blocks for some 20 ms.
        """
        logits = self._encoder.read(readable(joined(IRONY_MARK.sub("", text), before)))
        return max((self._split(window)[2:] for window in logits), key=lambda window: float(window[0].sum()))

    def _split(self, logits: Array) -> tuple[Array, Array, Array, Array]:
        """Return of each tone the probability that it is best and that it fits, then of each kind and severity."""
        ends = np.cumsum([len(self._tones), len(self._tones), 1 + len(Kind)])
        best, fit, kinds, severities = np.split(logits, ends)
        return softmax(best), sigmoid(fit), softmax(kinds)[1:], softmax(severities)


def weighed(tones: Sequence[Tone], best: Array, fit: Array) -> tuple[Heard, ...]:
    """Return the tones by their probabilities, the best first.

    Args:
        tones: All tones.
        best: Probability of each tone that none fits better, float32 (tones,).
        fit: That its replies fit, float32 (tones,).
    """
    told = [Heard(*each) for each in zip(tones, fit.tolist(), best.tolist(), strict=True)]
    return tuple(sorted(told, key=lambda each: each.fit + BEST_WEIGHT * each.best, reverse=True))


def digest_of_names(tones: Sequence[Tone]) -> str:
    """Return the digest of the names of all tones that a head is taught, SHA-256 (hex)."""
    return hashlib.sha256(json.dumps([tone.name for tone in tones]).encode()).hexdigest()
