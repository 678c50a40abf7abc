from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from orchestrator.comparison.compare import compare
from orchestrator.comparison.results import Comparison, Difference, MetricMean, Verdict
from orchestrator.comparison.summaries import Experiment, Phase, Tally, UserSummary

EVEN = Phase("1", {"a": 50, "b": 50})
EXPERIMENT = Experiment("a", "rating", (EVEN,), minimum_users=40)
_keys = count()


def user(variant: str, rating: float | None = None, phase: int = 0, turns: int = 2, **more: object) -> UserSummary:
    """A user who gave each of their turns the same rating."""
    tally = Tally() if rating is None else Tally(turns * rating, turns)
    summary = UserSummary(f"user-{next(_keys)}", variant, phase, (variant,), turns, 1, rating=tally)
    return replace(summary, **more)  # type: ignore[arg-type]


def crowd(variant: str, size: int, middle: float, phase: int = 0) -> Iterator[UserSummary]:
    """Users whose ratings lie evenly around a middle."""
    return (user(variant, middle + index % 5 - 2, phase) for index in range(size))


def primary(comparison: Comparison) -> Difference:
    (found,) = comparison.primary
    return found


def value(mean: MetricMean) -> float:
    assert mean.estimate
    return mean.estimate.value


def other(comparison: Comparison, metric: str) -> Difference:
    (found,) = (each for each in comparison.others if each.metric == metric)
    return found


def test_a_variant_that_is_rated_higher_is_better_and_one_rated_lower_worse() -> None:
    assert primary(compare([*crowd("a", 200, 3), *crowd("b", 200, 4)], EXPERIMENT)).text == "better"
    assert primary(compare([*crowd("a", 200, 4), *crowd("b", 200, 3)], EXPERIMENT)).text == "worse"
    same = primary(compare([*crowd("a", 200, 3), *crowd("b", 200, 3)], EXPERIMENT))
    assert (same.text, same.estimate and same.estimate.value) == ("no difference seen yet", 0)


def test_a_shorter_wait_is_better() -> None:
    users = [user("a", first_sound_s=Tally(2 + index % 3, 1)) for index in range(100)]
    users += [user("b", first_sound_s=Tally(1 + index % 3, 1)) for index in range(100)]
    assert primary(compare(users, replace(EXPERIMENT, primary="first_sound_s"))).text == "better"


def test_before_the_least_number_of_users_there_is_no_verdict_however_clear_the_difference() -> None:
    found = primary(compare([*crowd("a", 45, 3), *crowd("b", 39, 30)], EXPERIMENT))
    assert found.text == "too few users: 39 of 40"
    assert found.estimate
    assert found.estimate.is_decided


def test_users_without_the_metric_are_not_among_the_users_that_a_verdict_needs() -> None:
    silent = [user(name) for name in "ab" for _ in range(100)]
    found = compare([*crowd("a", 45, 3), *crowd("b", 39, 30), *silent], EXPERIMENT)
    assert (primary(found).users, found.variants[1].users) == (39, 139)
    assert primary(found).text == "too few users: 39 of 40"


def test_without_any_user_nothing_is_estimated() -> None:
    found = compare([], EXPERIMENT)
    assert (primary(found).text, primary(found).estimate) == ("too few users: 0 of 40", None)


def test_each_user_weighs_the_same_however_much_they_talk() -> None:
    users = [user("b", 5), user("b", 5), user("b", 2, turns=100_000)]
    means = compare(users, EXPERIMENT).variants[1].means
    assert (means["rating"].users, value(means["rating"])) == (3, 4)


def test_a_user_of_two_variants_is_reported_once_and_compared_nowhere() -> None:
    users = [*crowd("a", 100, 3), *crowd("b", 100, 3)]
    both = [user(name, 1000, user="both", variants_seen=("b", "a")) for name in "ab"]
    found = compare([*users, *both], EXPERIMENT)
    assert [each.excluded_users for each in found.variants] == [0, 1]
    assert found.excluded_users == 1
    assert (found.users, found.variants, primary(found)) == (
        200,
        (found.variants[0], replace(compare(users, EXPERIMENT).variants[1], excluded_users=1)),
        primary(compare(users, EXPERIMENT)),
    )


