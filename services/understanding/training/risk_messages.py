"""Messages that the risk screen is trained on; see `risk_messages/`."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from services.understanding.risk.domain import Kind
from services.understanding.tones import store

FOLDER = Path(__file__).with_suffix("")
SENTENCES = Path(__file__).parents[2] / "mllm"
PAIRS = "pairs.txt"


@dataclass(frozen=True)
class Labelled:
    """A message with its labels.

    Attributes:
        text: The message.
        kind: Kind of risk, or "none".
        form: "plain", "veiled", "lookalike" or "everyday"; empty where it is not known.
        severity: "low", "medium" or "high"; empty without a risk.
        near: Kind of risk that a look-alike is near to; empty for none.
    """

    text: str
    kind: str
    form: str
    severity: str
    near: str = ""


def read(folder: Path = FOLDER) -> list[Labelled]:
    """Return all messages of a folder, in the order of its files.

    Raises:
        ValueError: A line has no header, or a header not three words.
    """
    found: list[Labelled] = []
    for path in sorted(folder.glob("*.txt")):
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        found += _pairs(lines) if path.name == PAIRS else _grouped(path, lines)
    return found


def ordinary() -> list[Labelled]:
    """Return what users and the avatar say in this project's other training sets, nine tenths of it, as no risk."""
    sets = tomllib.loads((SENTENCES / "training" / "sentences.toml").read_text("utf-8")).values()
    examples = tomllib.loads((SENTENCES / "exemplars.toml").read_text("utf-8"))
    groups = [group for group in examples.values() if isinstance(group, dict)]
    texts = [text for texts in sets for text in texts][::2]
    texts += [reply for group in groups for _, reply in group.get("pairs", ())]
    texts += [reply for group in groups for reply in group.get("general", ())]
    texts += [reply for tone in store.read() for reply in tone.replies]
    return [Labelled(text, "none", "everyday", "") for number, text in enumerate(texts) if number % 10]


def _grouped(path: Path, lines: list[str]) -> Iterator[Labelled]:
    header: list[str] = []
    near = path.stem if path.stem in set(Kind) else ""
    for line in lines:
        if line.startswith("["):
            header = line.strip("[]").split()
            continue
        if len(header) != 3:
            raise ValueError(f"{path}: {line!r} stands below no header of kind, form and severity")
        kind, form, severity = header
        yield Labelled(line, kind, form, severity.strip("-"), near if kind == "none" else "")


def _pairs(lines: list[str]) -> Iterator[Labelled]:
    for line in lines:
        label, risky, calm = (part.strip() for part in line.split("|"))
        kind, severity = label.split()
        yield Labelled(risky, kind, "veiled", severity)
        yield Labelled(calm, "none", "lookalike", "", kind)
