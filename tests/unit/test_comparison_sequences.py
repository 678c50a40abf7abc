import math
from collections.abc import Sequence
from statistics import NormalDist

import pytest

from benchmarks.comparison import (
    EXPERIMENTS,
    METRICS,
    SHARES,
    decisions,
    mismatches,
    ramp,
    rate,
    returning,
    sequential,
    shapes,
    split,
    t_test,
    without_phases,
)
from orchestrator.comparison.sample_ratio import LEVEL, check, phase_level
from orchestrator.comparison.sequences import Estimate, Sample, Stratum, difference, mean
from orchestrator.comparison.summaries import MINIMUM_USERS as DEFAULT_USERS

MINIMUM_USERS = 50
SEED = 2024


def false_positives_max(experiments: int, level: float = 0.05) -> float:
    """The share that a rate of `level` exceeds once in a thousand times, by the normal limit of the binomial."""
    return level + NormalDist().inv_cdf(0.999) * math.sqrt(level * (1 - level) / experiments)


def estimated(variant: list[float], control: list[float], minimum_users: int = 20) -> Estimate:
    found = difference([Stratum(Sample.of(variant), Sample.of(control))], minimum_users, 0.05)
    assert found
    return found


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("metric", METRICS)
def test_experiments_without_an_effect_looked_at_after_each_batch_are_seldom_decided(metric: str, share: float) -> None:
    found = decisions(split(METRICS[metric], share, SEED, users=1200), MINIMUM_USERS)
    assert rate(found) <= false_positives_max(len(found))


def test_a_t_test_looked_at_as_often_is_decided_far_too_often() -> None:
    phases = split(METRICS["normal"], 0.5, SEED)
    assert rate(decisions(phases, MINIMUM_USERS, t_test)) > 0.15 > rate(decisions(phases, MINIMUM_USERS, sequential))


def test_users_who_return_between_looks_decide_no_experiment_without_an_effect() -> None:
    found = decisions(returning(0.5, SEED), MINIMUM_USERS)
    assert rate(found) <= false_positives_max(len(found))


@pytest.mark.parametrize("share", SHARES)
def test_a_variant_with_a_longer_tail_and_the_same_mean_is_seldom_decided(share: float) -> None:
    found = decisions(shapes(share, SEED), DEFAULT_USERS)
    assert rate(found) <= false_positives_max(len(found))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("metric", ["normal", "skewed latency"])
def test_intervals_seldom_miss_a_real_effect_at_any_look(metric: str, share: float) -> None:
    def misses(strata: Sequence[Stratum], minimum_users: int) -> bool:
        found = difference(strata, minimum_users, 0.05)
        return found is not None and not found.lower <= 1 <= found.upper

    phases = split(METRICS[metric], share, SEED, users=1200, effect=1)
    assert rate(decisions(phases, 50, misses)) <= false_positives_max(EXPERIMENTS)


def test_a_ramp_while_the_metric_drifts_is_decided_only_without_phases() -> None:
    phases = ramp(SEED)
    found = decisions(phases, MINIMUM_USERS)
    assert rate(found) <= false_positives_max(len(found))
    assert rate(decisions(without_phases(phases), MINIMUM_USERS)) > 0.9


@pytest.mark.parametrize("share", SHARES)
def test_an_effect_of_half_a_standard_deviation_is_seen(share: float) -> None:
    found = decisions(split(METRICS["normal"], share, SEED, effect=0.5, experiments=200), MINIMUM_USERS)
    assert rate(found) > 0.95


def test_the_interval_of_many_users_is_the_asymptotic_confidence_sequence() -> None:
    count = 1_000_000
    sample = Sample(count, 0.3, float(count - 1))
    found = mean(sample, 100, 0.05)
    assert found
    log = -2 * math.log(0.05)
    n_rho = count * (log + math.log(log + 1)) / 500  # n * rho^2, tightest at 5 * 100 users
    radius = math.sqrt(2 * (n_rho + 1) / n_rho * math.log(math.sqrt(n_rho + 1) / 0.05) / count)
    assert found.upper - found.value == pytest.approx(radius, rel=1e-4)


