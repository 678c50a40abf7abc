"""Train the adapter of the risk classifier, `services/understanding/risk/classifier.npz`.

One class of six kinds and none, and one of three severities. The lower layers are those of an earlier adapter, which
was trained whole on the first 3,000 messages:

    python -m services.understanding.training.risk_adapter .models --hold 12

The adapter that ships is the mean of two (Wortsman et al., 2022, "Model soups"): one of three epochs on all messages
but `short.txt`, which was found to miss "My husband beats me.", and one that went on from it for two at half the rate
on `short.txt` four times, half of it as spoken, and 2,200 others. Another run gives other weights.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from services.understanding.risk.domain import Kind, Severity
from services.understanding.training.adapter import Classifier, below, load, logits_of, material, save, split, train
from services.understanding.training.risk_messages import Labelled, ordinary, read

TARGET = Path(__file__).parent.with_name("risk") / "classifier.npz"
KINDS = ("none", *Kind)
SEVERITIES = tuple(severity.name.lower() for severity in Severity)
EPOCHS, RATE = 3, 3e-4
SMOOTHING, SEVERITY_WEIGHT = 0.05, 0.3
AS_SPOKEN_SHARE = 0.3
"""Of messages that are shown once more as a speech recogniser writes them, or somebody in a hurry."""
FORMS = ("plain", "veiled", "lookalike", "everyday")
FALSE_SHARES = (0.01, 0.02, 0.03, 0.05, 0.1)


def loss_of(logits: Tensor, part: Sequence[Labelled]) -> Tensor:
    """Return the loss of a batch."""
    kinds = torch.tensor([KINDS.index(one.kind) for one in part])
    severities = torch.tensor([SEVERITIES.index(one.severity) if one.severity else -1 for one in part])
    loss: Tensor = nn.functional.cross_entropy(logits[:, : len(KINDS)], kinds, label_smoothing=SMOOTHING)
    if (severities >= 0).any():
        loss = loss + SEVERITY_WEIGHT * nn.functional.cross_entropy(
            logits[:, len(KINDS) :], severities, ignore_index=-1
        )
    return loss


def report(logits: Tensor, held: Sequence[Labelled]) -> None:
    """Print, for bars of some shares of false alarms among all that is harmless, what is found of the rest."""
    risk = 1 - logits[:, : len(KINDS)].softmax(1)[:, 0].numpy()
    forms = np.array([one.form for one in held])
    harmless = np.isin(forms, ("lookalike", "everyday"))
    for false in FALSE_SHARES:
        bar = float(np.quantile(risk[harmless], 1 - false))
        shares = {
            form: float((risk[forms == form] > bar).mean()) for form in ("plain", "veiled", "lookalike", "everyday")
        }
        print(f"  bar {bar:.3f}: " + ", ".join(f"{form} {share:.1%}" for form, share in shares.items()), flush=True)


def main() -> None:
    """Train."""
    given, shown, held = split(__doc__, TARGET, TARGET, EPOCHS, read() + ordinary())
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    used = material(shown, held, below(given.models_dir, given.start), AS_SPOKEN_SHARE)
    model = Classifier(given.models_dir / "mpnet", len(KINDS) + len(SEVERITIES))
    load(model, given.start, head=True)

    def after() -> None:
        save(model, given.start, given.to)
        if used.held:
            report(logits_of(model, used.judged), used.held)

    train(model, used.taught, loss_of, given.epochs, RATE, after)


if __name__ == "__main__":
    main()
