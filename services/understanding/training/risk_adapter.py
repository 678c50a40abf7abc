"""Train the adapter of the risk classifier, `services/understanding/risk/classifier.npz`.

LoRA (Hu et al., 2021) of rank 16 on every product of the upper layers of all-mpnet-base-v2, and a linear head on the
mean of its tokens: one class of six kinds and none, and one of three severities. Needs `torch` and `transformers`:

    python -m services.understanding.training.risk_adapter .models --hold 8 --to first.npz
    python -m services.understanding.training.risk_adapter .models --hold 8 --start first.npz --epochs 2 --rate 1.5e-4

    python -m services.understanding.training.risk_adapter .models --start second.npz --epochs 2 --rate 1.5e-4
        --keep 0.7

The first taught what danger is, before `stories.txt` was written and without `ordinary()`; the second, with both, what
it is not; the third, with the topics' messages, is left to seven tenths as it was (Wortsman et al., 2022, "Model
soups"): alone it found 24 of the 29 cries of `tests/unit/test_risk_screen.py`, the mean 27 like the second, with half
of the second's false alarms in ordinary talk. What was held out set the bars (`screen.Bars`).
"""

import argparse
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import MPNetConfig, MPNetModel, PreTrainedTokenizerFast

from services.understanding.risk.domain import Kind, Severity
from services.understanding.training.risk_messages import Labelled, ordinary, read

TARGET = Path(__file__).parent.with_name("risk") / "classifier.npz"
KINDS = ("none", *Kind)
SEVERITIES = tuple(severity.name.lower() for severity in Severity)
RANK, LAYERS_FROZEN = 16, 3
BATCH, EPOCHS, RATE, WARM_UP = 16, 6, 3e-4, 0.06
HEAD_RATE_FACTOR = 3
SMOOTHING, SEVERITY_WEIGHT = 0.05, 0.3
AS_SPOKEN_SHARE = 0.3
"""Of messages that are shown as a speech recogniser writes them, or somebody in a hurry."""
TOKENS_MAX = 96


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
    """The encoder with its adapter and head."""

    def __init__(self, model_dir: Path, outputs: int = len(KINDS) + len(SEVERITIES)) -> None:
        super().__init__()
        weights = MPNetModel.from_pretrained(model_dir, config=CONFIG, add_pooling_layer=False)
        self.encoder = weights.requires_grad_(False)
        self.loras: dict[str, Lora] = {}
        for number, layer in enumerate(self.encoder.encoder.layer):
            if number < LAYERS_FROZEN:
                continue
            attention = layer.attention.attn
            places: list[tuple[str, Any, str]] = [(part, attention, part) for part in "qkvo"]
            places += [("up", layer.intermediate, "dense"), ("down", layer.output, "dense")]
            for part, owner, name in places:
                lora = Lora(getattr(owner, name))
                setattr(owner, name, lora)
                self.loras[f"{number}.{part}"] = lora
        self.head = nn.Linear(CONFIG.hidden_size, outputs)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return logits (n, outputs) of texts (n, t)."""
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        result: Tensor = self.head(nn.functional.dropout(mean, 0.1, self.training))
        return result


CONFIG = MPNetConfig(vocab_size=30527, max_position_embeddings=514, layer_norm_eps=1e-5)


def as_spoken(text: str, chance: random.Random) -> str:
    """Return a message as a recogniser may write it: lower case, without marks, a letter or a word lost."""
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


class Text(Protocol):
    """A message to learn from."""

    @property
    def text(self) -> str:
        """Its words."""


Message = TypeVar("Message", bound=Text)


def batches(messages: Sequence[Message], chance: random.Random) -> Iterator[list[Message]]:
    """Yield the messages in an order by chance, batches of like length together."""
    order = sorted(messages, key=lambda each: len(each.text) + chance.random() * 40)
    parts = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    chance.shuffle(parts)
    yield from parts


def encode(tokenizer: Any, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return tokens and mask of texts, (n, t) each."""
    made = tokenizer(list(texts), padding=True, truncation=True, max_length=TOKENS_MAX, return_tensors="pt")
    return made["input_ids"], made["attention_mask"]


