"""Train the adapter of the voter on all-mpnet-base-v2, `services/mllm/backends/mpnet.npz`.

Its head has the labels of the emotion wheel. It learns from `situations.tsv`, from the messages with a tone, and from
what the other voters of text learn from; its lower layers are those of the topic reader. Needs `torch`, `transformers`
and `onnx`:

    python -m services.understanding.training.feeling_adapter .models --hold 12
"""

import argparse
import json
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import emotions
from perception.mpnet import joined
from services.understanding.topics.reader import ADAPTER
from services.understanding.training import tone_messages
from services.understanding.training.adapter import Classifier, below, load, logits_of, save, train
from services.understanding.training.risk_messages import SENTENCES

TARGET = SENTENCES / "backends" / "mpnet.npz"
SITUATIONS = Path(__file__).with_name("situations.tsv")
WHEEL = emotions.load()
LABELS = list(WHEEL.labels)
EPOCHS, RATE, SMOOTHING = 3, 3e-4, 0.1


@dataclass(frozen=True)
class Labelled:
    """A message with the place of its emotion."""

    text: str
    label: int


def messages() -> list[Labelled]:
    """Return what was written to tell emotions apart."""
    rows = [line.split("\t") for line in SITUATIONS.read_text("utf-8").splitlines()]
    pairs = [(text, label) for label, text in rows]
    pairs += [(joined(one.text, one.before), one.label) for one in tone_messages.read()]
    for name in ("sentences.toml", "situations.toml"):
        content = tomllib.loads((SENTENCES / "training" / name).read_text("utf-8"))
        pairs += [(text, label) for label, texts in content.items() for text in texts]
    return [Labelled(text, LABELS.index(label)) for text, label in dict(pairs).items()]


def loss_of(logits: Tensor, part: Sequence[Labelled]) -> Tensor:
    """Return the loss of a batch."""
    labels = torch.tensor([one.label for one in part])
    return nn.functional.cross_entropy(logits, labels, label_smoothing=SMOOTHING)


def report(logits: Tensor, held: Sequence[Labelled]) -> None:
    """Print the shares of right labels and classes."""
    found = logits.argmax(1).tolist()
    classes = [WHEEL.labels[label].coarse for label in LABELS]
    right = sum(label == one.label for label, one in zip(found, held, strict=True)) / len(held)
    near = sum(classes[label] == classes[one.label] for label, one in zip(found, held, strict=True)) / len(held)
    print(f"  label {right:.1%}, class {near:.1%}", flush=True)


def main() -> None:
    """Train on all messages but every n-th, of which is printed what is right; 0 holds none out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models_dir", type=Path)
    parser.add_argument("--hold", type=int, default=0, help="hold every n-th message out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--to", type=Path, default=TARGET)
    parser.add_argument("--start", type=Path, default=ADAPTER, help="adapter to go on from")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    every = messages()
    random.Random(4).shuffle(every)
    held = every[:: arguments.hold] if arguments.hold else []
    states = below(arguments.models_dir, arguments.start)
    taught = [
        (one, states(one.text)) for place, one in enumerate(every) if not arguments.hold or place % arguments.hold
    ]
    judged = [states(one.text) for one in held]
    print(f"{len(taught)} messages, {len(held)} held out", flush=True)
    model = Classifier(arguments.models_dir / "mpnet", len(LABELS))
    load(model, arguments.start, head=False)

    def after() -> None:
        save(model, arguments.start, arguments.to, labels=json.dumps(LABELS))
        if held:
            report(logits_of(model, judged), held)

    train(model, taught, loss_of, arguments.epochs, RATE, after)


if __name__ == "__main__":
    main()
