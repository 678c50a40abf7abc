"""Trains the adapter that SmolLM2 votes with, on `sentences.toml` and `situations.toml` and on nothing else.

    pip install jax optax gguf        (not needed to run the project)
    python -m services.mllm.training.vote_adapter --output another.gguf
    E3RG_MLLM_VOTE_ADAPTER=another.gguf python -m benchmarks.panel --csv situations.csv

A LoRA as `adapter` says. What is learned is one word: after "Feeling:" the label, against the other labels only,
which is just what the vote reads. Part of a label's probability goes to its neighbours on the wheel, as in `train`.
First come the short sentences, then, at half the rate, the longer situations among as many of the sentences.
Without `--output` the new adapter takes the place of the shipped one, `services/mllm/backends/smollm2_vote.gguf`.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

import emotions
from services.mllm.backends.smollm2 import VOTE_ADAPTER, WEIGHTS
from services.mllm.domain import NEUTRAL
from services.mllm.language.vote import VotePrompt, label_pieces
from services.mllm.training.adapter import PADDING, Tokenizer, Tree, fresh, hidden, load_weights, train, write
from services.mllm.training.train import SENTENCES_PATH, read_sentences, targets

PROMPT = "vote-2"
SITUATIONS_PATH = SENTENCES_PATH.with_name("situations.toml")
BATCH, SEED = 16, 5
LENGTHS = (20, 28, 40, 56, 80, 112)
"""Batches are padded to one of these, so that only six programs are compiled."""
TOGETHER_SHARE, AFTER_NEUTRAL_SHARE = 0.125, 0.125
"""How often a text comes after another of its label, or after one without feeling: people say more than one thing."""


@dataclass(frozen=True)
class Course:
    """One part of the training.

    Attributes:
        passes: How often every text is read.
        rate: Highest learning rate.
        warm_up: Batches until it is reached.
        careless_share: How often capitals and apostrophes are left out.
    """

    passes: int
    rate: float
    warm_up: int
    careless_share: float


SHORT = Course(passes=2, rate=1e-3, warm_up=20, careless_share=0.0)
LONG = Course(passes=1, rate=5e-4, warm_up=10, careless_share=0.12)


class Lessons:
    """Makes batches of labelled texts: tokens (b, t), place of the last (b,), target (b, labels)."""

    def __init__(self, texts: Sequence[str], truth: NDArray[np.intp], ask: Callable[[str], list[int]]) -> None:
        wheel = emotions.load()
        self._texts, self._truth, self._ask = texts, truth, ask
        self._targets = targets(truth, wheel).astype(np.float32)
        self._neutral = list(wheel.labels).index(NEUTRAL)
        self._by_label: dict[int, list[str]] = {}
        for text, label in zip(texts, truth, strict=True):
            self._by_label.setdefault(int(label), []).append(text)

    def batches(self, course: Course, chance: random.Random) -> list[Any]:
        """Returns the batches of a course, each of texts of like length."""
        made = []
        for _ in range(course.passes):
            rows = [
                (self._ask(self._told(text, int(label), course.careless_share, chance)), target)
                for text, label, target in zip(self._texts, self._truth, self._targets, strict=True)
            ]
            rows += chance.choices(rows, k=-len(rows) % BATCH)
            rows.sort(key=lambda row: len(row[0]) + chance.random() * 6)
            one_pass = [_batch(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
            chance.shuffle(one_pass)
            made += one_pass
        return made

    def _told(self, text: str, label: int, careless_share: float, chance: random.Random) -> str:
        drawn = chance.random()
        if drawn < TOGETHER_SHARE:
            text = f"{chance.choice(self._by_label[label])} {text}"
        elif drawn < TOGETHER_SHARE + AFTER_NEUTRAL_SHARE and label != self._neutral:
            text = f"{chance.choice(self._by_label[self._neutral])} {text}"
        return text.lower().replace("'", "") if chance.random() < careless_share else text


def _batch(rows: list[tuple[list[int], Any]]) -> tuple[Any, ...]:
    longest = max(len(tokens) for tokens, _ in rows)
    padded = np.full((len(rows), next(length for length in LENGTHS if length >= longest)), PADDING)
    for row, (tokens, _) in enumerate(rows):
        padded[row, : len(tokens)] = tokens
    return padded, np.array([len(tokens) - 1 for tokens, _ in rows]), np.stack([target for _, target in rows])


def loss(adapter: Tree, weights: Tree, batch: tuple[jax.Array, ...]) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Mean cross-entropy over the labels' tokens, and beside it the share of texts whose label is the likeliest."""
    tokens, last, target = batch
    h = jnp.take_along_axis(hidden(adapter, weights, tokens), last[:, None, None], axis=1)[:, 0]
    likelihood = jax.nn.log_softmax(h @ weights["labels"].T)
    right = (likelihood.argmax(1) == target.argmax(1)).mean()
    return -(likelihood * target).sum(axis=1).mean(), {"right": right}


def main() -> None:
    """Trains and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path(".models"), help="the model folder")
    parser.add_argument("--output", type=Path, default=VOTE_ADAPTER, help="where it goes; the shipped one's place")
    parser.add_argument("--batches", type=int, help="stop each part after so many, to try the program out")
    arguments = parser.parse_args()
    path, wheel, prompt = arguments.models / WEIGHTS, emotions.load(), VotePrompt.load(PROMPT)
    chance = random.Random(SEED)
    tokenizer = Tokenizer(path)

    def ask(text: str) -> list[int]:
        return tokenizer.tokens(prompt.text(text, ()))

    short, short_truth = read_sentences(SENTENCES_PATH, wheel)
    long, long_truth = read_sentences(SITUATIONS_PATH, wheel)
    among = chance.sample(range(len(short)), len(long))
    mixed, mixed_truth = long + [short[row] for row in among], np.concatenate([long_truth, short_truth[among]])
    weights = load_weights(path)
    pieces = [tokenizer.tokens(piece) for piece in label_pieces(prompt, tuple(wheel.labels))]
    weights["labels"] = weights["embedding"][jnp.array([token for (token,) in pieces])]
    adapter = fresh(weights["upper"])
    for course, lessons in (
        (SHORT, Lessons(short, short_truth, ask)),
        (LONG, Lessons(mixed, mixed_truth, ask)),
    ):
        batches = lessons.batches(course, chance)
        rate = optax.warmup_cosine_decay_schedule(0, course.rate, course.warm_up, len(batches), course.rate / 20)
        adapter = train(loss, adapter, weights, batches[: arguments.batches], rate)
    write(adapter, arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
