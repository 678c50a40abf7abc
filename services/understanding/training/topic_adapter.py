"""Train the adapter of the topic reader, `services/understanding/topics/reader.npz`.

Its head has all topics and none of them, and all tones twice: which is best, and which fit. Topics are learned from
`topics/messages` and `tone_messages`, tones from the latter, and the tone that asks whether somebody is safe from the
messages of the risk screen too. The lower layers are those of an earlier adapter, which was trained whole on the
topics' messages:

    python -m services.understanding.training.topic_adapter .models --hold 20
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from perception.mpnet import joined
from services.understanding.topics.reader import ADAPTER, BEFORE, DANGER, digest_of_names
from services.understanding.topics.store import Act, Valence, read, read_tones
from services.understanding.training import risk_messages, tone_messages
from services.understanding.training.adapter import Classifier, below, load, logits_of, material, options, save, train

TOPICS, TONES = read(), read_tones()
NAMES = [*(topic.name for topic in TOPICS), tone_messages.NO_TOPIC]
TONE_NAMES = [tone.name for tone in TONES]
SIZES = [len(NAMES), len(TONES), len(TONES)]
TONES_OF = {
    Act.FACT: ("fact",),
    Act.FAVOUR: ("favour",),
    Act.ADVICE: ("advice",),
    Act.THANKS: ("thanks",),
    Act.GOODBYE: ("goodbye",),
    Act.COMPLAINT: ("complaint",),
}
"""Tones that fit whatever does more than tell."""
RISK_EVERY = 3
"""Of how many messages of the risk screen one is taught."""
EPOCHS, RATE = 3, 3e-4
SMOOTHING, BEST_WEIGHT, FIT_WEIGHT = 0.05, 0.7, 0.2
AS_SPOKEN_SHARE = 0.15
"""Of messages that are shown once more as a speech recogniser writes them."""


@dataclass(frozen=True)
class Labelled:
    """A message with the places of its topic and best tone, -1 where it is not known, and which tones fit or do not."""

    text: str
    topic: int = -1
    best: int = -1
    fit: dict[int, bool] = field(default_factory=dict)


def messages() -> list[Labelled]:
    """Return the messages of all topics, those whose tones are told, and messages of danger and what is like them."""
    told = tone_messages.read()
    of_a_topic = {text for topic in TOPICS for text in topic.messages}
    return [*of_topics(told), *(of_tones(one) for one in told if one.text not in of_a_topic), *of_danger(told)]


def of_topics(told: Sequence[tone_messages.Toned]) -> list[Labelled]:
    """Return the messages of all topics; what does more than tell also behind something told, which changes nothing."""
    chance = random.Random(2)
    first = [one.text for one in told if not one.before]
    judged = {one.text: of_tones(one) for one in told}
    found = []
    for place, topic in enumerate(TOPICS):
        opposite = {Valence.GOOD: Valence.BAD, Valence.BAD: Valence.GOOD}.get(topic.valence)
        fit = {TONE_NAMES.index(opposite): False} if opposite else {}
        names = TONES_OF.get(topic.act, ())
        best = TONE_NAMES.index(names[0]) if names else -1
        fit |= {TONE_NAMES.index(name): True for name in names}
        for text in topic.messages:
            one = judged.get(text) or Labelled(text, place, best, fit)
            found.append(one)
            if topic.act is not Act.TELLING:
                found.append(replace(one, text=joined(text, chance.choice(first))))
    return found


def of_tones(one: tone_messages.Toned) -> Labelled:
    """Return a message whose tones are told: any other does not fit."""
    fit = {place: name in one.tones for place, name in enumerate(TONE_NAMES)}
    topic = NAMES.index(one.topic) if one.topic in NAMES else -1
    return Labelled(joined(one.text, " ".join(one.before[-BEFORE:])), topic, TONE_NAMES.index(one.tones[0]), fit)


def of_danger(told: Sequence[tone_messages.Toned]) -> list[Labelled]:
    """Return messages of the risk screen, each also behind talk of anything else, which makes no danger less of one."""
    place, chance = TONE_NAMES.index(DANGER), random.Random(3)
    calm = [one.text for one in told if not one.before and DANGER not in one.tones]
    found = []
    for one in risk_messages.read()[::RISK_EVERY]:
        is_danger = one.kind != "none"
        alone = Labelled(one.text, best=place if is_danger else -1, fit={place: is_danger})
        found += [alone, replace(alone, text=joined(one.text, " ".join(chance.sample(calm, BEFORE))))]
    return found


def loss_of(logits: Tensor, part: Sequence[Labelled]) -> Tensor:
    """Return the loss of a batch."""
    of = nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
    topics, best, fit = logits.split(SIZES, 1)
    loss: Tensor = of(topics, torch.tensor([one.topic for one in part]))
    loss = loss + BEST_WEIGHT * of(best, torch.tensor([one.best for one in part]))
    rows = [row for row, one in enumerate(part) for _ in one.fit]
    places = [place for one in part for place in one.fit]
    fits = torch.tensor([float(does) for one in part for does in one.fit.values()])
    loss = loss + FIT_WEIGHT * nn.functional.binary_cross_entropy_with_logits(fit[rows, places], fits, reduction="sum")
    return loss / len(part)


def report(logits: Tensor, held: Sequence[Labelled]) -> None:
    """Print how many of the messages held out get a topic that is right, a tone that fits, a danger that is one."""
    topics, best, fit = logits.split(SIZES, 1)
    sure, found = topics.softmax(1).max(1)
    right = [int(found[row]) == one.topic for row, one in enumerate(held) if one.topic >= 0 and sure[row] >= 0.45]
    print(f"  topics: {len(right)} sure, {sum(right) / max(1, len(right)):.1%} right", flush=True)
    whole = [row for row, one in enumerate(held) if len(one.fit) == len(TONES)]
    for name, scores in (("fit", fit.sigmoid()), ("best", best.softmax(1)), ("both", fit.sigmoid() * best.softmax(1))):
        chosen = scores.argmax(1)
        fits = [held[row].fit[int(chosen[row])] for row in whole]
        print(f"  tone by {name}: fits {sum(fits) / max(1, len(fits)):.1%} of {len(fits)}", flush=True)
    place = TONE_NAMES.index(DANGER)
    for bar in (0.2, 0.5, 0.8):
        pairs = [
            (float(fit[row, place].sigmoid()) >= bar, one.fit[place])
            for row, one in enumerate(held)
            if place in one.fit
        ]
        missed = sum(is_so and not says for says, is_so in pairs)
        false = sum(says and not is_so for says, is_so in pairs)
        print(f"  danger from {bar}: {missed} of {sum(is_so for _, is_so in pairs)} missed, {false} false", flush=True)


def main() -> None:
    """Train."""
    given = options(__doc__, ADAPTER, ADAPTER, EPOCHS)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    used = material(messages(), given.hold, below(given.models_dir, given.start), AS_SPOKEN_SHARE)
    model = Classifier(given.models_dir / "mpnet", sum(SIZES))
    names = digest_of_names(TOPICS, TONES)
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
