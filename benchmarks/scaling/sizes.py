"""Size of each part of the deployment by users at once.

GPUs are simulated under a steady load; all else follows from what a turn was measured to cost.
"""

import itertools
import math

from benchmarks.scaling import load
from benchmarks.scaling.chart import backlog_rule
from benchmarks.scaling.load import Day
from benchmarks.scaling.simulation import Simulation

GATEWAY_S, PANEL_S, MEMORY_S = 0.053, 0.016, 0.042
"""Seconds of processor of a turn, measured by `benchmarks.scaling.costs`."""
TRANSACTIONS = 7.0
"""Of a turn, measured by the same."""
WATCH_S = 0.0002
"""Seconds of processor a second by which a gateway watches one replica, measured by the same."""
USABLE = 0.7
"""Share of a core that a process may take: each is one Python process, which does not use a second one."""
CONNECTIONS = 8
"""`database.connections` of the chart."""
LENGTH_S = 14400.0
"""Of the simulation; the second half counts."""
USERS = (100, 1_000, 10_000)


def processes(seconds: float, always_s: float = 0.0) -> str:
    """Return how many processes can do so much work a second, of which each has to do some always."""
    return str(max(2, math.ceil(seconds / (USABLE - always_s)))) if always_s < USABLE else "-"


def main() -> None:
    """Print a row for each number of users, at the best quality and at the lowest."""
    segments = load.segments()
    print(
        f"{'users':>7}{'quality':>9}{'turns/s':>9}{'GPUs':>7}{'peak':>7}{'busy':>6}{'late':>7}{'gateways':>10}{'watching':>10}"
        f"{'panels':>8}{'memories':>10}{'connections':>13}{'transactions/s':>16}"
    )
    for users, (wish, quality, target_s) in itertools.product(USERS, ((0, "best", 45), (2, "draft", 10))):
        rate = users / load.TURN_EVERY_S
        first = round(1.2 * rate * load.work_s(segments, quality))
        rule = backlog_rule(1, 10 * first, f"components.video.scaling.targetBacklogS={target_s}")
        tally = Simulation(Day(users, LENGTH_S, is_steady=True), segments, first, rule, wish=wish).run()
        then = [ready for at_s, _, ready in tally.replicas if at_s > LENGTH_S / 2]
        gpus = sum(then) / len(then)
        memories = processes(rate * MEMORY_S)
        print(
            f"{users:7}{quality:>9}{rate:9.2f}{gpus:7.0f}{max(then):7}{tally.busy_s / tally.gpu_s:6.0%}"
            f"{tally.late / tally.turns:7.1%}{processes(rate * GATEWAY_S, gpus * WATCH_S):>10}{gpus * WATCH_S:10.2f}"
            f"{processes(rate * PANEL_S):>8}{memories:>10}{int(memories) * CONNECTIONS:13}{rate * TRANSACTIONS:16.1f}",
            flush=True,
        )