def train(
    model: Classifier,
    tokenizer: Any,
    messages: Sequence[Labelled],
    held: Sequence[Labelled],
    epochs: int = EPOCHS,
    rate: float = RATE,
) -> None:
    """Train, and print after each epoch what is found of the messages that are held out."""
    chance = random.Random(0)
    groups: list[dict[str, Any]] = [
        {"params": [part for lora in model.loras.values() for part in (lora.a, lora.b)], "lr": rate}
    ]
    groups.append({"params": list(model.head.parameters()), "lr": rate * HEAD_RATE_FACTOR})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = epochs * -(-len(messages) // BATCH)
    warm_up = max(1, int(WARM_UP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, max(0.0, (steps - step) / (steps - warm_up)))
    )
    of_kind = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    of_severity = nn.CrossEntropyLoss(ignore_index=-1)
    for epoch in range(epochs):
        model.train()
        start_s, total = time.monotonic(), 0.0
        for part in batches(messages, chance):
            texts = [as_spoken(one.text, chance) if chance.random() < AS_SPOKEN_SHARE else one.text for one in part]
            logits = model(*encode(tokenizer, texts))
            kinds = torch.tensor([KINDS.index(one.kind) for one in part])
            severities = torch.tensor([SEVERITIES.index(one.severity) if one.severity else -1 for one in part])
            loss = of_kind(logits[:, : len(KINDS)], kinds)
            if (severities >= 0).any():
                loss = loss + SEVERITY_WEIGHT * of_severity(logits[:, len(KINDS) :], severities)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss)
        print(f"epoch {epoch + 1}: {time.monotonic() - start_s:.0f} s, loss {total / (steps / epochs):.3f}", flush=True)
        if held:
            report(model, tokenizer, held)


@torch.no_grad()  # type: ignore[untyped-decorator]
def report(model: Classifier, tokenizer: Any, held: Sequence[Labelled]) -> None:
    """Print, for bars of some shares of false alarms among look-alikes, what is found of plain and veiled messages."""
    model.eval()
    parts = [[one.text for one in held[start : start + 64]] for start in range(0, len(held), 64)]
    logits = torch.cat([model(*encode(tokenizer, part)) for part in parts])
    risk = 1 - logits[:, : len(KINDS)].softmax(1)[:, 0].numpy()
    forms = np.array([one.form for one in held])
    for false in (0.02, 0.05, 0.1):
        bar = float(np.quantile(risk[forms == "lookalike"], 1 - false))
        shares = {form: float((risk[forms == form] > bar).mean()) for form in ("plain", "veiled", "everyday")}
        print(f"  bar {bar:.3f}: " + ", ".join(f"{form} {share:.1%}" for form, share in shares.items()), flush=True)


def save(model: Classifier, path: Path, **texts: str) -> None:
    """Write adapter and head in half precision, and `texts` beside them."""
    tensors = {"head.weight": model.head.weight, "head.bias": model.head.bias}
    for name, lora in model.loras.items():
        tensors |= {f"{name}.a": lora.a, f"{name}.b": lora.b}
    arrays: dict[str, Any] = {name: tensor.detach().numpy().astype(np.float16) for name, tensor in tensors.items()}
    arrays |= {name: np.array(text) for name, text in texts.items()}
    np.savez(path, **arrays)


@torch.no_grad()  # type: ignore[untyped-decorator]
def load(model: Classifier, path: Path) -> None:
    """Read what `save` wrote."""
    with np.load(path) as saved:
        tensors = {name: torch.from_numpy(saved[name].astype(np.float32)) for name in saved.files}
    model.head.load_state_dict({name: tensors[f"head.{name}"] for name in ("weight", "bias")})
    for name, lora in model.loras.items():
        lora.a.copy_(tensors[f"{name}.a"])
        lora.b.copy_(tensors[f"{name}.b"])


@torch.no_grad()  # type: ignore[untyped-decorator]
def average(model: Classifier, earlier: Classifier, path: Path, share: float) -> None:
    """Mix an earlier adapter, saved at `path`, into a model."""
    load(earlier, path)
    before = dict(earlier.named_parameters())
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            weight.lerp_(before[name], share)


def main() -> None:
    """Train on all messages, or hold every n-th out to see what is found of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models_dir", type=Path)
    parser.add_argument("--hold", type=int, default=0, help="hold every n-th message out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--to", type=Path, default=TARGET)
    parser.add_argument("--start", type=Path, help="adapter to go on from")
    parser.add_argument(
        "--keep", type=float, default=0.0, help="share of the adapter it started from, in the mean of both"
    )
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    folder = arguments.models_dir / "mpnet"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<pad>")
    messages = read() + ordinary()
    held = messages[:: arguments.hold] if arguments.hold else []
    taught = [one for one in messages if one not in held]
    print(f"{len(taught)} messages, {len(held)} held out", flush=True)
    model = Classifier(folder)
    if arguments.start:
        load(model, arguments.start)
    train(model, tokenizer, taught, held, arguments.epochs, arguments.rate)
    if arguments.keep:
        average(model, Classifier(folder), arguments.start, arguments.keep)
    save(model, arguments.to)


if __name__ == "__main__":
    main()
