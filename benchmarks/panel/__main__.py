"""Measure how often the panel names the right emotion, beside its members, and what a slow voter or a liar costs.

    python -m benchmarks.panel --csv situations.csv [--sample 600 --seed 1] [--shots] [--votes-out votes.jsonl]
    python -m benchmarks.panel --votes-in votes.jsonl [--voter NAME] [--liar 2] [--late NAME]

The csv has the columns `emotion` and `situation`, as EmpatheticDialogues (Rashkin et al., 2019) can be brought to.
That corpus is for research only (CC BY-NC 4.0): it is not part of this project and nothing here is trained on it.
`--voter NAME=HOST:PORT` gives a seat to any model that is served; its CPU time, and with it how long it takes in the
last table, is then that of asking it only.
`--toml services/understanding/training/messages.toml` votes on the project's own messages, from which
`services.understanding.training.weights` learns what votes weigh.

`--liar 2` seats two liars beside the voters, of each kind in turn; `--late NAME` has a voter answer after the deadline.
The last table then has what that costs the majority, without and with the track records of the voters.

HIT is the share of right classes by the wheel's table, "label" that of right labels; an abstention is not right.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import emotions
from benchmarks.panel import latency, liars, outcomes, tables, votes
from benchmarks.panel.outcomes import Outcome
from benchmarks.panel.votes import VARIANT_MARK, InputError, Row, Situation
from emotions import Wheel
from local.deployment import VOTERS
from services.understanding import reliability
from services.understanding.rules import Rule, rule_of

REPORT_EVERY = 100
SLOW_S = 2.0
SLOW = ("", "face", "smollm2")
"""Who is made slow: nobody, a voter on classes, a voter on labels."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    options = _options(arguments)
    wheel = emotions.load()
    try:
        rules = _rules(options.weights, wheel)
        rows = votes.read_votes(options.votes_in, wheel) if options.votes_in else _vote(options, wheel)
        if not rows:
            raise InputError(f"{options.votes_in}: has no messages")
        members = _members(rows[0], options.voter if options.votes_in else ())
        if options.late and options.late not in members:
            raise InputError(f"--late {options.late}: is not on the panel; its voters are {'; '.join(members)}")
        if not any(row.votes[name] for row in rows for name in members):
            raise InputError("every voter abstained on every message; there is nothing to measure")
    except InputError as error:
        print(f"benchmarks.panel: {error}", file=sys.stderr)
        return 2
    print(f"{len(rows)} messages, {len({row.label for row in rows})} labels")
    _print_right(rows, rules, members, wheel)
    heard = [row for row in rows if any(row.votes[name] for name in members)]
    if options.latency:
        _print_waits(heard[: options.latency], rules, members, wheel)
    if options.liar or options.late:
        _print_reliability(heard, members, options.liar, options.late, wheel)
    return 0


def _members(row: Row, named: Sequence[str]) -> list[str]:
    """Returns who sits on the panel, in order of priority: all but what --shots asks otherwise, and who was `named`."""
    for name in named:
        if name not in row.votes:
            raise InputError(f"--voter {name}: is not in the file; its voters are {'; '.join(row.votes)}")
    embedded = [name for name in VOTERS if name in row.votes]
    others = [name for name in row.votes if name not in VOTERS and (VARIANT_MARK not in name or name in named)]
    return [*embedded, *others]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.panel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--csv", type=Path, help="messages with the columns emotion and situation")
    source.add_argument("--toml", type=Path, help="messages, listed by label")
    source.add_argument("--votes-in", type=Path, help="votes that --votes-out wrote; nobody votes anew")
    asked = [
        parser.add_argument("--sample", type=_one_or_more, help="so many of the messages; all without it"),
        parser.add_argument("--half", type=int, choices=(0, 1, 2), default=0, help="of one half of the messages only"),
        parser.add_argument("--seed", type=int, default=11, help="draws the order of the messages"),
        parser.add_argument("--shots", action="store_true", help="also ask SmolLM2 with 0, 1, 3 and 12 examples"),
        parser.add_argument("--votes-out", type=Path, help="file that keeps the votes"),
    ]
    parser.add_argument(
        "--voter",
        action="append",
        default=[],
        metavar="NAME=HOST:PORT",
        help="another member of the panel: a model that `python -m services.mllm` serves there (with --votes-in: NAME)",
    )
    parser.add_argument("--weights", default="embedded-1", help="what votes weigh; see services/understanding/weights")
    parser.add_argument(
        "--latency", type=_none_or_more, default=100, help="messages of the last table; 0 leaves it out"
    )
    parser.add_argument("--liar", type=_none_or_more, default=0, help="liars beside the voters")
    parser.add_argument("--late", default="", metavar="NAME", help="voter that answers after the deadline")
    options = parser.parse_args(arguments)
    for action in asked if options.votes_in else ():
        if getattr(options, action.dest) != action.default:
            parser.error(f"{action.option_strings[0]} asks voters anew, and --votes-in has their votes already")
    return options


