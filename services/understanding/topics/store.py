"""Reads topics and tones: messages of each, to learn from, and replies that fit every such message.

A file of `messages/` holds topics, each below a line `== name act valence`; `- ` begins a message, `> ` a reply.
`tones.txt` holds tones, each below a line `== name act valence`, or `== name act valence restate` where a reply may
begin with the user's words told back; `# ` begins a line that says when a tone is meant. A tone is what a kind listener
hears whatever it is about: its replies are said where no topic is sure.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

FOLDER = Path(__file__).with_name("messages")
TONES_PATH = Path(__file__).with_name("tones.txt")
RESTATE = "restate"


class Act(StrEnum):
    """What a message does."""

    TELLING = "telling"
    FACT = "fact"
    FAVOUR = "favour"
    ADVICE = "advice"
    SMALLTALK = "smalltalk"
    ABOUT = "about"
    COMPLAINT = "complaint"
    THANKS = "thanks"
    GOODBYE = "goodbye"
    ANSWER = "answer"


class Valence(StrEnum):
    """How it is for the user; `ANY` where it can be either, or neither."""

    GOOD = "good"
    BAD = "bad"
    ANY = "any"


@dataclass(frozen=True)
class Topic:
    """A topic with its messages and replies."""

    name: str
    act: Act
    valence: Valence
    messages: tuple[str, ...]
    replies: tuple[str, ...]


@dataclass(frozen=True)
class Tone:
    """A tone with its replies; those that are named like a valence fit most messages that feel so."""

    name: str
    act: Act
    valence: Valence
    replies: tuple[str, ...]
    may_restate: bool = False


def read(folder: Path = FOLDER) -> tuple[Topic, ...]:
    """Return all topics, in the order of their files.

    Raises:
        ValueError: A line is neither a topic nor below one, or a topic lacks messages or replies; names the line.
    """
    topics: list[Topic] = []
    for path in sorted(folder.glob("*.txt")):
        for header, lines in _parts(path):
            parts = header.split()
            if len(parts) != 3 or not (lines["-"] and lines[">"]):
                raise ValueError(f"topic {header!r} needs a name, an act and a valence, messages and replies")
            topics.append(Topic(parts[0], Act(parts[1]), Valence(parts[2]), tuple(lines["-"]), tuple(lines[">"])))
    return tuple(topics)


def read_tones(path: Path = TONES_PATH) -> tuple[Tone, ...]:
    """Return all tones, in the order of the file.

    Raises:
        ValueError: A line is neither a tone nor below one, a tone lacks replies, or a valence its tone; names the line.
    """
    tones: list[Tone] = []
    for header, lines in _parts(path):
        parts = header.split()
        if len(parts) not in {3, 4} or parts[3:] not in ([], [RESTATE]) or lines["-"] or not lines[">"]:
            raise ValueError(
                f"tone {header!r} needs a name, an act, a valence and at most {RESTATE!r}; replies and no messages"
            )
        tones.append(Tone(parts[0], Act(parts[1]), Valence(parts[2]), tuple(lines[">"]), RESTATE in parts))
    if missing := set(Valence) - {tone.name for tone in tones}:
        raise ValueError(f"{path.name}: it lacks the tones of the valences {', '.join(sorted(missing))}")
    return tuple(tones)


def _parts(path: Path) -> list[tuple[str, dict[str, list[str]]]]:
    found: list[tuple[str, dict[str, list[str]]]] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if mark == "==":
            found.append((rest, {"-": [], ">": []}))
        elif mark in {"-", ">"} and found:
            found[-1][1][mark].append(rest)
        elif line and mark != "#":
            raise ValueError(f"{path.name}, line {number}: {line!r} is no header, message or reply")
    return found
