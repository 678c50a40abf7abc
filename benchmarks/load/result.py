"""Results of a load: counts, percentiles, and a series over time."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from benchmarks.load.messages import KINDS
from benchmarks.load.profile import Profile
from benchmarks.load.turn import MEASURES, OUTCOMES, Turn

PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
LATE_S = 0.1
"""A generator that sends the slowest hundredth of its turns later than this was itself the bottleneck."""
PREFIX_CHARS = 100


def percentile(values: Iterable[float], percent: float) -> float | None:
    """Return the smallest value that so many percent of all do not exceed; None of nothing."""
    found = sorted(values)
    return found[max(0, math.ceil(len(found) * percent / 100) - 1)] if found else None


def figure_name(measure: str, percent: str) -> str:
    """Name a percentile of a measure: `first_video_p95_s`; units stay last."""
    stem, unit = (measure.removesuffix("_s"), "_s") if measure.endswith("_s") else (measure, "")
    return f"{stem}_{percent}{unit}"


@dataclass(frozen=True)
class Result:
    """Turns of a run, and what they amount to.

    Attributes:
        profile: What was run.
        name: Name of the run, with which its conversations begin.
        turns: All that were sent, in the order of sending.
        not_sent_at_s: When turns were due that were too many at once.
        elapsed_s: Length of the run, to the end of its last turn.
    """

    profile: Profile
    name: str
    turns: Sequence[Turn]
    not_sent_at_s: Sequence[float]
    elapsed_s: float

    @property
    def lost(self) -> list[Turn]:
        """Turns that ended without a whole reply: refused, failed, late, or without wanted sound or video."""
        return [turn for turn in self.turns if turn.is_lost]

    @property
    def answered(self) -> int:
        """Number of turns that came to their end, degraded or not."""
        return sum(turn.outcome in ("ok", "degraded") for turn in self.turns)

    @property
    def is_late(self) -> bool:
        """Whether the generator was the bottleneck, and not the gateway."""
        return (percentile((turn.late_s for turn in self.turns), 99) or 0.0) > LATE_S

    def percentile(self, measure: str, percent: float, kind: str = "") -> float | None:
        """Return a percentile of a measure of all turns that have it, or of those of one kind of message."""
        return percentile(self._values(measure, kind), percent)

    def count(self, measure: str, kind: str = "") -> int:
        """Return how many turns have a measure."""
        return len(self._values(measure, kind))

    def _values(self, measure: str, kind: str) -> list[float]:
        values = (getattr(turn, measure) for turn in self.turns if not kind or turn.kind == kind)
        return [value for value in values if value is not None]

    @cached_property
    def figures(self) -> dict[str, float | None]:
        """Every figure by its name, as bounds name them; None where nothing was measured."""
        counts = Counter(turn.outcome for turn in self.turns)
        elapsed_s = self.elapsed_s or math.inf
        found: dict[str, float | None] = {
            "sent": len(self.turns),
            "answered": self.answered,
            **{outcome: counts[outcome] for outcome in OUTCOMES},
            "lost": len(self.lost),
            "not_sent": len(self.not_sent_at_s),
            "stalls": sum(turn.stalls for turn in self.turns),
            "sent_per_s": len(self.turns) / elapsed_s,
            "answered_per_s": self.answered / elapsed_s,
            "sent_bytes": sum(turn.bytes_sent for turn in self.turns),
            "received_bytes": sum(turn.bytes_received for turn in self.turns),
        }
        for measure in (*MEASURES, "late_s"):
            name = "generator_late_s" if measure == "late_s" else measure
            for label, percent in PERCENTS.items():
                found[figure_name(name, label)] = self.percentile(measure, percent)
                if measure != "late_s":
                    for kind in KINDS:
                        found[f"{kind}.{figure_name(name, label)}"] = self.percentile(measure, percent, kind)
        return found

    def problems(self) -> list[tuple[str, int, str]]:
        """Return outcome, status and message of lost turns, how many each, and the trace id of one; the most first.

        Messages count as the same when they differ in numbers only.
        """
        first: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for turn in self.lost:
            told = re.sub(r"\d+(\.\d+)?", "N", turn.problem)[:PREFIX_CHARS]
            name = f"{turn.outcome}, {turn.status}: {told}"
            first.setdefault(name, turn.trace_id)
            counts[name] += 1
        return [(name, count, first[name]) for name, count in counts.most_common()]

    def degradations(self) -> Counter[str]:
        """Count stage and loss of `degraded` events."""
        return Counter(each for turn in self.turns for each in turn.degraded)

    def series(self) -> list[dict[str, float | None]]:
        """Return a row for each second: what was sent, what ended, and first videos by when they arrived."""
        sent = Counter(int(turn.sent_at_s) for turn in self.turns)
        ended = [turn for turn in self.turns if turn.ended_at_s is not None]
        done = Counter(int(turn.ended_at_s or 0) for turn in ended)
        lost = Counter(int(turn.ended_at_s or 0) for turn in ended if turn.is_lost)
        not_sent = Counter(int(at_s) for at_s in self.not_sent_at_s)
        first: dict[int, list[float]] = {}
        for turn in self.turns:
            if turn.first_video_s is not None:
                first.setdefault(int(turn.due_at_s + turn.first_video_s), []).append(turn.first_video_s)
        rows: list[dict[str, float | None]] = []
        still_open = 0
        for second in range(math.ceil(self.elapsed_s)):
            still_open += sent[second] - done[second]
            rows.append(
                {
                    "at_s": second,
                    "level": self.profile.ramp.level(second),
                    "sent": sent[second],
                    "not_sent": not_sent[second],
                    "done": done[second],
                    "lost": lost[second],
                    "open": still_open,
                    "first_video_p95_s": percentile(first.get(second, ()), 95),
                }
            )
        return rows

    def plain(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {
            "name": self.name,
            "profile": self.profile.plain(),
            "elapsed_s": self.elapsed_s,
            "generator_was_the_bottleneck": self.is_late,
            "figures": self.figures,
            "problems": [
                {"problem": name, "turns": count, "trace_id": trace_id} for name, count, trace_id in self.problems()
            ],
            "degraded": dict(self.degradations()),
            "series": self.series(),
            "turns": [asdict(turn) for turn in self.turns],
        }
