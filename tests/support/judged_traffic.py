"""Traffic of two variants, judged by a guardrail every few seconds, in simulated time."""

import math
import random
from collections import deque
from dataclasses import dataclass

from orchestrator.variants.counts import BUCKET_S, Counts, Outcome, Span, latency_bucket
from orchestrator.variants.guardrails import Comparison, breach
from services.common.variants.table import Guardrail


@dataclass(frozen=True)
class Traffic:
    """Turns of a control `a` and a variant `b`.

    Attributes:
        turns_per_s: Of both.
        share: Of the variant.
        failed: Share of the turns that fail, of both.
        degraded: Share of the turns that lose something, of both.
        slower: How many times as long the variant takes.
    """

    turns_per_s: float
    share: float
    failed: tuple[float, float] = (0.02, 0.02)
    degraded: tuple[float, float] = (0.05, 0.05)
    slower: float = 1.0


def rolled_back_s(traffic: Traffic, seed: int, duration_s: float, limits: Guardrail | None = None) -> float:
    """Return when the guardrail takes the variant back; infinity if it never does."""
    limits, chance = limits or Guardrail(), random.Random(seed)
    span = Span("tts", 0, limits.window_s)
    comparison = Comparison("b", span, "a", span, limits)
    window: deque[list[tuple[str, Outcome]]] = deque()
    counts = {"a": Counts(), "b": Counts()}
    for look in range(int(duration_s / BUCKET_S)):
        window.append([_turn(traffic, chance) for _ in range(_poisson(chance, traffic.turns_per_s * BUCKET_S))])
        for variant, outcome in window[-1]:
            counts[variant].add(outcome)
        if len(window) > limits.window_s / BUCKET_S + 1:
            for variant, outcome in window.popleft():
                _take_out(counts[variant], outcome)
        if breach(comparison, lambda _: counts):
            return look * BUCKET_S
    return math.inf


def _turn(traffic: Traffic, chance: random.Random) -> tuple[str, Outcome]:
    is_b = chance.random() < traffic.share
    failed = chance.random() < traffic.failed[is_b]
    degraded = failed or chance.random() < traffic.degraded[is_b]
    first_s = 0.4 * chance.lognormvariate(0, 0.5) * (traffic.slower if is_b else 1)
    variant = "ab"[is_b]
    return variant, Outcome("tts", variant, failed, degraded, 0.0 if failed else first_s)


def _take_out(counts: Counts, outcome: Outcome) -> None:
    counts.turns -= 1
    counts.failed -= outcome.failed
    counts.degraded -= outcome.degraded
    if outcome.first_s:
        counts.latencies[latency_bucket(outcome.first_s)] -= 1


def _poisson(chance: random.Random, mean: float) -> int:
    """Return how many come, by Knuth's method."""
    left, count = math.exp(-mean), 0
    product = chance.random()
    while product > left:
        count += 1
        product *= chance.random()
    return count
