"""Arguments of `python -m benchmarks.load`."""

import argparse
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load.bounds import Bound, parse_bound
from benchmarks.load.errors import ProfileError
from benchmarks.load.messages import TEXTS, Message, Mix, parse_weights, read_file, read_texts
from benchmarks.load.profile import OUTPUTS, THINKS, Profile
from benchmarks.load.ramp import parse_stages
from benchmarks.load.result import Result

DURATION_S = 60.0
FIGURES = list(Result(Profile(""), "", (), (), 0).figures)


@dataclass(frozen=True)
class Options:
    """A profile, what fails it, and where its results go as JSON."""

    profile: Profile
    bounds: Sequence[Bound]
    json: str


def parse(description: str, words: Sequence[str] | None = None) -> Options:
    """Read the arguments; ends the program when they are wrong."""
    parser = _parser(description)
    found = parser.parse_args(words)
    try:
        return Options(_profile(found), [parse_bound(text, FIGURES) for text in found.fail_if], found.json)
    except (ProfileError, OSError) as error:
        parser.error(str(error))


def _profile(found: argparse.Namespace) -> Profile:
    messages: list[Message] = list(read_texts(found.messages) if found.messages else TEXTS)
    messages += [read_file("audio", path) for path in found.audio]
    messages += [read_file("video", path) for path in found.video]
    weights = parse_weights(found.mix) if found.mix else {}
    stages = parse_stages(found.stage) if found.stage else ()
    duration_s = (0.0 if stages else DURATION_S) if found.duration_s is None else found.duration_s
    return Profile(
        address=found.address,
        users=found.users,
        rate=found.rate,
        stages=stages,
        duration_s=duration_s,
        turns_max=found.turns,
        think_s=found.think_s,
        think=found.think,
        open_max=found.open_max,
        mix=Mix(messages, weights),
        output=found.output,
        identity=found.identity,
        tenant=found.tenant,
        deadline_s=found.deadline_s,
        conversations=found.conversations,
        conversation_turns=found.conversation_turns,
        keep_clips=found.keep_clips,
        name=found.name,
        seed=found.seed,
        connections=found.connections,
        ca_file=found.ca,
        certificate_file=found.certificate,
        key_file=found.key,
    )


def _parser(description: str) -> argparse.ArgumentParser:
    measures = ", ".join(name for name in FIGURES if "." not in name)
    told = f"{measures}; and percentiles by kind of message, such as audio.first_sound_p95_s"
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load",
        description=description,
        epilog="figures:\n" + textwrap.fill(told, 100, initial_indent="  ", subsequent_indent="  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    address = os.environ.get("E3RG_ADDRESS", "127.0.0.1:50051")
    parser.add_argument("address", nargs="?", default=address, help="the gateway, or E3RG_ADDRESS (%(default)s)")
    for name, purpose in (
        ("ca", "authority of the gateway's certificate: with it, connections are TLS"),
        ("certificate", "shown to a gateway that demands one"),
        ("key", "private key of --certificate"),
    ):
        variable = f"E3RG_{name.upper()}_FILE"
        default = os.environ.get(variable, "")
        parser.add_argument(f"--{name}", default=default, metavar="FILE", help=f"{purpose}, or {variable}")
    _add_level(parser.add_argument_group("how much"))
    _add_turns(parser.add_argument_group("which turns"))
    results = parser.add_argument_group("results")
    results.add_argument("--json", default="", metavar="FILE", help="write everything there; - is the standard output")
    results.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="FIGURE>NUMBER",
        help="end with status 1 when this is so, like 'lost>0' or 'first_video_p95_s>3'; may be repeated",
    )
    return parser


def _add_level(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--users", type=int, help="callers who make turns one after the other (1)")
    group.add_argument("--rate", type=float, help="turns a second that arrive at random, whatever became of earlier")
    group.add_argument(
        "--stage", metavar="TIME:LEVEL,…", help="linear ramps to other numbers of users or rates: 60s:2,5m:10,60s:0"
    )
    group.add_argument("--duration-s", type=float, help="hold the (last) level so long (60; with --stage not at all)")
    group.add_argument("--turns", type=int, default=0, help="end after so many turns")
    group.add_argument("--think-s", type=float, default=0, help="mean pause of a user between two turns (%(default)s)")
    group.add_argument("--think", choices=THINKS, default=THINKS[0], help="how the pause is drawn (%(default)s)")
    group.add_argument(
        "--open-max", type=int, default=256, help="most turns at once with --rate; others are not sent (%(default)s)"
    )
    group.add_argument("--connections", type=int, default=4, help="connections at the beginning (%(default)s)")


def _add_turns(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--messages", type=Path, metavar="FILE", help="texts, one a line (five examples)")
    for kind in ("audio", "video"):
        group.add_argument(
            f"--{kind}", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=f"{kind} messages"
        )
    group.add_argument("--mix", default="", help="how often each kind is sent: text=8,audio=1,video=1 (alike)")
    group.add_argument("--output", choices=OUTPUTS, default="video", help="how much of a reply (%(default)s)")
    group.add_argument("--identity", default="anna", help="who answers (%(default)s)")
    group.add_argument("--tenant", default=os.environ.get("E3RG_TENANT", "default"), help="whose (%(default)s)")
    group.add_argument("--deadline-s", type=float, default=120, help="of each turn (%(default)s)")
    group.add_argument("--conversations", action="store_true", help="keep turns, each caller in one of its own")
    told = "a caller begins another conversation after so many answers (never)"
    group.add_argument("--conversation-turns", type=int, default=0, metavar="TURNS", help=told)
    group.add_argument("--keep-clips", action="store_true", help="keep sound and video of the turns too")
    group.add_argument("--name", default="", help="conversations begin with it (drawn)")
    group.add_argument("--seed", type=int, default=0, help="same seed, same arrivals and messages (%(default)s)")
