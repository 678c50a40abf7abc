"""Guardrails: whether a variant does worse than its stage's control by more than chance. Pure.

Three shares are compared: of failed turns, of degraded turns, and of turns that are slower than the limit's multiple of
the control's 95th percentile, which 5 % of the turns of an equal variant may be. A limit is passed when the lower
confidence bound of the difference is above it: Newcombe's score interval for the difference of two proportions
(R. G. Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10), built of Wilson's intervals.

The control's percentile is an order statistic of n turns; the share of turns beyond it is distributed as Beta
(H. A. David, H. N. Nagaraja, Order Statistics, 2003, 2.1), about as widely as a share of 5 % of n turns, which is how
its uncertainty goes into the bound.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator.variants.counts import LATENCY_RATIO, ByVariant, Counts, Span, bucket_end_s
from services.common.variants.table import ALONE, Guardrail, Stage, State, Table

Z = 3.3
"""Standard errors of the bound: one comparison errs once in 2,000, for a window is judged again and again."""
PERCENTILE = 0.95
REASONS = ("failed", "degraded", "first_chunk")


@dataclass(frozen=True)
class Comparison:
    """Variant that a guardrail watches, and what it is compared with.

    Attributes:
        variant: Its name.
        span: Its turns that count.
        reference: Name of the variant that it is compared with.
        reference_span: The turns of that one.
        limits: The guardrail.
    """

    variant: str
    span: Span
    reference: str
    reference_span: Span
    limits: Guardrail

    @property
    def stage(self) -> str:
        """Name of the stage."""
        return self.span.stage


@dataclass(frozen=True)
class Breach:
    """Limit that a variant has passed.

    Attributes:
        stage: Name of the stage.
        variant: Name of the variant.
        reason: One of `REASONS`.
        figures: The figures in words.
    """

    stage: str
    variant: str
    reason: str
    figures: str


def comparisons(table: Table, now_s: float) -> list[Comparison]:
    """Return the variants to watch: those that serve beside the control, and a control that was just promoted.

    That one is watched for one window, against the turns of the control before in the window before the promotion.
    """
    return [
        comparison
        for name, limits in sorted(table.guardrails.items())
        for comparison in _of_stage(table, name, limits, now_s)
    ]


def breach(comparison: Comparison, of: Callable[[Span], ByVariant]) -> Breach | None:
    """Return the first limit that a variant has passed.

    Args:
        comparison: The variant.
        of: Returns the counts of a span, by variant.
    """
    mine = of(comparison.span).get(comparison.variant, Counts())
    theirs = of(comparison.reference_span).get(comparison.reference, Counts())
    limits = comparison.limits
    if mine.turns < limits.turns_min:
        return None
    names = f"{comparison.variant!r} and {comparison.reference!r}"
    for reason, limit in (("failed", limits.failed_share_max), ("degraded", limits.degraded_share_max)):
        bad, bad_there = getattr(mine, reason), getattr(theirs, reason)
        if difference_at_least(bad, mine.turns, bad_there, theirs.turns) > limit:
            figures = (
                f"{reason}: {_share(bad, mine.turns)} and {_share(bad_there, theirs.turns)} turns of {names};"
                f" at most {limit:.0%} more are allowed"
            )
            return Breach(comparison.stage, comparison.variant, reason, figures)
    late, there = late_turns(mine, theirs, limits.first_chunk_ratio_max), theirs.latencies.total()
    if difference_at_least(late, mine.latencies.total(), (1 - PERCENTILE) * there, there) > 0:
        figures = (
            f"first chunk: 95th percentile {p95_s(mine):.2f} s and {p95_s(theirs):.2f} s of {mine.latencies.total()}"
            f" and {there} turns of {names}; at most {limits.first_chunk_ratio_max:g} times as much is allowed"
        )
        return Breach(comparison.stage, comparison.variant, "first_chunk", figures)
    return None


def late_turns(mine: Counts, theirs: Counts, ratio: float) -> int:
    """Return the turns that took more than a multiple of the others' 95th percentile."""
    bucket = theirs.percentile_bucket(PERCENTILE)
    if bucket is None:
        return 0
    limit = bucket + math.ceil(math.log(ratio, LATENCY_RATIO))
    return sum(turns for each, turns in mine.latencies.items() if each > limit)


def p95_s(counts: Counts) -> float:
    """Return the 95th percentile of the time to the first chunk; 0 where none is known."""
    bucket = counts.percentile_bucket(PERCENTILE)
    return 0.0 if bucket is None else bucket_end_s(bucket)


def difference_at_least(bad: float, turns: int, bad_there: float, turns_there: int, z: float = Z) -> float:
    """Return the lower confidence bound of how much larger the first share is; -1 where one has no turns."""
    if not turns or not turns_there:
        return -1.0
    share, share_there = bad / turns, bad_there / turns_there
    low, _ = _wilson(share, turns, z)
    _, high = _wilson(share_there, turns_there, z)
    return share - share_there - math.hypot(share - low, high - share_there)


def _wilson(share: float, turns: int, z: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share."""
    middle = share + z * z / (2 * turns)
    half = z * math.sqrt(share * (1 - share) / turns + z * z / (4 * turns * turns))
    whole = 1 + z * z / turns
    return (middle - half) / whole, (middle + half) / whole


def _of_stage(table: Table, name: str, limits: Guardrail, now_s: float) -> Iterator[Comparison]:
    stage = table.stage(name)
    window = Span(name, now_s - limits.window_s, now_s)
    for variant, each in stage.variants.items():
        # One that drains gets no new conversations: taking its own away would change voices in mid-dialogue.
        if variant != stage.control and each.state is State.SERVING:
            yield Comparison(variant, window, stage.control, window, limits)
    before, promoted_at_s = _promotion(table, name, stage)
    if before and now_s - promoted_at_s <= limits.window_s:
        since = Span(name, promoted_at_s, now_s)
        yield Comparison(
            stage.control, since, before, Span(name, promoted_at_s - limits.window_s, promoted_at_s), limits
        )


def _promotion(table: Table, name: str, stage: Stage) -> tuple[str, float]:
    """Return the control before the present one, and when that took over; nothing where there is no way back."""
    for change in reversed(table.history):
        before = change.stages.get(name, ALONE).control
        if before != stage.control:
            there = stage.variants.get(before)
            return (before, change.at_s) if there and there.state is not State.OFF else ("", 0.0)
    return "", 0.0


def _share(bad: int, turns: int) -> str:
    return f"{bad} of {turns}"
