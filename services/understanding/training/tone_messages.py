"""Messages with the risk they speak of, the tones that fit them, and their emotion, in conversations.

They lie in `tone_messages/`. A line is `risk<TAB>tones<TAB>label<TAB>message`. The risk is its kind, `-` for none; of a
tone that is named every reply fits, the best one stands first; `?` is a risk or label that nobody told. In files called
`talks_*` an empty line ends a conversation, and a message is labelled as it is meant in it.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_suffix("")
NO_RISK, UNTOLD = "-", "?"


@dataclass(frozen=True)
class Toned:
    """A message with its labels.

    Attributes:
        of: Name of the set that it is from.
        text: The message.
        before: What the user said before it in the conversation.
        risk: Kind of its risk; `NO_RISK` for none, `UNTOLD` where it is not known.
        tones: Names of the tones that fit, the best first.
        label: Label of the emotion wheel; `UNTOLD` where it is not known.
    """

    of: str
    text: str
    before: tuple[str, ...]
    risk: str
    tones: tuple[str, ...]
    label: str


def read(folder: Path = FOLDER) -> list[Toned]:
    """Return all messages of a folder, in the order of its files.

    Raises:
        ValueError: A line has not four fields; names it.
    """
    found: list[Toned] = []
    for path in sorted(folder.glob("*.tsv")):
        earlier: list[str] = []
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if not line:
                earlier = []
                continue
            fields = line.split("\t")
            if len(fields) != 4:
                raise ValueError(f"{path.name}, line {number}: {line!r} needs risk, tones, label and message")
            risk, tones, label, text = fields
            found.append(Toned(path.stem, text, tuple(earlier), risk, tuple(tones.split()), label))
            if path.name.startswith("talks"):
                earlier.append(text)
    return found
