"""Train an adapter of the text encoder on the CPU: LoRA (Hu et al., 2021) of its upper layers, and a linear head.

The lower layers are left as an earlier adapter made them. Their states are computed once, by the eight-bit graph that
also serves, so that a step costs a third of what training the whole takes. Needs `torch`, `transformers` and `onnx`.
"""

import argparse
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import MPNetConfig, MPNetModel

from perception.mpnet import GRAPH, SEPARATOR, WINDOW_TOKENS, Encoder, message_start

LAYERS_BELOW = 8
"""Of the encoder's twelve, those whose states are computed once."""
BELOW_OUTPUT = "t241"
"""Name of their output in the graph (`mpnet_graph`)."""
RANK = 16
BATCH, WARM_UP, WEIGHT_DECAY = 16, 0.06, 0.01
HEAD_RATE_FACTOR = 4
CONFIG = MPNetConfig(vocab_size=30527, max_position_embeddings=514, layer_norm_eps=1e-5)
PARTS = (*"qkvo", "up", "down")


@dataclass(frozen=True)
class States:
    """States of a text's tokens after the lower layers.

    Attributes:
        tokens: float16 (n, 768).
        start: Place of the first token of the message; before it stands what was said before.
    """

    tokens: NDArray[np.float16]
    start: int


class Text(Protocol):
    """A message to learn from."""

    @property
    def text(self) -> str:
        """Its words."""


Message = TypeVar("Message", bound=Text)


def below(models_dir: Path, adapter: Path) -> Callable[[str], States]:
    """Return a function from a text to its states; the end of a text longer than a window is cut off."""
    graph = onnx.load(str(GRAPH), load_external_data=False)
    del graph.graph.output[:]
    graph.graph.output.append(onnx.helper.make_tensor_value_info(BELOW_OUTPUT, onnx.TensorProto.FLOAT, ["n", 768]))
    encoder = Encoder(models_dir, adapter, graph.SerializeToString())

    def states(text: str) -> States:
        ids = encoder.ids(text)
        ids = [ids[0], *ids[1:-1][:WINDOW_TOKENS], ids[-1]]
        return States(encoder.run(ids).astype(np.float16), message_start(ids))

    return states


