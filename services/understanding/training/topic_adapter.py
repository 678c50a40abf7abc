"""Train the adapter of the topic reader, `services/understanding/topics/reader.npz`.

As `risk_adapter`, with a head of all topics, three valences and the labels of the emotion wheel: topics are learned
from `topics/messages`, feelings from what the text voter learns from. Needs `torch` and `transformers`:

    python -m services.understanding.training.topic_adapter .models --hold 5
"""

import argparse
import random
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

import emotions
from services.understanding.topics.reader import digest_of_names
from services.understanding.topics.store import Valence, learned, read
from services.understanding.training.risk_adapter import Classifier, as_spoken, batches, encode, save
from services.understanding.training.risk_messages import SENTENCES

TARGET = Path(__file__).parent.with_name("topics") / "reader.npz"
TOPICS = learned(read())
NAMES = [topic.name for topic in TOPICS]
VALENCES = list(Valence)
LABELS = list(emotions.load().labels)
SIZES = [len(TOPICS), len(VALENCES), len(LABELS)]
GOOD, BAD = 0.3, -0.2
"""Labels of the wheel above and below are taught as a good and a bad feeling."""
BATCH, EPOCHS, RATE, HEAD_RATE, WARM_UP = 16, 6, 4e-4, 3e-3, 0.06
SMOOTHING, VALENCE_WEIGHT, LABEL_WEIGHT = 0.05, 0.5, 0.5
AS_SPOKEN_SHARE = 0.25


@dataclass(frozen=True)
class Labelled:
    """A message with the places of its topic, valence and emotion; -1 where it is not known."""

    text: str
    topic: int
    valence: int
    label: int


def messages() -> list[Labelled]:
    """Return the messages of all topics, then those of all emotions."""
    found = [
        Labelled(text, NAMES.index(topic.name), VALENCES.index(topic.valence), -1)
        for topic in TOPICS
        for text in topic.messages
    ]
    wheel = emotions.load()
    store = tomllib.loads((SENTENCES / "exemplars.toml").read_text("utf-8"))
    for label, texts in tomllib.loads((SENTENCES / "training" / "sentences.toml").read_text("utf-8")).items():
        feeling = wheel.label(label).valence
        valence = Valence.GOOD if feeling > GOOD else Valence.BAD if feeling < BAD else Valence.ANY
        pairs = [message for message, _ in store.get(label, {}).get("pairs", ())]
        found += [
            Labelled(text, -1, VALENCES.index(valence), LABELS.index(label)) for text in dict.fromkeys([*texts, *pairs])
        ]
    return found


def loss_of(logits: Tensor, part: Sequence[Labelled]) -> Tensor:
    """Return the loss of a batch."""
    of = nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
    topics, valences, labels = logits.split(SIZES, 1)
    loss: Tensor = of(topics, torch.tensor([one.topic for one in part]))
    loss = loss + VALENCE_WEIGHT * of(valences, torch.tensor([one.valence for one in part]))
    loss = loss + LABEL_WEIGHT * of(labels, torch.tensor([one.label for one in part]))
    return loss / len(part)


def train(model: Classifier, tokenizer: Any, taught: Sequence[Labelled], held: Sequence[Labelled], epochs: int) -> None:
    """Train, and print after each epoch what is found of the messages that are held out."""
    chance = random.Random(0)
    loras = [part for lora in model.loras.values() for part in (lora.a, lora.b)]
    optimizer = torch.optim.AdamW(
        [{"params": loras, "lr": RATE}, {"params": list(model.head.parameters()), "lr": HEAD_RATE}], weight_decay=0.01
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
            texts = [as_spoken(one.text, chance) if chance.random() < AS_SPOKEN_SHARE else one.text for one in part]
            loss = loss_of(model(*encode(tokenizer, texts)), part)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*loras, *model.head.parameters()], 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(f"epoch {epoch + 1}: {time.monotonic() - start_s:.0f} s, loss {total / (steps / epochs):.3f}", flush=True)
        if held:
            report(model, tokenizer, held)


@torch.no_grad()  # type: ignore[untyped-decorator]
def report(model: Classifier, tokenizer: Any, held: Sequence[Labelled]) -> None:
    """Print what is right of the topics, acts and valences that were held out, all and where the reader is sure."""
    model.eval()
    parts = [[one.text for one in held[start : start + 64]] for start in range(0, len(held), 64)]
    logits = torch.cat([model(*encode(tokenizer, part)) for part in parts])
    topics, valences, labels = logits.split(SIZES, 1)
    sure, found = topics.softmax(1).max(1)
    told = torch.tensor([one.topic for one in held])
    acts = [topic.act for topic in TOPICS]
    ways = [topic.valence for topic in TOPICS]
    for bar in (0.0, 0.3, 0.5, 0.7):
        rows = [row for row in range(len(held)) if told[row] >= 0 and sure[row] >= bar]
        if not rows:
            continue
        pairs = [(int(found[row]), int(told[row])) for row in rows]
        right = sum(a == b for a, b in pairs) / len(pairs)
        act = sum(acts[a] == acts[b] for a, b in pairs) / len(pairs)
        opposite = sum({ways[a], ways[b]} == {Valence.GOOD, Valence.BAD} for a, b in pairs) / len(pairs)
        share = len(rows) / int((told >= 0).sum())
        print(f"  sure {bar}: {share:.0%}, topic {right:.1%}, act {act:.1%}, opposite {opposite:.1%}", flush=True)
    valence = (valences.argmax(1) == torch.tensor([one.valence for one in held])).float().mean()
    known = torch.tensor([one.label for one in held])
    label = (labels.argmax(1) == known)[known >= 0].float().mean()
    print(f"  valence {float(valence):.1%}, emotion {float(label):.1%}", flush=True)


def main() -> None:
    """Train on all messages, or hold every n-th out to see what is found of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models_dir", type=Path)
    parser.add_argument("--hold", type=int, default=0, help="hold every n-th message out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--to", type=Path, default=TARGET)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    folder = arguments.models_dir / "mpnet"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<pad>")
    every = messages()
    held = every[:: arguments.hold] if arguments.hold else []
    taught = [one for one in every if one not in held]
    print(f"{len(taught)} messages, {len(held)} held out", flush=True)
    model = Classifier(folder, sum(SIZES))
    train(model, tokenizer, taught, held, arguments.epochs)
    save(model, arguments.to, topics=digest_of_names(TOPICS))


if __name__ == "__main__":
    main()
