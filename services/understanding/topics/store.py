"""Reads the topics: messages of each, to learn from, and replies that fit every such message.

A file of `messages/` holds topics, each below a line `== name act valence`; `- ` begins a message, `> ` a reply. A
topic without messages is never found: its replies reflect and ask when no other is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

FOLDER = Path(__file__).with_name("messages")


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
    """How it is for the user; `ANY` where it can be either."""

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


def read(folder: Path = FOLDER) -> tuple[Topic, ...]:
    """Return all topics, in the order of their files.

    Raises:
        ValueError: A line is neither a topic nor below one, or a topic lacks replies; names the line.
    """
    topics: list[tuple[str, dict[str, list[str]]]] = []
    for path in sorted(folder.glob("*.txt")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            mark, _, rest = line.partition(" ")
            if mark == "==":
                topics.append((rest, {"-": [], ">": []}))
            elif mark in {"-", ">"} and topics:
                topics[-1][1][mark].append(rest)
            elif line:
                raise ValueError(f"{path.name}, line {number}: {line!r} is no topic, message or reply")
    return tuple(_topic(header, lines["-"], lines[">"]) for header, lines in topics)


def learned(topics: Sequence[Topic]) -> tuple[Topic, ...]:
    """Return the topics that can be found, in the order of the reader's head."""
    return tuple(topic for topic in topics if topic.messages)


def _topic(header: str, messages: list[str], replies: list[str]) -> Topic:
    parts = header.split()
    if len(parts) != 3 or not replies:
        raise ValueError(f"topic {header!r} needs a name, an act and a valence, and replies")
    return Topic(parts[0], Act(parts[1]), Valence(parts[2]), tuple(messages), tuple(replies))
