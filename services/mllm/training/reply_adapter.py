"""Trains the adapter that replies are written with, on the stored exemplars and on nothing else.

    pip install jax optax gguf        (not needed to run the project)
    python -m services.mllm.training.reply_adapter --output another.gguf
    E3RG_MLLM_REPLY_ADAPTER=another.gguf python -m benchmarks.replies

LoRA (Hu et al. 2021) of rank 8 on all linear layers of the upper twenty blocks, on the weights as they are quantised;
loss on the reply's tokens only. Without `--output` the new adapter takes the place of the shipped one,
`services/mllm/backends/smollm2_reply.gguf`; read the benchmark's replies before.

The forward pass is Llama's (Touvron et al. 2023) in GGUF's layout, where
rotary positions turn neighbouring pairs.
"""

import argparse
import itertools
import json
import random
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xllamacpp

import emotions
from services.mllm.backends.smollm2 import ADAPTER
from services.mllm.domain import Message, Profile, ReplyRequest
from services.mllm.reply.exemplars import CRISIS, Exemplars
from services.mllm.reply.prompt import ReplyPrompt

WEIGHTS = Path("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
BLOCKS, HEADS, KV_HEADS, HEAD, WIDTH = 30, 9, 3, 64, 576
ROPE_BASE, EPSILON = 100_000.0, 1e-5
FIRST_BLOCK, RANK, SCALE = 10, 8, 2.0
PASSES, BATCH, RATE = 3, 8, 1.5e-3
REPLY_TOKENS_MAX = 48
REPORT_EVERY = 10
LENGTHS = (56, 68, 84, 110)
"""Batches are padded to one of these, so that only four programs are compiled."""
PADDING = 2
"""Any token will do: nothing before it sees it."""
OTHER_LABEL_SHARE, MIRROR_SHARE, GENERAL_EVERY = 0.12, 0.12, 4
"""How often the prompt names a neighbouring label (votes err) or mirrors the emotion, or a general reply is taught."""
LINEAR = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
NAMES = (("Anna", "female"), ("Marcus", "male"), ("Ingrid", "female"), ("Kenji", "male"), ("Rosa", "female"))
AGES = ("young", "middle-aged", "elderly")

Tree = dict[str, Any]


class Tokenizer:
    """The model's own tokens, asked of its runtime."""

    def __init__(self, weights: Path) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx, parameters.n_parallel = str(weights), 256, 1
        parameters.verbosity = -1
        self._server = xllamacpp.Server(parameters)

    def tokens(self, text: str) -> list[int]:
        """Returns the tokens of `text`, marks included."""
        body = json.dumps({"content": text, "parse_special": True}).encode()
        request = Request(f"{self._server.listening_address}/tokenize", body, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            found: list[int] = json.load(answer)["tokens"]
        return found


def examples(tokenizer: Tokenizer, turn: int, chance: random.Random) -> list[tuple[list[int], list[int]]]:
    """Returns prompt and reply of every pair, as tokens, for pass number `turn`."""
    wheel, store, prompt = emotions.load(), Exemplars(), ReplyPrompt.load("reply-1")
    made = []
    for number, pair in enumerate(pair for pair in store.pairs if pair.label != CRISIS):
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


def load_weights(path: Path) -> Tree:
    """Returns the dequantised weights: `embedding`, `norm`, and the blocks stacked, those below the adapter apart."""
    tensors = {
        tensor.name: np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(
            tensor.shape[::-1]
        )
        for tensor in gguf.GGUFReader(path).tensors
    }
    names = sorted({name.split(".", 2)[2] for name in tensors if name.startswith("blk.")})
    stacked = {name: jnp.stack([tensors[f"blk.{block}.{name}"] for block in range(BLOCKS)]) for name in names}
    return {
        "embedding": jnp.asarray(tensors["token_embd.weight"]),
        "norm": jnp.asarray(tensors["output_norm.weight"]),
        "lower": {name: weight[:FIRST_BLOCK] for name, weight in stacked.items()},
        "upper": {name: weight[FIRST_BLOCK:] for name, weight in stacked.items()},
    }


def block(x: jax.Array, weights: Tree, adapter: Tree | None) -> jax.Array:
    """One transformer block; x (b, t, width)."""
    size, length, _ = x.shape
    place = jnp.arange(length)
    future = jnp.where(place[:, None] >= place[None], 0.0, -1e9)

    def linear(name: str, value: jax.Array) -> jax.Array:
        y = value @ weights[f"{name}.weight"].T
        if adapter is None:
            return y
        return y + SCALE * ((value @ adapter[f"{name}.a"].T) @ adapter[f"{name}.b"].T)

    h = normed(x, weights["attn_norm.weight"])
    query = turned(linear("attn_q", h).reshape(size, length, HEADS, HEAD), place)
    key = turned(linear("attn_k", h).reshape(size, length, KV_HEADS, HEAD), place)
    value = linear("attn_v", h).reshape(size, length, KV_HEADS, HEAD)
    key, value = (jnp.repeat(one, HEADS // KV_HEADS, axis=2) for one in (key, value))
    scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", query, key) / HEAD**0.5 + future, axis=-1)
    x = x + linear("attn_output", jnp.einsum("bhts,bshd->bthd", scores, value).reshape(size, length, WIDTH))
    h = normed(x, weights["ffn_norm.weight"])
    return x + linear("ffn_down", jax.nn.silu(linear("ffn_gate", h)) * linear("ffn_up", h))


def normed(x: jax.Array, gain: jax.Array) -> jax.Array:
    """Root-mean-square norm."""
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gain


def turned(x: jax.Array, place: jax.Array) -> jax.Array:
    """Rotary positions on neighbouring pairs; x (b, t, heads, head)."""
    angle = place[:, None] * ROPE_BASE ** (-jnp.arange(0, HEAD, 2) / HEAD)
    cosine, sine = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).reshape(x.shape)


def loss(adapter: Tree, weights: Tree, batch: tuple[jax.Array, ...]) -> jax.Array:
    """Mean negative log-likelihood of the replies' tokens."""
    tokens, places, targets, mask = batch
    h = jax.lax.scan(lambda h, w: (block(h, w, None), None), weights["embedding"][tokens], weights["lower"])[0]
    h = jax.lax.stop_gradient(h)
    h = jax.lax.scan(lambda h, pair: (block(h, *pair), None), h, (weights["upper"], adapter))[0]
    h = jnp.take_along_axis(normed(h, weights["norm"]), places[..., None], axis=1)
    likelihood = jax.nn.log_softmax(h @ weights["embedding"].T)
    return -(jnp.take_along_axis(likelihood, targets[..., None], axis=2)[..., 0] * mask).sum() / mask.sum()


def write(adapter: Tree, output: Path) -> None:
    """Writes the adapter as llama.cpp reads it."""
    writer = gguf.GGUFWriter(output, "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", SCALE * RANK)
    for name, stacked in adapter.items():
        layer, part = name.rsplit(".", 1)
        for number, matrix in enumerate(np.asarray(stacked, np.float16)):
            writer.add_tensor(f"blk.{FIRST_BLOCK + number}.{layer}.weight.lora_{part}", matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def fresh(weights: Tree) -> Tree:
    """Returns an adapter that changes nothing yet, for the blocks in `weights`."""
    adapter: Tree = {}
    for number, name in enumerate(LINEAR):
        blocks, outward, inward = weights[f"{name}.weight"].shape
        noise = jax.random.normal(jax.random.PRNGKey(number), (blocks, RANK, inward))
        adapter[f"{name}.a"] = noise / jnp.sqrt(inward)
        adapter[f"{name}.b"] = jnp.zeros((blocks, outward, RANK))
    return adapter


def train(weights: Tree, passes: list[list[tuple[Any, ...]]], batches_max: int | None) -> Tree:
    """Returns the adapter after all batches of `passes`, or the first `batches_max`; prints the loss on the way."""
    adapter = fresh(weights["upper"])
    rate = optax.warmup_cosine_decay_schedule(0, RATE, 10, sum(map(len, passes)), RATE / 15)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.01))
    state = optimiser.init(adapter)

    def step(adapter: Tree, state: Any, weights: Tree, batch: tuple[jax.Array, ...]) -> tuple[Tree, Any, jax.Array]:
        value, slope = jax.value_and_grad(loss)(adapter, weights, batch)
        change, state = optimiser.update(slope, state, adapter)
        return optax.apply_updates(adapter, change), state, value

    compiled, losses, began = jax.jit(step), [], time.monotonic()
    for batch in itertools.islice(itertools.chain.from_iterable(passes), batches_max):
        adapter, state, value = compiled(adapter, state, weights, batch)
        losses.append(float(value))
        if len(losses) % REPORT_EVERY == 0:
            recent = sum(losses[-REPORT_EVERY:]) / REPORT_EVERY
            print(f"{len(losses)} batches, {time.monotonic() - began:.0f} s: loss {recent:.2f}", flush=True)
    return adapter


def main() -> None:
    """Trains and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path(".models"), help="the model folder")
    parser.add_argument("--output", type=Path, default=ADAPTER, help="where the adapter goes; the shipped one's place")
    parser.add_argument("--batches", type=int, help="stop after so many, to try the program out")
    arguments = parser.parse_args()
    path = arguments.models / WEIGHTS
    chance, tokenizer = random.Random(5), Tokenizer(path)
    passes = [batches(examples(tokenizer, turn, chance), chance) for turn in range(PASSES)]
    print(f"{sum(map(len, passes))} batches of {BATCH} in {PASSES} passes", flush=True)
    write(train(load_weights(path), passes, arguments.batches), arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
