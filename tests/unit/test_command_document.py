"""What `docs/commands.md` shows is what the command understands, and nothing that it understands is left out."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from client.command import _parser

DOCUMENT = Path(__file__).parents[2].joinpath("docs", "commands.md").read_text("utf-8").replace("\\\n", " ")
EXAMPLES = [shlex.split(line) for line in re.findall(r"^    \$ e3rg (.+)$", DOCUMENT, re.MULTILINE)]


def actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    """Every action that can be asked for, as the words that ask for it."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield ()
    for choices in below:
        for name, inner in choices.choices.items():
            yield from ((name, *rest) for rest in actions(inner))


def test_the_examples_are_understood() -> None:
    for words in EXAMPLES:
        assert callable(_parser().parse_args(words).run), words


def test_every_action_has_an_example() -> None:
    shown = {tuple(words[:count]) for words in EXAMPLES for count in (1, 2, 3)}
    shown |= {tuple(found.split()) for found in re.findall(r"`e3rg ([a-z]+)`", DOCUMENT)}
    assert set(actions(_parser())) - shown == set()
