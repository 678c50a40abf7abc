"""Scales renderers by the chart's own rule through a day of turns, beside fixed numbers and scaling by processor.

    python -m benchmarks.scaling day [--noon 10] [--speed 15] [--only hpa]
    python -m benchmarks.scaling simulate [--noon 10]
    python -m benchmarks.scaling targets
    python -m benchmarks.scaling sizes

`day` runs the real gateway and real servers of renderers that take the time that is published of DICE-Talk, `speed`
times faster, beside the simulation of the same turns. `simulate` has more ways to scale, `targets` other targets, and
`sizes` up to 10,000 users at once. A turn comes every two minutes from each user; `load.USERS` says how many there are.
"""

import argparse
import asyncio
import itertools
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.scaling import load, real, renderer, sizes
from benchmarks.scaling.chart import backlog_rule, cpu_rule
from benchmarks.scaling.load import Day
from benchmarks.scaling.rule import Behavior, Rule
from benchmarks.scaling.simulation import Simulation
from benchmarks.scaling.tally import Tally

WARM = 4 / 24
"""Replicas that stay at night, for each user at noon: twice the work of a night."""
MOST = 4.0
"""Replicas at most, for each user at noon."""
HEAD = (
    f"{'':32}{'turns':>7}{'lost':>6}{'bare':>6}{'late':>8}{'first p50':>11}{'p95':>7}{'GPU h':>8}{'busy':>6}"
    f"{'refusals':>10}{'peak':>6}"
)


@dataclass(frozen=True)
class Way:
    """A way to scale: its name, the replicas at first, and the rule; None keeps these."""

    name: str
    replicas: int
    rule: Rule | None = None


def row(name: str, tally: Tally) -> str:
    """Return a row of the table below `HEAD`."""
    first_s = sorted(tally.first_s) or [math.nan]
    p50, p95 = (first_s[min(len(first_s) - 1, int(len(first_s) * share))] for share in (0.5, 0.95))
    return (
        f"{name:32}{tally.turns:7}{tally.lost:6}{tally.bare:6}{tally.late / max(tally.turns, 1):8.1%}{p50:9.0f} s"
        f"{p95:5.0f} s{tally.gpu_s / 3600:8.1f}{tally.busy_s / tally.gpu_s:6.0%}{tally.refusals:10}{tally.peak:6}"
    )


def bounds(noon: float) -> tuple[int, int]:
    """Return the least and the most replicas."""
    return max(1, round(WARM * noon)), round(MOST * noon)


def ways(day: Day, segments: list[list[float]]) -> Iterator[Way]:
    """Yield the ways to scale; the fixed numbers are those that the chart's rule takes on average, and at most."""
    least, most = bounds(day.noon)
    rule = backlog_rule(least, most)
    yield Way("hpa", least, rule)
    found = Simulation(day, segments, least, rule).run()
    yield Way("fixed, as many GPU hours", math.ceil(found.gpu_s / day.length_s))
    yield Way("fixed, as many at most", found.peak)
    yield Way("cpu 80 %", least, cpu_rule(rule))


async def real_day(noon: float, speed: float, only: str) -> None:
    """Print a row for each way, real and simulated."""
    segments, day = load.segments(), Day(noon)
    print(f"{noon:g} users at noon, {day.length_s / 3600:g} h, {speed:g} times faster\n{HEAD}")
    for way in ways(day, segments):
        if way.name.startswith(only):
            tally = await real.run(day, segments, way.replicas, way.rule, speed)
            print(f"{row(way.name, tally)}   (behind by {tally.lag_s:.0f} s at most)", flush=True)
            print(row("  simulated", Simulation(day, segments, way.replicas, way.rule).run()), flush=True)


def simulate(noon: float) -> None:
    """Print a row for each way, on a short day and on one of 24 hours, and for pods that start faster and slower."""
    segments = load.segments()
    for day in (Day(noon), Day(noon, load.LONG_S)):
        print(f"{noon:g} users at noon, {day.length_s / 3600:g} h\n{HEAD}")
        for way in ways(day, segments):
            print(row(way.name, Simulation(day, segments, way.replicas, way.rule).run()))
        least, most = bounds(noon)
        rule = backlog_rule(least, most)
        for pod_s in (60.0, 600.0):
            found = Simulation(day, segments, least, rule, pod_s=pod_s).run()
            print(row(f"hpa, pods start in {pod_s:g} s", found))
        slow = Behavior(0.0, [replace(each, period_s=renderer.POD_S) for each in rule.up.policies])
        print(row("hpa, doubled in 240 s", Simulation(day, segments, least, replace(rule, up=slow)).run()))
        burst = math.ceil(1.3 * noon / load.TURN_EVERY_S * load.work_s(segments, "best"))
        print(row(f"fixed, work of the burst: {burst}", Simulation(day, segments, burst).run()))


def targets() -> None:
    """Print what the targets make of a steady load, and why refusals are one of the signals."""
    segments, scaling = load.segments(), "components.video.scaling"
    steady = Day(100, is_steady=True)
    print("100 users at once, always: replicas after 40 minutes")
    print(f"{'target':>8}{'window':>8}{'least':>8}{'mean':>8}{'most':>8}{'late':>8}")
    for target_s, window_s in itertools.product((30, 45, 60, 75, 90), (300, 600)):
        values = (f"{scaling}.targetBacklogS={target_s}", f"{scaling}.scaleDownAfterS={window_s}")
        tally = Simulation(steady, segments, 200, backlog_rule(1, 1000, *values)).run()
        then = [wanted for at_s, wanted, _ in tally.replicas if at_s > 2400]
        late = tally.late / tally.turns
        print(f"{target_s:6} s{window_s:6} s{min(then):8}{sum(then) / len(then):8.0f}{max(then):8}{late:8.1%}")
    print(f"\na deadline of 110 s, so that calls are refused before a backlog of 120 s is reached\n{HEAD}")
    day = Day(24)
    least, most = bounds(day.noon)
    rule = backlog_rule(least, most, f"{scaling}.targetBacklogS=120")
    for name, one in (("backlog alone", replace(rule, targets=rule.targets[:1])), ("backlog and refusals", rule)):
        print(row(name, Simulation(day, segments, least, one, deadline_s=110.0).run()))


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["day", "simulate", "targets", "sizes"])
    parser.add_argument("--noon", type=float, default=10.0, help="users at once at noon")
    parser.add_argument("--speed", type=float, default=15.0, help="seconds of the day that pass in one")
    parser.add_argument("--only", default="", help="the way whose name begins so")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    match options.part:
        case "day":
            asyncio.run(real_day(options.noon, options.speed, options.only))
        case "simulate":
            simulate(options.noon)
        case "targets":
            targets()
        case "sizes":
            sizes.main()


if __name__ == "__main__":
    main()
