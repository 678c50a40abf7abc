"""Train the adapter of the topic reader, `services/understanding/topics/reader.npz`.

Its head has all topics and none of them, all tones, and the labels of the emotion wheel: topics are learned from
`topics/messages` and `tone_messages`, tones from the latter, feelings from these and from what the text voter learns
from. The lower layers are those of an earlier adapter, which was trained whole on the topics' messages:

    python -m services.understanding.training.topic_adapter .models --hold 12
"""

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import emotions
from perception.mpnet import joined
from services.understanding.topics.reader import digest_of_names
from services.understanding.topics.store import Act, Valence, learned, read, read_tones
from services.understanding.training import tone_messages
from services.understanding.training.adapter import Classifier, below, load, logits_of, material, options, save, train
from services.understanding.training.risk_messages import SENTENCES

TARGET = Path(__file__).parent.with_name("topics") / "reader.npz"
TOPICS, EVERY_TONE = read(), read_tones()
TONES = learned(EVERY_TONE)
NAMES = [*(topic.name for topic in TOPICS), tone_messages.NO_TOPIC]
TONE_NAMES = [tone.name for tone in TONES]
LABELS = list(emotions.load().labels)
SIZES = [len(NAMES), len(TONES), len(LABELS)]
OF_VALENCE = {
    valence: torch.tensor([0.0 if tone.valence is valence else -torch.inf for tone in TONES]) for valence in Valence
}
EPOCHS, RATE = 4, 3e-4
TONE_OF = dict.fromkeys((Act.FACT, Act.FAVOUR, Act.ADVICE), "question") | dict.fromkeys(
    (Act.SMALLTALK, Act.THANKS, Act.GOODBYE, Act.COMPLAINT), "talk"
)
SMOOTHING, TONE_WEIGHT, LABEL_WEIGHT = 0.05, 0.7, 0.5
AS_SPOKEN_SHARE = 0.25
"""Of messages that are shown once more as a speech recogniser writes them."""


@dataclass(frozen=True)
class Labelled:
    """A message with the places of its topic, tone and emotion; -1 where it is not known. `valence` is its topic's."""

    text: str
    topic: int
    tone: int
    label: int
    valence: Valence | None = None


def messages() -> list[Labelled]:
    """Return the messages of all topics, those with a tone, and those of all emotions."""
    found = [
        Labelled(text, place, -1, -1, topic.valence if topic.valence is not Valence.ANY else None)
        for place, topic in enumerate(TOPICS)
        for text in topic.messages
    ]
    found += [
        Labelled(
            joined(one.text, one.before),
            NAMES.index(one.topic) if one.topic in NAMES else -1,
            TONE_NAMES.index(one.tone),
            LABELS.index(one.label),
        )
        for one in tone_messages.read()
    ]
    return found + in_talk() + felt()


def in_talk() -> list[Labelled]:
    """Return what does more than tell behind something told: thanks are thanks whatever was said before."""
    told = [one.text for one in tone_messages.read() if not one.before]
    chance = random.Random(2)
    return [
        Labelled(
            joined(text, chance.choice(told)),
            place,
            TONE_NAMES.index(TONE_OF[topic.act]) if topic.act in TONE_OF else -1,
            -1,
        )
        for place, topic in enumerate(TOPICS)
        if topic.act is not Act.TELLING
        for text in topic.messages
    ]


def felt() -> list[Labelled]:
    """Return the messages that teach the voters of text what is felt."""
    store = tomllib.loads((SENTENCES / "exemplars.toml").read_text("utf-8"))
    training = SENTENCES / "training"
    sets = [tomllib.loads((training / name).read_text("utf-8")) for name in ("sentences.toml", "situations.toml")]
    found = []
    for label in LABELS:
        pairs = [message for message, _ in store.get(label, {}).get("pairs", ())]
        texts = dict.fromkeys([*(text for one in sets for text in one.get(label, ())), *pairs])
        found += [Labelled(text, -1, -1, LABELS.index(label)) for text in texts]
    return found


def loss_of(logits: Tensor, part: Sequence[Labelled]) -> Tensor:
    """Return the loss of a batch; of a topic's message the tone is one of its valence, whichever."""
    of = nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
    topics, tones, labels = logits.split(SIZES, 1)
    loss: Tensor = of(topics, torch.tensor([one.topic for one in part]))
    loss = loss + TONE_WEIGHT * of(tones, torch.tensor([one.tone for one in part]))
    loss = loss + LABEL_WEIGHT * of(labels, torch.tensor([one.label for one in part]))
    for row, one in enumerate(part):
        if one.valence:
            loss = loss - TONE_WEIGHT * (tones[row].log_softmax(0) + OF_VALENCE[one.valence]).logsumexp(0)
    return loss / len(part)


def report(logits: Tensor, held: Sequence[Labelled]) -> None:
    """Print what is right of what was held out: topics and tones, all and where the reader is sure, and emotions."""
    topics, tones, labels = (part.softmax(1) for part in logits.split(SIZES, 1))
    ways = [*(topic.valence for topic in TOPICS), None]
    print(
        "  topics " + _right(topics, torch.tensor([one.topic for one in held]), ways, without=len(TOPICS)), flush=True
    )
    ways = [tone.valence for tone in TONES]
    print("  tones " + _right(tones, torch.tensor([one.tone for one in held]), ways), flush=True)
    known = torch.tensor([one.label for one in held])
    print(f"  emotion {float((labels.argmax(1) == known)[known >= 0].float().mean()):.1%}", flush=True)


def _right(found: Tensor, told: Tensor, ways: Sequence[Valence | None], without: int = -1) -> str:
    """Return, for bars of certainty, the share that is as sure, of these the right ones and those of opposite valence.

    `without` is the place that stands for none: nothing is said of it.
    """
    sure, best = found.max(1)
    cells = []
    for bar in (0.0, 0.3, 0.5, 0.7):
        rows = [row for row in range(len(told)) if told[row] >= 0 and sure[row] >= bar and int(best[row]) != without]
        pairs = [(int(best[row]), int(told[row])) for row in rows]
        right = sum(a == b for a, b in pairs) / max(1, len(pairs))
        opposite = sum({ways[a], ways[b]} == {Valence.GOOD, Valence.BAD} for a, b in pairs) / max(1, len(pairs))
        cells.append(f"sure {bar}: {len(pairs)} of {int((told >= 0).sum())}, {right:.1%}, opposite {opposite:.1%}")
    return "; ".join(cells)


def main() -> None:
    """Train."""
    given = options(__doc__, TARGET, TARGET, EPOCHS)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    used = material(messages(), given.hold, below(given.models_dir, given.start), AS_SPOKEN_SHARE)
    model = Classifier(given.models_dir / "mpnet", sum(SIZES))
    names = digest_of_names(TOPICS, EVERY_TONE)
    with np.load(given.start) as earlier:
        knows_them = "names" in earlier and str(earlier["names"]) == names
    load(model, given.start, head=knows_them)

    def after() -> None:
        save(model, given.start, given.to, names=names)
        if used.held:
            report(logits_of(model, used.judged), used.held)

    train(model, used.taught, loss_of, given.epochs, RATE, after)


if __name__ == "__main__":
    main()
