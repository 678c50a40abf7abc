"""Train the adapter of the voter on all-mpnet-base-v2, `services/mllm/backends/mpnet.npz`.

Its head has the labels of the emotion wheel. It learns from the messages with a label of `tone_messages`, and from what
the other voters of text learn from; its lower layers are those of the reader of messages. Needs `torch`,
`transformers` and `onnx`:

    python -m services.understanding.training.feeling_adapter .models --hold 12
"""

import json
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import emotions
from perception.mpnet import joined
from services.understanding.reader import ADAPTER
from services.understanding.training import tone_messages
from services.understanding.training.adapter import Classifier, below, load, logits_of, material, save, split, train
from services.understanding.training.risk_messages import SENTENCES

TARGET = SENTENCES / "backends" / "mpnet.npz"
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
    told = [one for one in tone_messages.read() if one.label in LABELS]
    pairs = [(joined(one.text, " ".join(one.before[-1:])), one.label) for one in told]
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
    """Train."""
    every = messages()
    random.Random(4).shuffle(every)
    given, shown, held = split(__doc__, TARGET, ADAPTER, EPOCHS, every)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    used = material(shown, held, below(given.models_dir, given.start))
    model = Classifier(given.models_dir / "mpnet", len(LABELS))
    load(model, given.start, head=False)

    def after() -> None:
        save(model, given.start, given.to, labels=json.dumps(LABELS))
        if used.held:
            report(logits_of(model, used.judged), used.held)

    train(model, used.taught, loss_of, given.epochs, RATE, after)


if __name__ == "__main__":
    main()
