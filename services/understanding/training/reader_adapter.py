"""Train the adapter of the reader of messages, `services/understanding/reader.npz`.

Its head has all tones twice, which is best and which fit; the kinds of risk and none; and severities. Tones and kinds
are learned from `tone_messages`, in their conversations; kinds and severities from `risk_messages` too. The lower
layers are those of an earlier adapter, which was trained whole on messages of 248 topics. A second loss is that of
graded replies (`reply_grades`) under the rows of `reply_fits` as they are, so that the head tells apart what the
replies tell apart: run `reply_fits` afterwards. To go on from the adapter that ships with new sets, and all that is
graded and a third of the rest beside them so that they are not unlearned:

    python -m services.understanding.training.reader_adapter .models --new talks_79,talks_80

Writers and sets in `HELD` are never taught: the program prints what is found of them, and the mean loss of their
grades, which flatters where `reply_fits` was learned on these.

The adapter that ships was made so from writers 1 to 78; those from 79 on have grades and wait for the next training.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from perception.mpnet import joined
from services.understanding.reader import ADAPTER, BEFORE, DANGER, digest_of_names
from services.understanding.risk.domain import Kind, Severity
from services.understanding.tones.fits import PATH as FITS
from services.understanding.tones.store import read
from services.understanding.training import reply_grades, risk_messages, tone_messages
from services.understanding.training.adapter import Classifier, below, load, logits_of, material, options, save, train
from services.understanding.training.reply_fits import STATE
from services.understanding.training.reply_grades import GRADES

TONES = read()
NAMES = [tone.name for tone in TONES]
KINDS = (tone_messages.NO_RISK, *Kind)
SEVERITIES = tuple(severity.name.lower() for severity in Severity)
SIZES = [len(TONES), len(TONES), len(KINDS), len(SEVERITIES)]
EPOCHS, RATE = 2, 3e-4
HELD = frozenset(f"{form}_{writer}" for form in ("singles", "talks") for writer in (51, 53, 75, 78)) | {
    "plainday",
    "plainday_conversations",
}
SHARE = 0.33
"""Of messages of no new set that are shown beside new ones."""
SAYABLE_WEIGHT, GOOD_WEIGHT = 0.6, 0.3
"""Of the mean loss of a message's graded replies: that they can be said, and that they are just right."""
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
        grades: Grades of replies to it, by their place in `Rows`.
        of: Name of the set that it is from.
    """

    text: str
    best: int = -1
    fit: dict[int, bool] = field(default_factory=dict)
    kind: int = -1
    severity: int = -1
    grades: dict[int, int] = field(default_factory=dict)
    of: str = ""


class Rows:
    """Rows of `reply_fits` for the replies of all tones, which lie on the head's logits alone; held as they are.

    Raises:
        ValueError: They were learned on another head.
    """

    def __init__(self) -> None:
        told = {reply for tone in TONES for reply in tone.replies}
        with np.load(FITS) as learned:
            if learned["rows"].shape[2] != sum(SIZES) + STATE:
                raise ValueError(f"{FITS.name} was learned on another head: run `training.reply_fits`")
            names = learned["replies"].tolist()
            kept = [place for place, name in enumerate(names) if name in told]
            self.places = {names[place]: number for number, place in enumerate(kept)}
            self._rows = torch.from_numpy(learned["rows"][:, kept, : sum(SIZES)].astype(np.float32))
            self._biases = torch.from_numpy(learned["biases"][:, kept])

    def loss(self, logits: Tensor, part: Sequence[Labelled]) -> Tensor:
        """Return the loss of the graded replies of a batch, the mean of each message's added up."""
        told = [
            (row, reply, grade, 1 / len(one.grades))
            for row, one in enumerate(part)
            for reply, grade in one.grades.items()
        ]
        if not told:
            return torch.zeros(())
        rows, replies, grades, weights = (torch.tensor(each) for each in zip(*told, strict=True))
        found = (logits[rows] * self._rows[:, replies]).sum(2) + self._biases[:, replies]
        wanted = torch.stack([grades >= GRADES.index("s"), grades >= GRADES.index("g")]).float()
        each = nn.functional.binary_cross_entropy_with_logits(found, wanted, reduction="none") * weights
        loss: Tensor = SAYABLE_WEIGHT * each[0].sum() + GOOD_WEIGHT * each[1].sum()
        return loss


