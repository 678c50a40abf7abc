"""`e3rg variants experiment` and `e3rg variants compare`: which variant is better."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from client.client import Client
from client.commands.arguments import duration, number, text
from client.comparison_lines import comparison_lines, experiment_lines
from client.files import write_whole
from client.terminal import complain, say
from client.variants import Change
from e3rg.orchestrator.v1 import variants_pb2 as pb

LONG = ("turns", "conversations", "counted_turns", "failed_turns")
"""Numbers of 64 bits, which would be texts in JSON."""


def add_experiment(action: argparse.ArgumentParser, add_change: Any) -> None:
    """Fill the parser of `e3rg variants experiment`.

    Args:
        action: The parser.
        add_change: Adds an action that changes the table.
    """
    actions = action.add_subparsers(required=True, metavar="ACTION")
    start = add_change(actions, "start", _start, "start an experiment: users are assigned once")
    start.add_argument("id", type=text, help="its name, which no experiment had before")
    start.add_argument("stage", type=text, help="such as tts, video, writer, mllm-text")
    start.add_argument("--primary", type=text, required=True, help="metric that decides, such as rating")
    start.add_argument("--hypothesis", type=text, default="", help="what you expect")
    start.add_argument("--users-min", type=number, help="users of each variant before a verdict (default: 100)")
    stop = add_change(actions, "stop", _stop, "end the experiment; its outcome stays in the table")
    stop.add_argument("id", type=text)
    show = actions.add_parser("show", help="show the experiment that runs, and those that ended")
    show.set_defaults(run=show_experiments)
    show.add_argument("--json", action="store_true", help="for a program")


def add_compare(action: argparse.ArgumentParser) -> None:
    """Fill the parser of `e3rg variants compare`."""
    action.set_defaults(run=compare)
    which = action.add_mutually_exclusive_group()
    which.add_argument("id", type=text, nargs="?", default="", help="experiment (default: the one that runs)")
    which.add_argument("--stage", type=text, default="", help="all turns with a variant of this stage instead")
    action.add_argument("--since", type=duration, help="with --stage: only turns of the last so long, such as 1d")
    action.add_argument("--json", action="store_true", help="for a program")
    action.add_argument("--svg", type=Path, metavar="FILE", help="draw the deciding metric over the number of users")


def show_experiments(client: Client, options: argparse.Namespace) -> int:
    """Print the experiments."""
    table = client.variants.get()
    running = [table.experiment] if table.HasField("experiment") else []
    if options.json:
        print(json.dumps([_document(trial) for trial in (*running, *table.ended)], indent=1))
        return 0
    if not running:
        say("no experiment runs")
    for trial in (*running, *table.ended):
        for line in experiment_lines(trial):
            say(line)
    return 0


def compare(client: Client, options: argparse.Namespace) -> int:
    """Print a comparison; fail where a sample-ratio mismatch forbids every verdict."""
    from_s = time.time() - options.since if options.since else 0.0
    told = client.variants.compare(options.id, options.stage, from_s, svg=bool(options.svg))
    if options.svg:
        write_whole(options.svg, [told.svg.encode()])
    told.svg = ""
    if options.json:
        document = _document(told)
        del document["svg"]
        for shown, variant in zip(document["variants"], told.variants, strict=True):
            shown.update((field, getattr(variant, field)) for field in LONG)
        print(json.dumps(document, indent=1))
    else:
        for line in comparison_lines(told):
            say(line)
    mismatched = [str(phase.number) for phase in told.phases if phase.mismatch]
    if mismatched:
        complain(f"sample-ratio mismatch in phase {', '.join(mismatched)}: nothing is decided")
    return 1 if mismatched else 0


def _start(options: argparse.Namespace) -> Change:
    return pb.StartExperiment(
        id=options.id,
        stage=options.stage,
        hypothesis=options.hypothesis,
        primary=options.primary,
        users_min=options.users_min,
    )


def _stop(options: argparse.Namespace) -> Change:
    return pb.StopExperiment(id=options.id)


def _document(message: pb.CompareVariantsResponse | pb.Experiment) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
