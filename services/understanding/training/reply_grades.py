"""Stored replies as people graded them, each as an answer to a message in its place.

They lie in `reply_grades/`. `replies.txt` has the replies as they were then, one a line. A line of any other file is
`grades<TAB>earlier<TAB>earlier<TAB>message`; earlier is what the user said before, empty for nothing. A grade is a
letter and the number of the line of a reply: `g` just right, `s` sayable, `o` odd, `h` harmful
(`benchmarks/reply_messages/README.md`; `g` is for a reply that takes up what was said and how it is for the user).
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_suffix("")
REPLIES = "replies.txt"
GRADES = "hosg"
"""From the worst to the best."""


@dataclass(frozen=True)
class Graded:
    """A message with the grades of replies to it.

    Attributes:
        of: Name of the set that it is from.
        text: The message.
        before: What the user said before it in the conversation.
        grades: Place in `GRADES` of replies, by their place in `replies()`.
    """

    of: str
    text: str
    before: tuple[str, ...]
    grades: dict[int, int]


def replies(folder: Path = FOLDER) -> list[str]:
    """Return all replies that were graded; those to a risk have {emergency} and {line}."""
    return (folder / REPLIES).read_text("utf-8").splitlines()


def read(folder: Path = FOLDER) -> list[Graded]:
    """Return all messages, in the order of the files.

    Raises:
        ValueError: A line has not four fields, or a grade is none; names it.
    """
    found: list[Graded] = []
    for path in sorted(folder.glob("*.tsv")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            try:
                grades, *before, text = line.split("\t")
                told = {int(grade[1:]) - 1: GRADES.index(grade[0]) for grade in grades.split()}
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number}: {line!r} is no message with grades") from error
            found.append(Graded(path.stem, text, tuple(filter(None, before)), told))
    return found