def messages(places: Mapping[str, int]) -> list[Labelled]:
    """Return the messages whose tones are told, those of danger and what is like them, everyday ones, graded ones.

    `places` is that of each reply in `Rows`.
    """
    told = tone_messages.read()
    ordinary = [Labelled(one.text, kind=0) for one in risk_messages.ordinary()]
    every = [*map(of_tones, told), *of_risks(told), *ordinary]
    graded: dict[str, Labelled] = {}
    for one in of_grades(places):
        before = graded.setdefault(one.text, one)
        graded[one.text] = replace(before, grades=one.grades | before.grades)
    joint = [replace(one, grades=graded.pop(one.text).grades) if one.text in graded else one for one in every]
    return joint + list(graded.values())


def of_grades(places: Mapping[str, int]) -> Iterator[Labelled]:
    """Yield the messages to which replies were graded, with the grades of those that there still are."""
    replies = [places.get(reply, -1) for reply in reply_grades.replies()]
    for one in reply_grades.read():
        grades = {replies[reply]: grade for reply, grade in one.grades.items() if replies[reply] >= 0}
        yield Labelled(joined(one.text, " ".join(one.before[-BEFORE:])), grades=grades, of=one.of)


def of_tones(one: tone_messages.Toned) -> Labelled:
    """Return a message whose tones are told: any other does not fit."""
    fit = {place: name in one.tones for place, name in enumerate(NAMES)}
    kind = KINDS.index(one.risk) if one.risk in KINDS else -1
    text = joined(one.text, " ".join(one.before[-BEFORE:]))
    return Labelled(text, NAMES.index(one.tones[0]), fit, kind, of=one.of)


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


def loss_of(logits: Tensor, part: Sequence[Labelled], rows: Rows) -> Tensor:
    """Return the loss of a batch."""
    of = nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum")
    best, fit, kinds, severities = logits.split(SIZES, 1)
    loss: Tensor = BEST_WEIGHT * of(best, torch.tensor([one.best for one in part]))
    loss = loss + KIND_WEIGHT * of(kinds, torch.tensor([one.kind for one in part]))
    loss = loss + SEVERITY_WEIGHT * of(severities, torch.tensor([one.severity for one in part]))
    told = [row for row, one in enumerate(part) for _ in one.fit]
    places = [place for one in part for place in one.fit]
    fits = torch.tensor([float(does) for one in part for does in one.fit.values()])
    loss = loss + FIT_WEIGHT * nn.functional.binary_cross_entropy_with_logits(fit[told, places], fits, reduction="sum")
    return (loss + rows.loss(logits, part)) / len(part)


def report(logits: Tensor, held: Sequence[Labelled], rows: Rows) -> None:
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
    graded = [row for row, one in enumerate(held) if one.grades]
    loss = float(rows.loss(logits[graded], [held[row] for row in graded])) / max(1, len(graded))
    print(f"  loss of {len(graded)} with grades: {loss:.4f}", flush=True)


def main() -> None:
    """Train."""
    parser = options(__doc__, ADAPTER, ADAPTER, EPOCHS)
    parser.add_argument("--new", default="", help="sets to go on with, and a share of the others; without it all")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    rows, new, chance = Rows(), set(filter(None, given.new.split(","))), random.Random(2)
    every = messages(rows.places)
    if strange := new - {one.of for one in every}:
        parser.error(f"--new: no set is called {min(strange)}")
    held = [one for one in every if one.of in HELD]
    kept = {one.text for one in held}
    known = [one for one in every if one.text not in kept]
    shown = [one for one in known if not new or one.of in new or one.grades or chance.random() < SHARE]
    used = material(shown, held, below(given.models_dir, given.start), AS_SPOKEN_SHARE)
    model = Classifier(given.models_dir / "mpnet", sum(SIZES))
    names = digest_of_names(TONES)
    with np.load(given.start) as earlier:
        knows_them = "names" in earlier and str(earlier["names"]) == names
    load(model, given.start, head=knows_them)

    def after() -> None:
        save(model, given.start, given.to, names=names)
        if used.held:
            report(logits_of(model, used.judged), used.held, rows)

    train(model, used.taught, lambda logits, part: loss_of(logits, part, rows), given.epochs, RATE, after)


if __name__ == "__main__":
    main()