def _one_or_more(text: str) -> int:
    return _at_least(1, text)


def _none_or_more(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


def _situations(options: argparse.Namespace, wheel: Wheel) -> list[Situation]:
    everything = votes.read_csv(options.csv, wheel) if options.csv else votes.read_toml(options.toml, wheel)
    taken = votes.sample(everything, options.half, options.sample, options.seed)
    if not taken:
        raise InputError(f"{options.csv or options.toml}: has no messages{' in this half' if everything else ''}")
    return taken


def _vote(options: argparse.Namespace, wheel: Wheel) -> list[Row]:
    from benchmarks.panel import served, voters  # every model's runtime, which votes from a file do not need

    situations, rows = _situations(options, wheel), []
    with ExitStack() as stack:
        # What can be wrong comes before what takes long.
        others = stack.enter_context(served.served(options.voter))
        out = stack.enter_context(_opened(options.votes_out)) if options.votes_out else None
        asked = stack.enter_context(voters.embedded()) | others
        if options.shots:
            asked |= stack.enter_context(voters.asked_otherwise())
        for row in votes.cast(situations, asked, wheel):
            rows.append(row)
            if out:
                print(votes.line(row), file=out, flush=True)
            if len(rows) % REPORT_EVERY == 0:
                print(f"{len(rows)} of {len(situations)} messages", file=sys.stderr, flush=True)
    return rows


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--votes-out {path}: {error.strerror}") from error


def _rules(weights: str, wheel: Wheel) -> dict[str, Rule]:
    try:
        learned = reliability.load(weights, wheel)
    except (OSError, ValueError) as error:
        raise InputError(f"--weights: {error}") from error
    return {
        "majority": rule_of("majority", wheel),
        f"weighted, {learned.version}": rule_of("weighted", wheel, learned),
        "pooled, equal weights": rule_of("pooled", wheel),
        f"pooled, {learned.version}": rule_of("pooled", wheel, learned),
    }


def _print_right(rows: Sequence[Row], rules: dict[str, Rule], members: Sequence[str], wheel: Wheel) -> None:
    commonest = outcomes.of_commonest(rows, wheel)
    singles = [outcomes.of_voter(name, rows, wheel) for name in rows[0].votes]
    speaking = [each for each in singles if each.name in members and each.abstained < len(rows)]
    best = max(speaking, key=lambda each: int(each.hit.sum()))
    panels = [outcomes.of_rule(name, rule, members, rows, wheel) for name, rule in rules.items()]
    tables.print_outcomes("voter", [commonest, *singles])
    tables.print_outcomes(f"panel of {', '.join(members)}", panels)
    tables.print_comparisons(panels, [best, commonest])
    if len(speaking) > 1:
        for (name, rule), panel in zip(rules.items(), panels, strict=True):
            tables.print_lift(name, panel, [_without(each, rule, members, rows, wheel) for each in speaking])


def _without(voter: Outcome, rule: Rule, members: Sequence[str], rows: Sequence[Row], wheel: Wheel) -> Outcome:
    return outcomes.of_rule(voter.name, rule, [each for each in members if each != voter.name], rows, wheel)


def _print_waits(rows: Sequence[Row], rules: dict[str, Rule], members: Sequence[str], wheel: Wheel) -> None:
    fine = {name: name not in latency.COARSE for name in members}
    print(f"\nthe panel's own clock, {len(rows)} messages; a slow voter takes {SLOW_S:g} s")
    waits = []
    for name, rule in rules.items():
        for slow in (name for name in SLOW if not name or name in members):
            early, all_ = (
                asyncio.run(latency.waited(rows, fine, slow, SLOW_S, rule, wheel, early)) for early in (True, False)
            )
            waits.append((f"{name}; {slow or 'nobody'} slow", early, all_))
    tables.print_waits(waits)


def _print_reliability(rows: Sequence[Row], members: Sequence[str], count: int, late: str, wheel: Wheel) -> None:
    fine = {name: name not in latency.COARSE for name in members}
    cases = [("nobody", rows, fine, "")]
    cases += [(f"{late} late", rows, fine, late)] if late else []
    for kind, lie in liars.lies(wheel).items() if count else ():
        with_them = fine | {liars.name_of(liar): True for liar in range(count)}
        cases.append(
            (f"{count} liar{'s' if count > 1 else ''}, {kind}", liars.with_liars(rows, count, lie), with_them, "")
        )
    base = liars.decided(rows, fine, "", wheel, is_tracked=False)
    panels = []
    for name, heard, seats, slow in cases:
        without, tracked = (liars.decided(heard, seats, slow, wheel, is_tracked) for is_tracked in (False, True))
        panels.append((name, without, tracked))
    tables.print_reliability(base, panels)


if __name__ == "__main__":
    sys.exit(main())
