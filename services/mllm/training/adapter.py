"""The adapter of SmolLM2, as it is trained: LoRA (Hu et al. 2021) on JAX, written as llama.cpp reads it.

Of rank 8, on all linear layers of the upper twenty blocks, on the weights as they are quantised. The forward pass is
Llama's (Touvron et al. 2023) in GGUF's layout, where rotary positions turn neighbouring pairs.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xllamacpp

BLOCKS, HEADS, KV_HEADS, HEAD, WIDTH = 30, 9, 3, 64, 576
ROPE_BASE, EPSILON = 100_000.0, 1e-5
FIRST_BLOCK, RANK, SCALE = 10, 8, 2.0
LINEAR = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
REPORT_EVERY = 20
PADDING = 2
"""Any token will do: nothing before it sees it."""

Tree = dict[str, Any]
Loss = Callable[[Tree, Tree, Any], tuple[jax.Array, dict[str, jax.Array]]]
"""Of an adapter on the weights and a batch: what is to fall, and what else is told on the way, by name."""


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


def hidden(adapter: Tree, weights: Tree, tokens: jax.Array) -> jax.Array:
    """What the model with the adapter holds after each of the tokens (b, t), normed: (b, t, width)."""
    h = jax.lax.scan(lambda h, w: (block(h, w, None), None), weights["embedding"][tokens], weights["lower"])[0]
    h = jax.lax.stop_gradient(h)
    h = jax.lax.scan(lambda h, pair: (block(h, *pair), None), h, (weights["upper"], adapter))[0]
    return normed(h, weights["norm"])


def fresh(weights: Tree) -> Tree:
    """Returns an adapter that changes nothing yet, for the blocks in `weights`."""
    adapter: Tree = {}
    for number, name in enumerate(LINEAR):
        blocks, outward, inward = weights[f"{name}.weight"].shape
        noise = jax.random.normal(jax.random.PRNGKey(number), (blocks, RANK, inward))
        adapter[f"{name}.a"] = noise / jnp.sqrt(inward)
        adapter[f"{name}.b"] = jnp.zeros((blocks, outward, RANK))
    return adapter


def train(loss: Loss, adapter: Tree, weights: Tree, batches: Sequence[Any], rate: optax.Schedule) -> Tree:
    """Returns `adapter` after all batches; prints the mean of what `loss` tells on the way.

    Args:
        loss: What is to fall.
        adapter: Where it begins.
        weights: The model's, which stay.
        batches: Each is read once.
        rate: The learning rate by the number of the batch.
    """
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.01))
    state = optimiser.init(adapter)

    def step(adapter: Tree, state: Any, weights: Tree, batch: Any) -> tuple[Tree, Any, dict[str, jax.Array]]:
        (value, others), slope = jax.value_and_grad(loss, has_aux=True)(adapter, weights, batch)
        change, state = optimiser.update(slope, state, adapter)
        return optax.apply_updates(adapter, change), state, {"loss": value, **others}

    compiled, began = jax.jit(step), time.monotonic()
    recent: list[dict[str, jax.Array]] = []
    for count, batch in enumerate(batches, 1):
        adapter, state, told = compiled(adapter, state, weights, batch)
        recent.append(told)
        if len(recent) == REPORT_EVERY or count == len(batches):
            means = ", ".join(f"{name} {np.mean([each[name] for each in recent]):.2f}" for name in told)
            print(f"{count} of {len(batches)} batches, {time.monotonic() - began:.0f} s: {means}", flush=True)
            recent.clear()
    return adapter


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
