"""Messages with their topic, tone and emotion, in conversations; see `tone_messages/`.

A line is `topic<TAB>tone<TAB>label<TAB>message`; `-` is the topic of a message that every stored reply of a topic would
not fit. In files called `talks_*` an empty line ends a conversation, and a message is labelled as it is meant in it.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_suffix("")
NO_TOPIC = "-"


@dataclass(frozen=True)
class Toned:
    """A message with its labels.

    Attributes:
        text: The message.
        before: What the user said before it in the conversation; empty for a single or a first message.
        topic: Name of its topic; `NO_TOPIC` for none.
        tone: Name of its tone.
        label: Label of the emotion wheel.
    """

    text: str
    before: str
    topic: str
    tone: str
    label: str


def read(folder: Path = FOLDER) -> list[Toned]:
    """Return all messages of a folder, in the order of its files.

    Raises:
        ValueError: A line has not four fields; names it.
    """
    found: list[Toned] = []
    for path in sorted(folder.glob("*.tsv")):
        before = ""
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if not line:
                before = ""
                continue
            fields = line.split("\t")
            if len(fields) != 4:
                raise ValueError(f"{path.name}, line {number}: {line!r} needs topic, tone, label and message")
            topic, tone, label, text = fields
            found.append(Toned(text, before, topic, tone, label))
            before = text if path.name.startswith("talks") else ""
    return found
