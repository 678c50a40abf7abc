"""Arguments that the actions have in common."""

import argparse
import math
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

USES = ("animate_face", "clone_voice", "infer_emotion", "keep_turns", "research_export")


class Refusal(Exception):
    """The command does not do it; the message says why and what would be right."""


def text(value: str) -> str:
    """An argument that is sent as text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{value!a} is not UTF-8; check the terminal's locale") from None
    return value


def number(value: str) -> int:
    """An argument that is a whole number, as the contracts have them."""
    if not value.isdecimal() or int(value) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"{value!r} is no number; give 0 to {(1 << 32) - 1}")
    return int(value)


def seconds(value: str) -> float:
    """An argument that is a length of time."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{value!r} is no length of time; give seconds, more than 0")
    return found


def duration(value: str) -> float:
    """Length of time with its unit: "90s", "5m", "1h", "1d"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", value)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{value!r} is no length of time; give one such as 90s, 5m, 1h or 1d")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def variant(value: str) -> tuple[str, str]:
    """Variant of a stage: "tts=b"."""
    found = re.fullmatch(r"([a-z0-9-]+)=([a-z0-9-]+)", value)
    if not found:
        raise argparse.ArgumentTypeError(f"{value!r} names no variant; give STAGE=VARIANT, such as tts=b")
    return found[1], found[2]


def add_talk(parser: argparse.ArgumentParser, conversation_required: bool) -> None:
    """Adds who talked with an identity, and in which conversation."""
    parser.add_argument("id", type=text, help="the identity")
    parser.add_argument("--conversation", type=text, required=conversation_required, default="", help="its name")
    parser.add_argument(
        "--person", type=text, default="", help="who talked; without, somebody who is known in that conversation only"
    )


def add_erasing(parser: argparse.ArgumentParser) -> None:
    """Adds what every erasure asks."""
    parser.add_argument("--asked-by", type=text, required=True, help="who asks for it; stands in the record")
    parser.add_argument("--yes", action="store_true", help="do not ask whether it is meant")


def confirm(what: str, yes: bool) -> None:
    """Asks whether an erasure is meant.

    Raises:
        Refusal: It is not, or nobody can be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refusal(f"nothing was erased: erasing {what} cannot be undone; say --yes when you mean it")
    print(f"Erase {what} with all that was ever kept of it? This cannot be undone. [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refusal("nothing was erased")


def toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file.

    Raises:
        OSError: It cannot be read.
        Refusal: It is no TOML.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(f"{path}: it is no TOML file: {error}") from None