def test_only_the_primary_metric_decides() -> None:
    scores = {"hit": (0.1, 0.9)}
    users = [
        replace(each, scores={"hit": Tally(scores["hit"][each.variant == "b"] + index % 2 / 20, 1)})
        for index, each in enumerate([*crowd("a", 100, 3), *crowd("b", 100, 3)])
    ]
    found = compare(users, EXPERIMENT)
    assert primary(found).verdict is Verdict.NO_DIFFERENCE
    assert other(found, "hit").text == "better (does not decide)"
    assert primary(compare(users, replace(EXPERIMENT, primary="hit"))).text == "better"


def test_degraded_turns_are_a_share_of_a_users_turns() -> None:
    users = [user("a", turns=4, degraded_turns=1), user("a", turns=2)]
    means = compare(users, EXPERIMENT).variants[0].means
    assert value(means["degraded_share"]) == 0.125


def test_a_sample_ratio_mismatch_withholds_the_verdict() -> None:
    found = compare([*crowd("a", 300, 3), *crowd("b", 200, 4)], EXPERIMENT)
    assert found.is_mismatch
    assert primary(found).text == "no verdict: sample-ratio mismatch"


def test_a_variant_that_loses_its_users_to_the_control_is_a_mismatch() -> None:
    lost = [user("b", 1, user=f"lost-{index}", variants_seen=("b", "a")) for index in range(100)]
    assert compare([*crowd("a", 300, 3), *crowd("b", 200, 3), *lost], EXPERIMENT).is_mismatch


def test_a_split_that_differs_between_phases_is_none_when_their_weights_say_so() -> None:
    ramp = replace(EXPERIMENT, phases=(Phase("1", {"a": 90, "b": 10}), Phase("2", {"a": 50, "b": 50})))
    users = [*crowd("a", 450, 3), *crowd("b", 50, 3), *crowd("a", 250, 3, 1), *crowd("b", 250, 3, 1)]
    assert not compare(users, ramp).is_mismatch
    assert [dict(each.ratio.users) for each in compare(users, ramp).phases] == [
        {"a": 450, "b": 50},
        {"a": 250, "b": 250},
    ]


def test_a_drift_while_the_weights_ramp_is_no_difference() -> None:
    # Both variants are rated 2 at first and 4 later; most users of b came later.
    ramp = replace(EXPERIMENT, phases=(Phase("1", {"a": 90, "b": 10}), Phase("2", {"a": 50, "b": 50})))
    users = [*crowd("a", 450, 2), *crowd("b", 50, 2), *crowd("a", 250, 4, 1), *crowd("b", 250, 4, 1)]
    found = compare(users, ramp)
    assert [round(value(variant.means["rating"]), 2) for variant in found.variants] == [2.71, 3.67]
    estimate = primary(found).estimate
    assert estimate
    assert estimate.value == pytest.approx(0)
    pooled = [replace(each, phase=0) for each in users]
    weights = replace(EXPERIMENT, phases=(Phase("1", {"a": 700, "b": 300}),))
    assert primary(compare(pooled, weights)).text == "better"


def test_several_variants_share_the_chance_of_a_false_verdict() -> None:
    three = replace(EXPERIMENT, phases=(Phase("1", {"b": 1, "a": 1, "c": 1}),))
    found = compare([*crowd("a", 100, 3), *crowd("b", 100, 3), *crowd("c", 100, 5)], three)
    assert found.level == 0.025
    assert [(each.variant, each.text) for each in found.primary] == [("b", "no difference seen yet"), ("c", "better")]
    assert [each.name for each in found.variants] == ["a", "b", "c"]


def test_a_summary_that_does_not_belong_to_the_experiment_is_refused() -> None:
    with pytest.raises(ValueError, match="'c'"):
        compare([user("c", 3)], EXPERIMENT)
    with pytest.raises(ValueError, match="no phase 1"):
        compare([user("a", 3, phase=1)], EXPERIMENT)


def test_an_experiment_that_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="20 users"):
        Experiment("a", "rating", (EVEN,), minimum_users=19)
    with pytest.raises(ValueError, match="control 'c'"):
        Experiment("c", "rating", (EVEN,))
    with pytest.raises(ValueError, match="weights"):
        Phase("1", {"a": 0})
