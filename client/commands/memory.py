"""`e3rg memory`: what was said, for how long it is kept, and what was erased."""

import argparse
import time
from pathlib import Path

from client.client import Client
from client.commands.arguments import add_erasing, add_talk, confirm, number, text
from client.erasure_lines import audit_line, audit_lines, retention_lines
from client.files import write_whole
from client.terminal import complain, say
from client.turn_lines import CLIPS, recalled_line, turn_lines
from e3rg.memory.v1 import turns_pb2

DAY_S = 86_400.0

_KINDS = {name: kind for kind, name in CLIPS.items()}
SCALES = {
    "expressiveness": "how expressive the reply was, 1 to 5",
    "consistency": "how well words, voice and face agreed, 1 to 5",
    "naturalness": "how natural the reply was, 1 to 5",
}
_RETENTION = {
    "turns_days": "turns, with their vectors and clips",
    "clips_days": "clips",
    "derived_days": "what models derived",
    "audits_days": "records of erasures",
}


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fills the parser of `e3rg memory`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    turns = actions.add_parser("turns", help="show the turns of a conversation, the newest first")
    turns.set_defaults(run=show_turns)
    add_talk(turns, conversation_required=True)
    _add_search(actions.add_parser("search", help="find turns whose user said something like a text"))
    clip = actions.add_parser("clip", help="write the speech or the video of a turn to a file")
    clip.set_defaults(run=write_clip)
    add_talk(clip, conversation_required=True)
    clip.add_argument("--turn", type=text, required=True, help="as `turns` shows it")
    clip.add_argument("--kind", choices=_KINDS, required=True)
    clip.add_argument("file", type=Path, help="replaced when it is there")
    _add_rate(actions.add_parser("rate", help="rate the reply of a turn, once per rater"))
    _add_erase_person(actions.add_parser("erase-person", help="erase all of a person, with every identity"))
    actions.add_parser("audits", help="show what was erased, the newest first").set_defaults(run=show_audits)
    retention = actions.add_parser("retention", help="show, or set, how long things are kept")
    retention.set_defaults(run=keep)
    for field, what in _RETENTION.items():
        retention.add_argument(f"--{field.replace('_', '-')}", type=number, help=f"for {what}; 0 for no such end")


def show_turns(client: Client, options: argparse.Namespace) -> int:
    """Prints the turns of a conversation; tells of what is damaged at the end, and fails if anything is."""
    damaged: list[str] = []
    for turn in client.turns.all(options.id, options.conversation, options.person, damaged.append):
        for line in turn_lines(turn):
            say(line)
    for problem in damaged:
        complain(problem)
    return 1 if damaged else 0


def search(client: Client, options: argparse.Namespace) -> int:
    """Prints the turns that are like a text, a line each."""
    age_max_s = (options.max_age_days or 0) * DAY_S
    hits = client.turns.search(
        options.id, options.text, options.person, options.conversation, options.emotion, age_max_s
    )
    for hit in hits:
        say(recalled_line(hit, time.time()))
    return 0


def write_clip(client: Client, options: argparse.Namespace) -> int:
    """Writes a clip to a file, which is there whole or not at all."""
    parts = client.turns.clip(options.id, options.conversation, options.turn, _KINDS[options.kind], options.person)
    say(f"written {options.file} ({write_whole(options.file, parts)} bytes)")
    return 0


def rate(client: Client, options: argparse.Namespace) -> int:
    """Rates a turn and prints the rating."""
    scales = {scale: getattr(options, scale) for scale in SCALES}
    rating = turns_pb2.Rating(rater=options.rater, **scales)
    kept = client.turns.rate(options.id, options.conversation, options.turn, rating, options.person)
    told = ", ".join(f"{scale} {getattr(kept, scale)}" for scale in SCALES)
    say(f"rated      turn {options.turn}, by {kept.rater}: {told}")
    return 0


def erase_person(client: Client, options: argparse.Namespace) -> int:
    """Erases a person and prints the record of that."""
    whom = f"person {options.person}" if options.person else f"whoever talked in conversation {options.conversation}"
    confirm(f"{whom} of tenant {options.tenant}", options.yes)
    for line in audit_lines(client.erasure.person(options.asked_by, options.person, options.conversation)):
        say(line)
    return 0


def show_audits(client: Client, options: argparse.Namespace) -> int:
    """Prints the records of erasures, a line each."""
    for audit in client.erasure.audits():
        say(audit_line(audit))
    return 0


def keep(client: Client, options: argparse.Namespace) -> int:
    """Sets what was given of how long things are kept; prints how it is then."""
    retention = client.erasure.retention()
    given = {field: days for field in _RETENTION if (days := getattr(options, field)) is not None}
    if given:
        for field, days in given.items():
            setattr(retention, field, days)
        client.erasure.set_retention(retention)
    for line in retention_lines(retention):
        say(line)
    return 0


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=search)
    add_talk(parser, conversation_required=False)
    parser.add_argument("text", type=text)
    parser.add_argument(
        "--emotion", type=text, action="append", default=[], help="felt by the user; may be given several times"
    )
    parser.add_argument("--max-age-days", type=float, help="only turns not older")


def _add_rate(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=rate)
    add_talk(parser, conversation_required=True)
    parser.add_argument("--turn", type=text, required=True, help="as `turns` shows it")
    parser.add_argument("--rater", type=text, required=True, help="who rates, once: letters, digits, hyphens")
    for scale, meaning in SCALES.items():
        parser.add_argument(f"--{scale}", type=int, required=True, choices=range(1, 6), help=meaning)


def _add_erase_person(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=erase_person)
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--person", type=text, default="", help="whom")
    whom.add_argument("--conversation", type=text, default="", help="of somebody who is known in it only")
    add_erasing(parser)
