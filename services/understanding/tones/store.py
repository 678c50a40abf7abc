"""Reads the tones: replies that fit whatever a message is about, where it sounds so.

`tones.txt` holds tones, each below a line `== name act valence`, or `== name act valence restate` where a reply may
begin with the user's words told back; `# ` begins a line that says when a tone is meant, `> ` a reply.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

PATH = Path(__file__).with_name("tones.txt")
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
class Tone:
    """A tone with its replies; those that are named like a valence fit most messages that feel so."""

    name: str
    act: Act
    valence: Valence
    replies: tuple[str, ...]
    may_restate: bool = False


def read(path: Path = PATH) -> tuple[Tone, ...]:
    """Return all tones, in the order of the file.

    Raises:
        ValueError: A line is neither a tone nor below one, a tone lacks replies, or a valence its tone; names the line.
    """
    found: list[tuple[str, list[str]]] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if mark == "==":
            found.append((rest, []))
        elif mark == ">" and found:
            found[-1][1].append(rest)
        elif line and mark != "#":
            raise ValueError(f"{path.name}, line {number}: {line!r} is no header or reply")
    tones = tuple(_tone(header, replies) for header, replies in found)
    if missing := set(Valence) - {tone.name for tone in tones}:
        raise ValueError(f"{path.name}: it lacks the tones of the valences {', '.join(sorted(missing))}")
    return tones


def replies(tones: Iterable[Tone]) -> list[str]:
    """Return all replies of tones."""
    return [reply for tone in tones for reply in tone.replies]


def _tone(header: str, replies: list[str]) -> Tone:
    parts = header.split()
    if len(parts) not in {3, 4} or parts[3:] not in ([], [RESTATE]) or not replies:
        raise ValueError(f"tone {header!r} needs a name, an act, a valence and at most {RESTATE!r}, and replies")
    return Tone(parts[0], Act(parts[1]), Valence(parts[2]), tuple(replies), RESTATE in parts)
