"""Simulation of a day without sockets: events in their order, renderers that take calls one after the other."""

import heapq
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.scaling import renderer
from benchmarks.scaling.load import Day, Turn
from benchmarks.scaling.rule import SYNC_S, Autoscaler, Pods, Rule
from benchmarks.scaling.tally import LATE_S, Tally

REFUSALS_OVER_S = 60.0
"""Refusals a second are those of so long (`rate(…[1m])`)."""
STOP_S = 5.0
"""What a pod that stops holds its GPU besides its last call."""
TRIES_MAX = 8
"""Replicas that a segment is offered to (`orchestrator/filming.py`)."""


@dataclass(eq=False)
class Replica:
    """One renderer: it renders in the order of its promises, so that it is known when it will be free."""

    born_s: float
    ready_s: float
    free_s: float = 0.0
    given_s: float = 0.0
    stopped_s: float | None = None
    seen_s: float = 0.0

    def backlog_s(self, now_s: float) -> float:
        """Return the seconds that are promised and not rendered."""
        return max(0.0, self.free_s - now_s)

    def done_s(self, now_s: float) -> float:
        """Return the seconds that it has rendered."""
        return self.given_s - self.backlog_s(now_s)


@dataclass
class Simulation:
    """One day. `rule` scales; None keeps the replicas that there are at first.

    Args:
        day: Its turns.
        segments: Seconds of each segment of each reply.
        replicas: How many there are at first, all of them ready.
        pod_s: From a new pod to its readiness.
        deadline_s: Time that a turn gets.
        wish: Number of the tier that turns ask for, 0 for the best.
    """

    day: Day
    segments: Sequence[Sequence[float]]
    replicas: int
    rule: Rule | None = None
    pod_s: float = renderer.POD_S
    deadline_s: float = renderer.DEADLINE_S
    wish: int = 0
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._fleet = [Replica(-self.pod_s, 0.0) for _ in range(self.replicas)]
        self._stopping: list[Replica] = []
        self._order = itertools.count()
        self._free = [(0.0, next(self._order), each) for each in self._fleet]
        self._refused: deque[tuple[float, int]] = deque()
        self._scaler = Autoscaler(self.rule) if self.rule else None
        self._scraped: Mapping[str, float | None] = {}

    def run(self) -> Tally:
        """Play the turns; return what they came to."""
        sync_s, end_s = 0.0, self.day.length_s
        for turn in self.day.turns():
            while sync_s <= turn.at_s:
                self._sync(sync_s)
                sync_s += SYNC_S
            self._play(turn)
        while sync_s <= end_s:
            self._sync(sync_s)
            sync_s += SYNC_S
        for each in [*self._fleet, *self._stopping]:
            self._retire(each, end_s if each.stopped_s is None else each.stopped_s)
        return self.tally

    def _play(self, turn: Turn) -> None:
        """Give all segments of a turn to renderers; its speech is there at once, in comparison."""
        tally, wish = self.tally, self.wish
        tally.turns += 1
        first_s: float | None = None
        for duration_s in self.segments[turn.reply]:
            placed = self._place(turn.at_s, duration_s, wish)
            if placed is None:
                tally.bare += 1
                break
            wish, end_s = placed
            if first_s is None:
                first_s = end_s - turn.at_s
        if first_s is not None:
            tally.first_s.append(first_s)
        tally.late += first_s is None or first_s > LATE_S

    def _place(self, now_s: float, duration_s: float, wish: int) -> tuple[int, float] | None:
        """Promise a segment at the replica that is free first; return its tier and end, None when all refuse."""
        while self._free and (self._free[0][2].stopped_s is not None or self._free[0][0] != self._free[0][2].free_s):
            heapq.heappop(self._free)
        left_s = self.deadline_s - renderer.FAREWELL_S
        if self._free:
            best = self._free[0][2]
            starts_s = max(now_s, best.free_s)
            for tier, name in list(enumerate(renderer.TIERS))[wish:]:
                cost_s = renderer.cost_s(duration_s, name)
                if starts_s + cost_s - now_s <= left_s:
                    best.free_s = starts_s + cost_s
                    best.given_s += cost_s
                    heapq.heapreplace(self._free, (best.free_s, next(self._order), best))
                    self.tally.tiers[name] = self.tally.tiers.get(name, 0) + 1
                    return tier, best.free_s
        self.tally.refusals += TRIES_MAX
        self._refused.append((now_s, TRIES_MAX))
        return None

    def _sync(self, now_s: float) -> None:
        self._become_ready(now_s)
        self._stopping = [each for each in self._stopping if not self._has_ended(each, now_s)]
        wanted, ready = len(self._fleet), sum(each.ready_s <= now_s for each in self._fleet)
        # Prometheus has looked one sync ago.
        scraped, self._scraped = self._scraped, self._metrics(now_s)
        if self._scaler:
            replicas = self._scaler.replicas(now_s, wanted, Pods(wanted, ready), scraped)
            for _ in range(replicas - wanted):
                self._fleet.append(Replica(now_s, now_s + self.pod_s))
            for _ in range(wanted - replicas):
                self._stop(now_s)
        serving = sum(each.ready_s <= now_s for each in self._fleet)
        self.tally.replicas.append((now_s, len(self._fleet), serving))

    def _become_ready(self, now_s: float) -> None:
        for each in self._fleet:
            if now_s - SYNC_S < each.ready_s <= now_s and each.ready_s > 0:
                each.free_s = each.ready_s
                heapq.heappush(self._free, (each.free_s, next(self._order), each))

    def _metrics(self, now_s: float) -> Mapping[str, float | None]:
        while self._refused and self._refused[0][0] <= now_s - REFUSALS_OVER_S:
            self._refused.popleft()
        serving = [each for each in self._fleet if each.ready_s <= now_s]
        done_s = 0.0
        for each in serving:
            now_done_s = each.done_s(now_s)
            done_s += now_done_s - each.seen_s
            each.seen_s = now_done_s
        return {
            "e3rg_backlog_seconds": sum(each.backlog_s(now_s) for each in [*serving, *self._stopping]),
            "e3rg_refusals_per_second": sum(count for _, count in self._refused) / REFUSALS_OVER_S,
            "cpu": done_s / SYNC_S / len(serving) if serving else None,
        }

    def _stop(self, now_s: float) -> None:
        """Stop the replica that is youngest; it ends its calls."""
        each = self._fleet.pop()
        each.stopped_s = now_s
        self._stopping.append(each)

    def _has_ended(self, each: Replica, now_s: float) -> bool:
        assert each.stopped_s is not None
        if max(each.free_s, each.stopped_s) + STOP_S > now_s:
            return False
        self._retire(each, each.stopped_s)
        return True

    def _retire(self, each: Replica, stopped_s: float) -> None:
        end_s = min(max(each.free_s, stopped_s), self.day.length_s)
        self.tally.gpu_s += end_s - max(each.born_s, 0.0)
        self.tally.busy_s += each.done_s(end_s)
