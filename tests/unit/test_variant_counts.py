"""Counts of turns by variant: in time, summed over gateways, and with percentiles."""

import math
import random

import pytest

from orchestrator.variants.counts import BUCKET_S, KEPT_S, Counts, Ledger, Outcome, Span, bucket_end_s, summed
from services.common.variants.table import Stage, State, Table, Variant

NOW_S = 1_800_000_000.0


class Clock:
    """Unix time that a test moves."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(clock)


def since(seconds: float, clock: Clock) -> Span:
    return Span("tts", clock() - seconds, clock())


def test_a_span_has_the_turns_that_ended_in_it(ledger: Ledger, clock: Clock) -> None:
    for _ in range(10):
        ledger.add([Outcome("tts", "b", failed=True), Outcome("video", "b")])
        clock.now_s += BUCKET_S
    assert ledger.counts(since(3 * BUCKET_S, clock))["b"].failed == 3
    assert ledger.counts(Span("tts", NOW_S, NOW_S + BUCKET_S))["b"].turns == 2
    assert ledger.counts(Span("tts", NOW_S - 50, NOW_S - 20)) == {}


def test_what_is_older_than_a_day_is_forgotten(ledger: Ledger, clock: Clock) -> None:
    ledger.add([Outcome("tts", "b")])
    clock.now_s += KEPT_S + 2 * BUCKET_S
    ledger.add([Outcome("tts", "a")])
    clock.now_s = NOW_S
    assert ledger.counts(since(60, clock)) == {}


def test_a_variant_that_is_off_begins_anew(ledger: Ledger, clock: Clock) -> None:
    ledger.add([Outcome("tts", "a"), Outcome("tts", "b", failed=True)])
    stage = Stage(control="a", variants={"a": Variant(weight=100), "b": Variant(state=State.OFF)})
    ledger.forget_off(Table(stages={"tts": stage}))
    assert {*ledger.counts(since(60, clock))} == {"a"}


def test_the_sum_of_two_gateways_is_as_one_gateway_that_served_all_turns() -> None:
    chance = random.Random(3)
    outcomes = [
        Outcome("tts", chance.choice("ab"), chance.random() < 0.1, chance.random() < 0.2, chance.lognormvariate(0, 1))
        for _ in range(500)
    ]
    one, other, both = (Ledger(lambda: NOW_S) for _ in range(3))
    one.add(outcomes[::2])
    other.add(outcomes[1::2])
    both.add(outcomes)
    span = Span("tts", NOW_S - 60, NOW_S)
    assert summed([one.counts(span), other.counts(span)]) == both.counts(span)


@pytest.mark.parametrize("turns", [1, 20, 1000])
def test_a_percentile_is_right_within_5_percent(turns: int) -> None:
    chance = random.Random(turns)
    latencies = sorted(chance.lognormvariate(-1, 1.5) for _ in range(turns))
    counts = Counts()
    for seconds in latencies:
        counts.add(Outcome("tts", "b", first_s=seconds))
    bucket = counts.percentile_bucket(0.95)
    assert bucket is not None
    true_s = latencies[math.ceil(0.95 * turns) - 1]
    assert true_s <= bucket_end_s(bucket) * (1 + 1e-9) <= 1.0501 * true_s


def test_turns_without_a_first_result_have_no_percentile() -> None:
    counts = Counts()
    counts.add(Outcome("tts", "b", failed=True))
    assert counts.percentile_bucket(0.95) is None