def test_the_evidence_of_a_mean_is_the_likelihood_ratio_of_its_t() -> None:
    sample = Sample.of([0.4, 1.1, -0.2, 0.9, 0.7, 1.4, 0.1])
    found = mean(sample, 20, 0.05)
    assert found
    t, freedom = sample.mean / math.sqrt(sample.mean_variance), 6
    log = -2 * math.log(0.05)
    precision = 100 / (log + math.log(log + 1))
    # Integrates the noncentral likelihood of t over effects ~ N(0, 1 / precision) and over the scale.
    above = below = 0.0
    for step in range(1, 1500):
        scale = step / 150  # The standard deviation's estimate in units of the true one.
        weight = scale ** (freedom - 1) * math.exp(-freedom * scale**2 / 2) * scale
        below += weight * math.exp(-((t * scale) ** 2) / 2)
        spread = 1 + sample.count / precision
        above += weight * math.exp(-((t * scale) ** 2) / 2 / spread) / math.sqrt(spread)
    assert found.p_value == pytest.approx(min(1.0, below / above), rel=1e-6)


def test_the_interval_excludes_zero_exactly_when_the_p_value_is_below_the_level() -> None:
    base = [float(index % 7) for index in range(140)]
    for shift in (0.0, 0.3, 0.6, 0.9, 1.2, 1.5):
        found = estimated([value + shift for value in base], base)
        assert found.is_decided == (found.p_value < 0.05)


def test_a_small_variant_without_a_rare_event_is_not_certain() -> None:
    control = [1.0] * 18 + [0.0] * 882
    assert not estimated([0.0] * 100, control).is_decided


def test_values_that_never_vary_have_no_interval() -> None:
    found = estimated([0.0] * 100, [0.0] * 100)
    assert (found.lower, found.upper, found.p_value) == (-math.inf, math.inf, 1.0)


def test_two_constants_that_differ_are_decided() -> None:
    found = estimated([5.0] * 100, [4.0] * 100)
    assert 0 < found.lower < 1 < found.upper


def test_a_small_variant_that_varies_more_than_the_control_is_not_certain() -> None:
    assert not estimated([3.4, -2.6] * 50, [0.1, -0.1] * 450).is_decided


def test_a_handful_of_users_is_never_certain_however_many_the_control_has() -> None:
    assert estimated([1.0, 1.1], [9.0, 9.1] * 50).lower == -math.inf


def test_a_phase_with_one_user_of_a_variant_does_not_count() -> None:
    full = Stratum(Sample.of([1.0, 2.0, 4.0] * 20), Sample.of([1.0, 3.0, 3.0] * 20))
    lone = Stratum(Sample.of([1000.0]), Sample.of([0.0, 1.0]))
    assert difference([full, lone], 20, 0.05) == difference([full], 20, 0.05)
    assert difference([lone], 20, 0.05) is None


def test_the_split_that_was_asked_for_seldom_looks_wrong_however_often_it_is_looked_at() -> None:
    found = mismatches(0.1, 0.1, SEED, 0.05)
    assert rate(found) <= false_positives_max(len(found))


def test_a_wrong_split_is_found() -> None:
    assert rate(mismatches(0.1, 0.2, SEED, phase_level(0))) > 0.99


def test_the_evidence_of_a_split_is_the_bayes_factor_of_its_counts() -> None:
    # With shares of one half the first user, whoever they get, says nothing; the second one of the same says 51 / 50.5.
    found = check({"a": 2, "b": 0}, {"a": 1, "b": 1}, 0.01)
    assert found.p_value == pytest.approx(1 / (51 / 101 / 0.5))


def test_users_of_a_variant_without_weight_are_a_mismatch() -> None:
    assert check({"a": 50, "b": 1}, {"a": 1, "b": 0}, 0.01).is_mismatch
    assert not check({"a": 50}, {"a": 1, "b": 0}, 0.01).is_mismatch


def test_all_phases_share_one_level_of_false_alarms() -> None:
    assert sum(map(phase_level, range(1000))) == pytest.approx(LEVEL, rel=1e-2)
    assert sum(map(phase_level, range(1000))) < LEVEL
