"""`e3rg exemplar`: examples of answers."""

import argparse
from pathlib import Path
from typing import Any

from client.client import Client
from client.commands.arguments import Refusal, text, toml
from client.terminal import count, say
from e3rg.memory.v1 import exemplars_pb2 as pb

_KEYS = ("user_text", "user_emotion", "reply_text")


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg exemplar`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for name, run, purpose in (
        ("add", add, "keep examples"),
        ("list", show_all, "show the examples"),
        ("search", search, "find the examples whose message is most like a text"),
        ("remove", remove, "remove examples"),
    ):
        action = actions.add_parser(name, help=purpose)
        action.set_defaults(run=run)
        whose = action.add_mutually_exclusive_group(required=True)
        whose.add_argument("--identity", type=text, default="", help="those of this identity")
        whose.add_argument("--tenant-wide", action="store_true", help="those of all the tenant's identities")
        if run is add:
            action.add_argument("file", type=Path, help=f"TOML: [[exemplar]] with {', '.join(_KEYS)}")
        if run is search:
            action.add_argument("text", type=text)
            action.add_argument(
                "--emotion", type=text, action="append", default=[], help="felt in them; may be given several times"
            )
        if run is remove:
            action.add_argument("ids", nargs="+", type=text, metavar="EXEMPLAR")


def add(client: Client, options: argparse.Namespace) -> int:
    """Keeps the examples of a file."""
    exemplars = [_exemplar(options.file, number, table) for number, table in enumerate(_tables(options.file), 1)]
    kept = client.exemplars.put(exemplars, options.identity)
    say(f"kept {count(len(kept), 'exemplar')}")
    for name, exemplar in zip(kept, exemplars, strict=False):
        say(f"{name}  {exemplar.user_text}")
    return 0


def show_all(client: Client, options: argparse.Namespace) -> int:
    """Prints the examples, a line each."""
    for exemplar in client.exemplars.all(options.identity):
        say(_line(exemplar))
    return 0


def search(client: Client, options: argparse.Namespace) -> int:
    """Prints the examples that are most like a text, a line each."""
    for hit in client.exemplars.search(options.text, options.identity, options.emotion):
        say(f"{hit.similarity:5.2f}  {_line(hit.exemplar)}")
    return 0


def remove(client: Client, options: argparse.Namespace) -> int:
    """Removes examples."""
    removed = client.exemplars.remove(options.ids, options.identity)
    say(f"removed {removed} of {count(len(options.ids), 'exemplar')}")
    return 0


def _tables(path: Path) -> list[Any]:
    content = toml(path)
    tables = content.get("exemplar")
    if set(content) != {"exemplar"} or not isinstance(tables, list):
        raise Refusal(f"{path}: give one or more [[exemplar]], and nothing beside them")
    return tables


def _exemplar(path: Path, number: int, table: Any) -> pb.Exemplar:
    if not isinstance(table, dict) or set(table) != set(_KEYS) or not all(isinstance(x, str) for x in table.values()):
        raise Refusal(f"{path}: exemplar {number}: give {', '.join(_KEYS)} as texts, and nothing beside them")
    return pb.Exemplar(**table)


def _line(exemplar: pb.Exemplar) -> str:
    return f"{exemplar.id}  {exemplar.user_emotion:12} {exemplar.user_text!r} - {exemplar.reply_text!r}"
