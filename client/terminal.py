"""What a person reads: lines that cannot command the terminal, times, and pictures where it can show them."""

import sys
import time
import unicodedata

_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that move the cursor, change what is seen, or turn the direction of writing."""

_JOINERS = {"\u200c", "\u200d"}
"""Parts of words in Persian and of emoji; they command nothing."""

_AGES_S = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def printable(text: str) -> str:
    r"""Returns `text` with what a terminal would obey written out, such as \x1b.

    What people say and how deployments fail is other people's text.
    """
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _UNSAFE and character not in _JOINERS
        else character
        for character in text
    )


def say(line: str) -> None:
    """Prints a line for a person, at once."""
    print(printable(line).rstrip(" "), flush=True)


def complain(text: str) -> None:
    """Prints a line about what went wrong."""
    print(f"e3rg: {printable(text)}", file=sys.stderr, flush=True)


def moment(unix_s: float) -> str:
    """A time, in UTC: whoever reads it may be anywhere."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))
    except (OverflowError, ValueError, OSError):  # what a store holds may be damaged
        return f"Unix time {unix_s:g}"


def age(seconds: float) -> str:
    """How long ago something was."""
    for name, length_s in _AGES_S:
        if seconds >= length_s:
            count = int(seconds // length_s)
            return f"{count} {name}{'s' * (count > 1)} ago"
    return "a moment ago"


def count(number: int, noun: str) -> str:
    """A number of things: "1 turn", "2 turns"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
