"""Trains the adapter that replies are written with, on the stored exemplars and on nothing else.

    pip install jax optax gguf        (not needed to run the project)
    python -m services.mllm.training.reply_adapter --output another.gguf
    E3RG_MLLM_REPLY_ADAPTER=another.gguf python -m local up    (then `benchmarks.replies say`)

A LoRA as `adapter` says; loss on the reply's tokens only. Without `--output` it takes the place of the shipped one,
`services/mllm/backends/smollm2_reply.gguf`; read the benchmark's replies before.
"""

import argparse
import random
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import emotions
from services.mllm.backends.smollm2 import REPLY_ADAPTER, WEIGHTS
from services.mllm.domain import Message, Profile, ReplyRequest
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.prompt import ReplyPrompt
from services.mllm.training.adapter import PADDING, Tokenizer, Tree, fresh, hidden, load_weights, train, write

PASSES, BATCH, RATE = 3, 8, 1.5e-3
REPLY_TOKENS_MAX = 48
LENGTHS = (56, 68, 84, 110)
"""Batches are padded to one of these, so that only four programs are compiled."""
OTHER_LABEL_SHARE, MIRROR_SHARE, GENERAL_EVERY = 0.12, 0.12, 4
"""How often the prompt names a neighbouring label (votes err) or mirrors the emotion, or a general reply is taught."""
NAMES = (("Anna", "female"), ("Marcus", "male"), ("Ingrid", "female"), ("Kenji", "male"), ("Rosa", "female"))
AGES = ("young", "middle-aged", "elderly")


def examples(tokenizer: Tokenizer, turn: int, chance: random.Random) -> list[tuple[list[int], list[int]]]:
    """Returns prompt and reply of every pair, as tokens, for pass number `turn`."""
    wheel, store, prompt = emotions.load(), Exemplars(), ReplyPrompt.load("reply-1")
    made = []
    for number, pair in enumerate(store.pairs):
        general = store.general[pair.label][number // GENERAL_EVERY % 2]
        for target in [pair.reply, general] if (number + turn) % GENERAL_EVERY == 0 else [pair.reply]:
            kin = [one.name for one in wheel.labels.values() if one.coarse == wheel.label(pair.label).coarse]
            label = chance.choice(kin) if chance.random() < OTHER_LABEL_SHARE else pair.label
            policy = "mirror" if chance.random() < MIRROR_SHARE else "empathic"
            name, gender = chance.choice(NAMES)
            profile = Profile(name, chance.choice(AGES), gender, "mid")
            request = ReplyRequest(Message(pair.message), label, wheel.reply_to(label, policy).label, profile)
            made.append((tokenizer.tokens(prompt.text(request)), tokenizer.tokens(f"{target}<|im_end|>")))
    return made


def batches(pairs: list[tuple[list[int], list[int]]], chance: random.Random) -> list[tuple[Any, ...]]:
    """Returns batches of like length: tokens (b, t), places (b, r), targets (b, r) and their mask (b, r)."""
    filled = pairs + chance.choices(pairs, k=-len(pairs) % BATCH)
    pairs = sorted(filled, key=lambda pair: len(pair[0]) + len(pair[1]))
    made = []
    for start in range(0, len(pairs), BATCH):
        group = pairs[start : start + BATCH]
        longest = min(max(len(prompt) + len(reply) for prompt, reply in group), LENGTHS[-1])
        tokens = np.full((BATCH, next(length for length in LENGTHS if length >= longest)), PADDING)
        places, targets = np.zeros((2, BATCH, REPLY_TOKENS_MAX), int)
        mask = np.zeros((BATCH, REPLY_TOKENS_MAX))
        for row, (prompt, answer) in enumerate(group):
            reply = answer[: min(REPLY_TOKENS_MAX, LENGTHS[-1] - len(prompt))]
            whole = prompt + reply
            tokens[row, : len(whole)] = whole
            places[row, : len(reply)] = np.arange(len(reply)) + len(prompt) - 1
            targets[row, : len(reply)] = reply
            mask[row, : len(reply)] = 1
        made.append((tokens, places, targets, mask))
    chance.shuffle(made)
    return made


def loss(adapter: Tree, weights: Tree, batch: tuple[jax.Array, ...]) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Mean negative log-likelihood of the replies' tokens; nothing is told beside it."""
    tokens, places, targets, mask = batch
    h = jnp.take_along_axis(hidden(adapter, weights, tokens), places[..., None], axis=1)
    likelihood = jax.nn.log_softmax(h @ weights["embedding"].T)
    return -(jnp.take_along_axis(likelihood, targets[..., None], axis=2)[..., 0] * mask).sum() / mask.sum(), {}


def main() -> None:
    """Trains and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path(".models"), help="the model folder")
    parser.add_argument(
        "--output", type=Path, default=REPLY_ADAPTER, help="where the adapter goes; the shipped one's place"
    )
    parser.add_argument("--batches", type=int, help="stop after so many, to try the program out")
    arguments = parser.parse_args()
    path = arguments.models / WEIGHTS
    chance, tokenizer = random.Random(5), Tokenizer(path)
    taught = [batch for turn in range(PASSES) for batch in batches(examples(tokenizer, turn, chance), chance)]
    rate = optax.warmup_cosine_decay_schedule(0, RATE, 10, len(taught), RATE / 15)
    weights = load_weights(path)
    write(train(loss, fresh(weights["upper"]), weights, taught[: arguments.batches], rate), arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
