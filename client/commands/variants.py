"""`e3rg variants`: which model of a stage serves which share of the conversations."""

import argparse
import getpass
import json
from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import MessageToDict

from client.client import Client
from client.commands import trials
from client.commands.arguments import Refusal, duration, number, text
from client.connection import ClientError
from client.terminal import complain, say
from client.variant_lines import change_lines, table_lines
from client.variants import Change
from e3rg.orchestrator.v1 import variants_pb2 as pb

STATES = ("serving", "draining", "off")
_NUMBERS = {
    "failed_share_max": "how much larger its share of failed turns may be, 0 to 1",
    "degraded_share_max": "how much larger its share of degraded turns may be, 0 to 1",
    "first_chunk_ratio_max": "how many times the control's 95th percentile to the first chunk its own may be",
}


def add_to(parser: argparse.ArgumentParser) -> None:
    """Fill the parser of `e3rg variants`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for name, run, purpose in (
        ("show", show, "show the table of variants"),
        ("history", show_history, "show who changed what, when and why"),
    ):
        action = actions.add_parser(name, help=purpose)
        action.set_defaults(run=run)
        action.add_argument("--json", action="store_true", help="for a program")
    action = _add(actions, "put", _put, "add a variant without traffic, or change its address")
    action.add_argument("variant", type=text)
    # `address` is the gateway's.
    action.add_argument("replicas", type=text, metavar="ADDRESS", help="where its replicas are, as host:port")
    action = _add(actions, "remove", _remove, "take a variant that is off out of the table")
    action.add_argument("variant", type=text)
    action = _add(actions, "set", _set, "set weights; the control gets the rest")
    action.add_argument("weights", nargs="+", type=_weight, metavar="VARIANT=PERCENT")
    action = _add(actions, "state", _state, "let a variant serve, drain (no new conversations) or be off")
    action.add_argument("variant", type=text)
    action.add_argument("state", choices=STATES)
    action = _add(actions, "promote", _promote, "make a variant the control with all traffic; the one before drains")
    action.add_argument("variant", type=text)
    action = _add(actions, "rollback", _rollback, "set a variant off; the control, or the one before it, takes over")
    action.add_argument("variant", type=text, nargs="?", default="", help="without, the one that was raised last")
    action = _add(actions, "shadow", _shadow, "have a variant work on a copy of some turns, unheard and unseen")
    action.add_argument("variant", type=text)
    action.add_argument("share", type=_percent, metavar="PERCENT", help="of the turns; 0 ends it")
    _add_ramp(_add(actions, "ramp", _ramp, "raise the weight of a variant step by step"))
    _add_guardrail(_add(actions, "guardrail", _guardrail, "set the limits at which a variant is rolled back"))
    experiment = actions.add_parser("experiment", help="start, stop or show an experiment")
    trials.add_experiment(experiment, _add_change)
    trials.add_compare(actions.add_parser("compare", help="tell which variant is better, and how sure that is"))
    _add(actions, "acknowledge", _acknowledge, "let the chart's values count again after a guardrail's rollback")


def show(client: Client, options: argparse.Namespace) -> int:
    """Print the table; fail when a newer one is refused."""
    table = client.variants.get()
    if options.json:
        _print_json(table, ("history", "table_json"))
    else:
        for line in table_lines(table):
            say(line)
    if table.problem:
        complain(f"a newer table is refused: {table.problem}")
    return 1 if table.problem else 0


def show_history(client: Client, options: argparse.Namespace) -> int:
    """Print the last changes, the newest first."""
    table = client.variants.get()
    if options.json:
        _print_json(pb.GetVariantsResponse(version=table.version, history=table.history), ("stages", "table_json"))
        return 0
    for change in table.history:
        for line in change_lines(change):
            say(line)
    return 0


def change(client: Client, options: argparse.Namespace) -> int:
    """Change the table; fail unless the change is in effect."""
    try:
        made = client.variants.change(options.make(options), options.by or _login(), options.why, options.version)
    except ClientError as error:
        # Values to commit are for a file: they go to where a file can take them.
        problem, _, values = error.message.partition("\n")
        for line in values.splitlines():
            say(line)
        raise ClientError(error.status, problem.removesuffix(":")) from None
    say(f"version {made.version}: {made.summary}")
    if made.problem:
        complain(f"it is written, but this gateway does not use it yet: {made.problem}")
    return 1 if made.problem else 0


def _add(actions: Any, name: str, make: Callable[[argparse.Namespace], Change], purpose: str) -> Any:
    """Add an action that makes a change of a stage."""
    action = _add_change(actions, name, make, purpose)
    action.add_argument("stage", type=text, help="such as tts, video, writer, mllm-text")
    return action


def _add_change(actions: Any, name: str, make: Callable[[argparse.Namespace], Change], purpose: str) -> Any:
    """Add an action that changes the table."""
    action = actions.add_parser(name, help=purpose)
    action.set_defaults(run=change, make=make)
    action.add_argument("--by", type=text, default="", help="who changes it (default: your login name)")
    action.add_argument("--why", type=text, default="", help="stands in the history")
    action.add_argument("--version", type=int, default=0, help="the one that you have seen (default: any)")
    return action


def _add_ramp(action: argparse.ArgumentParser) -> None:
    action.add_argument("variant", type=text, nargs="?", default="")
    action.add_argument("weights", type=_steps, nargs="?", default=(), metavar="PERCENT,…")
    action.add_argument("--every", type=duration, help="how long each step lasts at least, such as 1h")
    action.add_argument("--turns-min", type=number, help="turns of the variant that each step waits for (default: 30)")
    action.add_argument("--stop", action="store_true", help="stop the ramp that runs; the weights stay")


def _add_guardrail(action: argparse.ArgumentParser) -> None:
    action.add_argument("--off", action="store_true", help="no limits")
    action.add_argument("--window", type=duration, help="turns of the last so long count, such as 5m")
    action.add_argument("--turns-min", type=number, help="turns of a variant before anything is judged")
    for field, purpose in _NUMBERS.items():
        action.add_argument(f"--{field.replace('_', '-')}", type=float, metavar="NUMBER", help=purpose)


def _put(options: argparse.Namespace) -> Change:
    return pb.PutVariant(**_which(options), address=options.replicas)


def _remove(options: argparse.Namespace) -> Change:
    return pb.RemoveVariant(**_which(options))


def _set(options: argparse.Namespace) -> Change:
    weights = dict(options.weights)
    if len(weights) < len(options.weights):
        given = " ".join(f"{name}={weight:g}" for name, weight in options.weights)
        raise Refusal(f"a variant has two weights: {given}")
    return pb.SetWeights(stage=options.stage, weights=weights)


def _state(options: argparse.Namespace) -> Change:
    return pb.SetState(**_which(options), state=options.state)


def _promote(options: argparse.Namespace) -> Change:
    return pb.Promote(**_which(options))


def _rollback(options: argparse.Namespace) -> Change:
    return pb.Rollback(**_which(options))


def _shadow(options: argparse.Namespace) -> Change:
    return pb.SetShadow(**_which(options), share=options.share)


def _ramp(options: argparse.Namespace) -> Change:
    if options.stop:
        return pb.StartRamp(stage=options.stage)
    if not (options.variant and options.weights and options.every):
        raise Refusal("name the variant, its weights and --every, such as: kokoro 1,10,50,100 --every 1h; or --stop")
    return pb.StartRamp(**_which(options), weights=options.weights, every_s=options.every, turns_min=options.turns_min)


def _guardrail(options: argparse.Namespace) -> Change:
    numbers = {field: getattr(options, field) for field in _NUMBERS}
    return pb.SetGuardrail(
        stage=options.stage, on=not options.off, window_s=options.window, turns_min=options.turns_min, **numbers
    )


def _acknowledge(options: argparse.Namespace) -> Change:
    return pb.AcknowledgeRollback(stage=options.stage)


def _which(options: argparse.Namespace) -> dict[str, str]:
    return {"stage": options.stage, "variant": options.variant}


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # nobody has this number, as in a container
        return ""


def _print_json(table: pb.GetVariantsResponse, left_out: tuple[str, ...]) -> None:
    document = MessageToDict(table, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    document["version"] = table.version  # numbers of 64 bits would be texts
    for shown, change in zip(document["history"], table.history, strict=True):
        shown["version"] = change.version
    print(json.dumps({key: value for key, value in document.items() if key not in left_out}, indent=1))


def _percent(value: str) -> float:
    try:
        return float(value.removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is no percent; give 0 to 100") from None


def _weight(value: str) -> tuple[str, float]:
    variant, equals, percent = text(value).partition("=")
    if not (variant and equals):
        raise argparse.ArgumentTypeError(f"{value!r}: give VARIANT=PERCENT, such as kokoro=10")
    return variant, _percent(percent)


def _steps(value: str) -> tuple[float, ...]:
    return tuple(_percent(each) for each in value.split(","))
