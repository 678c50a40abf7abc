"""Counts of what became of turns, by variant and in buckets of time; they add up over gateways."""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.common.variants.table import State, Table

BUCKET_S = 10.0
"""Width of a bucket. Spans are rounded out to whole buckets."""
KEPT_S = 86400.0
"""Age at which a bucket is dropped: the longest window of a guardrail."""
LATENCY_FIRST_S = 0.001
LATENCY_RATIO = 1.05
"""Ratio of neighbouring bounds of latency, and so the accuracy of a percentile."""
LATENCY_BUCKETS = 281
"""Up to 15 minutes; slower ones are in the last bucket."""


@dataclass(frozen=True)
class Outcome:
    """Part of one variant in one turn.

    Attributes:
        stage: Name of the stage, as in the table.
        variant: Name of the variant.
        failed: Whether its work failed.
        degraded: Whether the turn lost something in this stage.
        first_s: Seconds from its first input to its first result; 0 where that is not known.
    """

    stage: str
    variant: str
    failed: bool = False
    degraded: bool = False
    first_s: float = 0.0


@dataclass
class Counts:
    """Counts of the turns of one variant.

    Attributes:
        turns: All of them.
        failed: Those whose work failed.
        degraded: Those that lost something in this stage.
        latencies: Turns by the bucket of their time to the first result, as far as they have one.
    """

    turns: int = 0
    failed: int = 0
    degraded: int = 0
    latencies: Counter[int] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.turns += 1
        self.failed += outcome.failed
        self.degraded += outcome.degraded
        if outcome.first_s:
            self.latencies[latency_bucket(outcome.first_s)] += 1

    def merge(self, other: "Counts") -> None:
        """Add the counts of other turns."""
        self.turns += other.turns
        self.failed += other.failed
        self.degraded += other.degraded
        self.latencies.update(other.latencies)

    def percentile_bucket(self, share: float) -> int | None:
        """Return the bucket of latency below whose end a share of the turns is; None without a latency."""
        left = math.ceil(share * self.latencies.total())
        for bucket, turns in sorted(self.latencies.items()):
            left -= turns
            if left <= 0:
                return bucket
        return None


def latency_bucket(seconds: float) -> int:
    """Return the bucket of a latency."""
    if seconds <= LATENCY_FIRST_S:
        return 0
    return min(math.ceil(math.log(seconds / LATENCY_FIRST_S, LATENCY_RATIO)), LATENCY_BUCKETS - 1)


def bucket_end_s(bucket: int) -> float:
    """Return the longest latency of a bucket."""
    return LATENCY_FIRST_S * LATENCY_RATIO**bucket


@dataclass(frozen=True)
class Span:
    """Turns of a stage that ended within a time.

    Attributes:
        stage: Name of the stage.
        begin_s: Unix time.
        end_s: Unix time.
    """

    stage: str
    begin_s: float
    end_s: float


ByVariant = Mapping[str, Counts]
Asked = Callable[[Sequence[Span]], Awaitable[Mapping[Span, ByVariant]]]
"""Returns the counts of all gateways."""
"""Counts of the variants of one stage."""


def summed(parts: Iterable[ByVariant]) -> dict[str, Counts]:
    """Return the sum of the counts of several gateways or buckets."""
    total: dict[str, Counts] = {}
    for part in parts:
        for variant, counts in part.items():
            total.setdefault(variant, Counts()).merge(counts)
    return total


class Ledger:
    """Counts of the turns of this gateway. A restart loses them, so that a window begins anew there.

    Args:
        clock: Tells the Unix time.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._buckets: OrderedDict[int, dict[str, dict[str, Counts]]] = OrderedDict()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count the outcomes of a turn that ends now."""
        now = _bucket(self._clock())
        for outcome in outcomes:
            stage = self._buckets.setdefault(now, {}).setdefault(outcome.stage, {})
            stage.setdefault(outcome.variant, Counts()).add(outcome)
        while self._buckets and (oldest := next(iter(self._buckets))) < now - KEPT_S / BUCKET_S:
            del self._buckets[oldest]

    def counts(self, span: Span) -> dict[str, Counts]:
        """Return the counts of a span, by variant."""
        begin, end = _bucket(max(span.begin_s, span.end_s - KEPT_S)), _bucket(span.end_s)
        found = (self._buckets.get(bucket, {}) for bucket in range(begin, end + 1))
        return summed(bucket[span.stage] for bucket in found if span.stage in bucket)

    def forget_off(self, table: Table) -> None:
        """Drop the counts of variants that are off: one that serves again is judged by what it does then."""
        off = [
            (stage, name)
            for stage, each in table.stages.items()
            for name, variant in each.variants.items()
            if variant.state is State.OFF
        ]
        for bucket in self._buckets.values():
            for stage, name in off:
                bucket.get(stage, {}).pop(name, None)


def _bucket(at_s: float) -> int:
    return math.floor(at_s / BUCKET_S)