class Lora(nn.Module):  # type: ignore[misc]  # no types without torch
    """A frozen product with a small one beside it."""

    def __init__(self, product: nn.Linear) -> None:
        super().__init__()
        self.product = product
        self.a = nn.Parameter(torch.randn(RANK, product.in_features) / product.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(product.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        """Return both products' sum."""
        result: Tensor = self.product(x) + x @ self.a.T @ self.b.T
        return result


class Classifier(nn.Module):  # type: ignore[misc]
    """The encoder's upper layers with their adapter and a head."""

    def __init__(self, model_dir: Path, outputs: int) -> None:
        super().__init__()
        whole = MPNetModel.from_pretrained(model_dir, config=CONFIG, add_pooling_layer=False).requires_grad_(False)
        self.upper = whole.encoder
        self.upper.layer = self.upper.layer[LAYERS_BELOW:]
        self.loras: dict[str, Lora] = {}
        for number, layer in enumerate(self.upper.layer, LAYERS_BELOW):
            attention = layer.attention.attn
            places: list[tuple[str, Any, str]] = [(part, attention, part) for part in "qkvo"]
            places += [("up", layer.intermediate, "dense"), ("down", layer.output, "dense")]
            for part, owner, name in places:
                lora = Lora(getattr(owner, name))
                setattr(owner, name, lora)
                self.loras[f"{number}.{part}"] = lora
        self.head = nn.Linear(CONFIG.hidden_size, outputs)

    def forward(self, states: Tensor, mask: Tensor, own: Tensor) -> Tensor:
        """Return logits (n, outputs) of the states of texts (n, t, 768); see `padded`."""
        hidden = (1 - mask[:, None, None, :]) * -1e4
        states = self.upper(states, attention_mask=hidden)[0]
        mean = (states * own[..., None]).sum(1) / own.sum(1, keepdim=True)
        result: Tensor = self.head(nn.functional.dropout(mean, 0.1, self.training))
        return result


def as_spoken(text: str, chance: random.Random) -> str:
    """Return a message as a recogniser may write it: lower case, without marks, a letter or a word lost."""
    if SEPARATOR in text:
        return f" {SEPARATOR} ".join(as_spoken(part, chance) for part in text.split(SEPARATOR))
    plain = re.sub(r"[^\w' ]+", " ", text.lower()).split()
    if len(plain) > 5 and chance.random() < 0.3:
        del plain[chance.randrange(len(plain))]
    if chance.random() < 0.3:
        place = chance.randrange(len(plain) or 1)
        word = plain[place] if plain else ""
        if len(word) > 4:
            cut = chance.randrange(1, len(word) - 1)
            plain[place] = word[:cut] + word[cut + 1 :]
    if chance.random() < 0.2:
        plain.insert(0, chance.choice(["um", "well", "so", "uh i mean", "hey"]))
    return " ".join(plain) or text


def options(doc: str | None, target: Path, start: Path, epochs: int) -> argparse.ArgumentParser:
    """Return a parser of the command line of a training: `models_dir`, `threads`, `to`, `start`, `epochs`."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("models_dir", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--to", type=Path, default=target)
    parser.add_argument("--start", type=Path, default=start, help="adapter to go on from")
    parser.add_argument("--epochs", type=int, default=epochs)
    return parser


def split(
    doc: str | None, target: Path, start: Path, epochs: int, every: Sequence[Message]
) -> tuple[argparse.Namespace, list[Message], list[Message]]:
    """Return the command line, the messages to learn from, and those that its `--hold` holds out; see `options`."""
    parser = options(doc, target, start, epochs)
    parser.add_argument("--hold", type=int, default=0, help="hold every n-th message out, to see what is found of it")
    given = parser.parse_args()
    is_held = [bool(given.hold) and not place % given.hold for place in range(len(every))]
    shown, held = ([one for one, is_out in zip(every, is_held, strict=True) if is_out is out] for out in (False, True))
    return given, shown, held


@dataclass(frozen=True)
class Material(Generic[Message]):
    """Messages to train on and those that are held out, with the states of their lower layers."""

    taught: list[tuple[Message, States]]
    held: list[Message]
    judged: list[States]


def material(
    shown: Sequence[Message], held: Sequence[Message], states: Callable[[str], States], spoken_share: float = 0.0
) -> Material[Message]:
    """Return messages with their states; of a share of those that are shown, also what a recogniser may write of it."""
    chance = random.Random(1)
    taught = [(one, states(one.text)) for one in shown]
    taught += [(one, states(as_spoken(one.text, chance))) for one in shown if chance.random() < spoken_share]
    print(f"{len(taught)} messages, {len(held)} held out", flush=True)
    return Material(taught, list(held), [states(one.text) for one in held])


def train(
    model: Classifier,
    taught: Sequence[tuple[Message, States]],
    loss_of: Callable[[Tensor, Sequence[Message]], Tensor],
    epochs: int,
    rate: float,
    after: Callable[[], None],
) -> None:
    """Train on messages with the states of their lower layers; call `after` at the end of each epoch."""
    chance = random.Random(0)
    loras = [part for lora in model.loras.values() for part in (lora.a, lora.b)]
    head = list(model.head.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": loras, "lr": rate}, {"params": head, "lr": rate * HEAD_RATE_FACTOR}], weight_decay=WEIGHT_DECAY
    )
    steps = epochs * -(-len(taught) // BATCH)
    warm_up = max(1, int(WARM_UP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, max(0.0, (steps - step) / (steps - warm_up)))
    )
    for epoch in range(epochs):
        model.train()
        start_s, total = time.monotonic(), 0.0
        for part in batches(taught, chance):
            loss = loss_of(model(*padded([states for _, states in part])), [message for message, _ in part])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*loras, *head], 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(f"epoch {epoch + 1}: {time.monotonic() - start_s:.0f} s, loss {total / (steps / epochs):.3f}", flush=True)
        model.eval()
        after()


def batches(
    taught: Sequence[tuple[Message, States]], chance: random.Random
) -> Iterator[Sequence[tuple[Message, States]]]:
    """Yield the messages in an order by chance, batches of like length together."""
    order = sorted(taught, key=lambda each: len(each[1].tokens) + chance.random() * 8)
    parts = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    chance.shuffle(parts)
    yield from parts


def padded(states: Sequence[States]) -> tuple[Tensor, Tensor, Tensor]:
    """Return states of texts as one tensor (n, t, 768), and the masks (n, t) of what is text and of the messages."""
    longest = max(len(each.tokens) for each in states)
    joined = torch.zeros(len(states), longest, CONFIG.hidden_size)
    mask, own = torch.zeros(2, len(states), longest)
    for row, each in enumerate(states):
        joined[row, : len(each.tokens)] = torch.from_numpy(each.tokens.astype(np.float32))
        mask[row, : len(each.tokens)] = 1
        own[row, each.start : len(each.tokens)] = 1
    return joined, mask, own


@torch.no_grad()  # type: ignore[untyped-decorator]
def logits_of(model: Classifier, states: Sequence[States]) -> Tensor:
    """Return the logits of texts, (n, outputs)."""
    return torch.cat([model(*padded(states[start : start + 64])) for start in range(0, len(states), 64)])


def save(model: Classifier, below: Path, path: Path, **texts: str) -> None:
    """Write adapter and head in half precision, and `texts` beside them.

    The adapter of the lower layers is that of `below`.
    """
    tensors = {"head.weight": model.head.weight, "head.bias": model.head.bias}
    for name, lora in model.loras.items():
        tensors |= {f"{name}.a": lora.a, f"{name}.b": lora.b}
    arrays: dict[str, Any] = {name: tensor.detach().numpy().astype(np.float16) for name, tensor in tensors.items()}
    with np.load(below) as earlier:
        kept = {f"{layer}.{part}.{side}" for layer in range(LAYERS_BELOW) for part in PARTS for side in "ab"}
        arrays |= {name: earlier[name] for name in earlier.files if name in kept}
    arrays |= {name: np.array(text) for name, text in texts.items()}
    np.savez(path, **arrays)


@torch.no_grad()  # type: ignore[untyped-decorator]
def load(model: Classifier, path: Path, head: bool) -> None:
    """Read the upper layers of what `save` wrote, and the head if it is the same."""
    with np.load(path) as saved:
        for name, lora in model.loras.items():
            if f"{name}.a" in saved:
                lora.a.copy_(torch.from_numpy(saved[f"{name}.a"].astype(np.float32)))
                lora.b.copy_(torch.from_numpy(saved[f"{name}.b"].astype(np.float32)))
        if head:
            model.head.weight.copy_(torch.from_numpy(saved["head.weight"].astype(np.float32)))
            model.head.bias.copy_(torch.from_numpy(saved["head.bias"].astype(np.float32)))
