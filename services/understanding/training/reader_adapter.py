"""Train the adapter of the reader of messages, `services/understanding/reader.npz`.

Its head has all tones twice, which is best and which fit; the kinds of risk and none; and severities. Tones and kinds
are learned from `tone_messages`, in their conversations; kinds and severities from `risk_messages` too. The lower
layers are those of an earlier adapter, which was trained whole on messages of 248 topics:

    python -m services.understanding.training.reader_adapter .models --hold 20

The adapter that ships went on from such a one for two epochs on some 20,000 of these messages and 10,000 with graded
replies (`reply_grades`), whose loss under the rows of `reply_fits`, then held, was added; writers 51, 53, 75 and 78 and
`plainday` were held out. That choice of the grades rose by half a point of AUC; this program does not do it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from perception.mpnet import joined
from services.understanding.reader import ADAPTER, BEFORE, DANGER, digest_of_names
from services.understanding.risk.domain import Kind, Severity
from services.understanding.tones.store import read
from services.understanding.training import risk_messages, tone_messages
from services.understanding.training.adapter import Classifier, below, load, logits_of, material, options, save, train

TONES = read()
NAMES = [tone.name for tone in TONES]
KINDS = (tone_messages.NO_RISK, *Kind)
SEVERITIES = tuple(severity.name.lower() for severity in Severity)
SIZES = [len(TONES), len(TONES), len(KINDS), len(SEVERITIES)]
EPOCHS, RATE = 2, 3e-4
SMOOTHING, BEST_WEIGHT, FIT_WEIGHT, KIND_WEIGHT, SEVERITY_WEIGHT = 0.05, 0.7, 0.2, 0.7, 0.2
AS_SPOKEN_SHARE = 0.15
"""Of messages that are shown once more as a speech recogniser writes them."""
DANGER_BARS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)


@dataclass(frozen=True)
class Labelled:
    """A message with its labels, each -1 where it is not known.

    Attributes:
        text: The message, behind what was said before.
        best: Place of its best tone.
        fit: Which tones fit, or do not.
        kind: Place of its kind of risk; 0 for none.
        severity: Place of its severity.
    """

    text: str
    best: int = -1
    fit: dict[int, bool] = field(default_factory=dict)
    kind: int = -1
    severity: int = -1


def messages() -> list[Labelled]:
    """Return the messages whose tones are told, those of danger and what is like them, and everyday ones."""
    told = tone_messages.read()
    ordinary = [Labelled(one.text, kind=0) for one in risk_messages.ordinary()]
    return [*map(of_tones, told), *of_risks(told), *ordinary]


def of_tones(one: tone_messages.Toned) -> Labelled:
    """Return a message whose tones are told: any other does not fit."""
    fit = {place: name in one.tones for place, name in enumerate(NAMES)}
    kind = KINDS.index(one.risk) if one.risk in KINDS else -1
    return Labelled(joined(one.text, " ".join(one.before[-BEFORE:])), NAMES.index(one.tones[0]), fit, kind)


def of_risks(told: Sequence[tone_messages.Toned]) -> Iterator[Labelled]:
    """Yield messages of the risk screen, each also behind talk of anything else, which makes no danger less of one."""
    place, chance = NAMES.index(DANGER), random.Random(3)
    calm = [one.text for one in told if not one.before and one.risk == tone_messages.NO_RISK]
    for one in risk_messages.read():
        is_danger = one.kind in KINDS
        kind = KINDS.index(one.kind) if is_danger else 0
        severity = SEVERITIES.index(one.severity) if one.severity else -1
        alone = Labelled(one.text, place if is_danger else -1, {place: is_danger}, kind, severity)
        yield from (alone, replace(alone, text=joined(one.text, " ".join(chance.sample(calm, BEFORE)))))


def loss_of(logits: Tensor, part: Sequence[Labelled]) -> Tensor:
    """Return the loss of a batch."""
    of = nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
    best, fit, kinds, severities = logits.split(SIZES, 1)
    loss: Tensor = BEST_WEIGHT * of(best, torch.tensor([one.best for one in part]))
    loss = loss + KIND_WEIGHT * of(kinds, torch.tensor([one.kind for one in part]))
    loss = loss + SEVERITY_WEIGHT * of(severities, torch.tensor([one.severity for one in part]))
    rows = [row for row, one in enumerate(part) for _ in one.fit]
    places = [place for one in part for place in one.fit]
    fits = torch.tensor([float(does) for one in part for does in one.fit.values()])
    loss = loss + FIT_WEIGHT * nn.functional.binary_cross_entropy_with_logits(fit[rows, places], fits, reduction="sum")
    return loss / len(part)


def report(logits: Tensor, held: Sequence[Labelled]) -> None:
    """Print how many of the messages held out get a tone that fits, and what is taken for a danger by the bar."""
    best, fit, kinds, _ = logits.split(SIZES, 1)
    whole = [row for row, one in enumerate(held) if len(one.fit) == len(TONES)]
    for name, scores in (("fit", fit.sigmoid()), ("best", best.softmax(1)), ("both", fit.sigmoid() * best.softmax(1))):
        chosen = scores.argmax(1)
        fits = [held[row].fit[int(chosen[row])] for row in whole]
        print(f"  tone by {name}: fits {sum(fits) / max(1, len(fits)):.1%} of {len(fits)}", flush=True)
    danger = 1 - kinds.softmax(1)[:, 0]
    risky = [float(danger[row]) for row, one in enumerate(held) if one.kind > 0]
    calm = [float(danger[row]) for row, one in enumerate(held) if one.kind == 0]
    for bar in DANGER_BARS:
        found, false = sum(each >= bar for each in risky), sum(each >= bar for each in calm)
        print(f"  danger from {bar}: {found} of {len(risky)} found, {false} of {len(calm)} false", flush=True)


def main() -> None:
    """Train."""
    given = options(__doc__, ADAPTER, ADAPTER, EPOCHS)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    used = material(messages(), given.hold, below(given.models_dir, given.start), AS_SPOKEN_SHARE)
    model = Classifier(given.models_dir / "mpnet", sum(SIZES))
    names = digest_of_names(TONES)
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
