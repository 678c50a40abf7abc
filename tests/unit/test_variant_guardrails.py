"""Guardrails: when a variant is worse than chance explains, and how often chance alone takes one back."""

import math
from statistics import median

import pytest

from orchestrator.variants.counts import ByVariant, Counts, Outcome, Span
from orchestrator.variants.guardrails import Breach, breach, comparisons, difference_at_least
from services.common.variants.table import Change, Guardrail, Stage, State, Table, Variant
from tests.support.judged_traffic import Traffic, rolled_back_s

NOW_S = 1_800_000_000.0
LIMITS = Guardrail()


def stage(control: str = "a", **variants: Variant) -> Stage:
    return Stage(control=control, variants=variants)


SPLIT = stage(a=Variant(weight=90), b=Variant(weight=10))
PROMOTED = stage("b", a=Variant(state=State.DRAINING), b=Variant(weight=100))


def table(now: Stage, *changes: tuple[float, Stage], guardrail: bool = True) -> Table:
    history = tuple(
        Change(version=number, at_s=at_s, by="ada", why="", summary="", stages={"tts": before})
        for number, (at_s, before) in enumerate(changes, 1)
    )
    return Table(stages={"tts": now}, guardrails={"tts": LIMITS} if guardrail else {}, history=history)


def counts(turns: int, failed: int = 0, degraded: int = 0, first_s: float = 0.4, slow: int = 0) -> Counts:
    """Counts of turns, of which the first fail and the last take three times as long."""
    found = Counts()
    for number in range(turns):
        late = 3 if number >= turns - slow else 1
        found.add(Outcome("tts", "b", number < failed, number < degraded, first_s * late))
    return found


def judged(mine: Counts, theirs: Counts, now: Table | None = None) -> Breach | None:
    (watched,) = comparisons(now or table(SPLIT), NOW_S)

    def of(span: Span) -> ByVariant:
        assert span in (watched.span, watched.reference_span)
        return {watched.variant: mine, watched.reference: theirs}

    return breach(watched, of)


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        (counts(60, failed=15), "failed"),
        (counts(60, degraded=25), "degraded"),
        (counts(60, first_s=1.2), "first_chunk"),
        (counts(60, slow=20), "first_chunk"),
    ],
)
def test_a_variant_that_is_clearly_worse_passes_a_limit_and_the_figures_are_told(mine: Counts, reason: str) -> None:
    found = judged(mine, counts(500, failed=5, degraded=20))
    assert found
    assert (found.stage, found.variant, found.reason) == ("tts", "b", reason)
    assert "60" in found.figures
    assert "500" in found.figures


@pytest.mark.parametrize(
    "mine",
    [
        counts(60, failed=4, degraded=9),
        counts(60, first_s=0.55),
        counts(60, slow=4),
        Counts(),
        counts(29, failed=29),
    ],
    ids=["bad luck", "a little slower", "few slow turns", "no turns", "too few turns"],
)
def test_a_variant_that_may_be_as_good_stays(mine: Counts) -> None:
    assert judged(mine, counts(500, failed=5, degraded=20)) is None


def test_nothing_is_judged_without_turns_of_the_control() -> None:
    assert judged(counts(500, failed=400, first_s=9), Counts()) is None


def test_a_failure_that_both_have_is_no_variant_s_failure() -> None:
    assert judged(counts(100, failed=60, first_s=9), counts(300, failed=180, first_s=9)) is None


def test_the_bound_is_newcombe_s() -> None:
    # His table II, row (a): 56 of 70 and 48 of 80; 95 % interval 0.0524 to 0.3339.
    assert difference_at_least(56, 70, 48, 80, z=1.959964) == pytest.approx(0.0524, abs=1e-4)


def test_only_variants_with_new_conversations_are_watched() -> None:
    now = stage(a=Variant(weight=100), b=Variant(), c=Variant(state=State.DRAINING), d=Variant(state=State.OFF))
    assert [each.variant for each in comparisons(table(now), NOW_S)] == ["b"]
    assert comparisons(table(now, guardrail=False), NOW_S) == []


def test_a_control_is_on_trial_for_one_window_after_its_promotion() -> None:
    at_s = NOW_S - 100
    (watched,) = comparisons(table(PROMOTED, (at_s - 500, SPLIT), (at_s, SPLIT)), NOW_S)
    assert (watched.variant, watched.span) == ("b", Span("tts", at_s, NOW_S))
    assert (watched.reference, watched.reference_span) == ("a", Span("tts", at_s - LIMITS.window_s, at_s))
    assert comparisons(table(PROMOTED, (NOW_S - LIMITS.window_s - 1, SPLIT)), NOW_S) == []
    bad = judged(counts(60, failed=20), counts(500, failed=5), table(PROMOTED, (at_s, SPLIT)))
    assert bad
    assert bad.variant == "b"


def test_a_control_without_a_way_back_is_not_on_trial() -> None:
    taken_back = stage(a=Variant(weight=100), b=Variant(state=State.OFF))
    assert comparisons(table(taken_back, (NOW_S - 10, PROMOTED)), NOW_S) == []
    assert comparisons(table(stage("b", b=Variant(weight=100)), (NOW_S - 10, SPLIT)), NOW_S) == []


@pytest.mark.parametrize("traffic", [Traffic(1, 0.1), Traffic(0.2, 0.5)])
def test_an_equal_variant_stays_for_a_day_in_which_it_is_judged_every_10_s(traffic: Traffic) -> None:
    assert [rolled_back_s(traffic, seed, 86400) for seed in range(4)] == [math.inf] * 4


@pytest.mark.parametrize(
    ("traffic", "typical_s"),
    [
        (Traffic(1, 0.1, slower=3), 400),
        (Traffic(1, 0.5, slower=3), 120),
        (Traffic(1, 0.1, failed=(0.02, 0.2)), 900),
        (Traffic(1, 0.5, failed=(0.02, 0.2)), 300),
    ],
)
def test_a_voice_made_slow_or_faulty_is_soon_taken_back(traffic: Traffic, typical_s: float) -> None:
    assert median(rolled_back_s(traffic, seed, 3600) for seed in range(15)) <= typical_s
