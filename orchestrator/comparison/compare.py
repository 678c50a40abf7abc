"""Comparison of variants with users as the unit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from orchestrator.comparison import sample_ratio
from orchestrator.comparison.results import Comparison, Difference, MetricMean, PhaseResult, VariantResult, Verdict
from orchestrator.comparison.sequences import Estimate, Sample, Stratum, difference, mean
from orchestrator.comparison.summaries import Experiment, Metric, UserSummary, metrics

LEVEL = 0.05
"""Chance that a metric without any effect is ever called better or worse, in whichever variant."""

_Groups = Mapping[tuple[str, int], Sequence[UserSummary]]


def compare(users: Sequence[UserSummary], experiment: Experiment) -> Comparison:
    """Compare each variant with the control by every metric.

    It holds no state: the same summaries give the same comparison, however often it is asked for.

    Raises:
        ValueError: A summary names a variant or a phase that the experiment lacks.
    """
    _validate(users, experiment)
    names = experiment.variants
    level = LEVEL / max(1, len(names) - 1)
    single = [user for user in users if len(user.variants_seen) == 1]
    groups = {(name, phase): list[UserSummary]() for name in names for phase in range(len(experiment.phases))}
    for user in single:
        groups[user.variant, user.phase].append(user)
    compared = metrics(single, experiment.primary)
    # A user who saw several variants has a summary of each, and is one user.
    first = Counter({user.user: user.variants_seen[0] for user in users if len(user.variants_seen) > 1}.values())
    phases = tuple(_phase(index, groups, compared[0], experiment, level) for index in range(len(experiment.phases)))
    is_mismatch = any(phase.ratio.is_mismatch for phase in phases)
    differences = [
        _difference(name, metric, groups, experiment, level, is_mismatch) for metric in compared for name in names[1:]
    ]
    return Comparison(
        experiment,
        tuple(_variant(name, single, first[name], compared, experiment, level) for name in names),
        tuple(each for each in differences if each.is_primary),
        tuple(each for each in differences if not each.is_primary),
        phases,
        level,
    )


def _validate(users: Sequence[UserSummary], experiment: Experiment) -> None:
    """Raise if a summary does not belong to the experiment."""
    for user in users:
        strangers = {user.variant, *user.variants_seen} - set(experiment.variants)
        if strangers or user.variant not in user.variants_seen:
            raise ValueError(f"a user saw {user.variants_seen} and has turns with {user.variant!r}")
        if not 0 <= user.phase < len(experiment.phases):
            raise ValueError(f"there is no phase {user.phase}")


def _sample(users: Iterable[UserSummary], metric: Metric) -> Sample:
    """Summarize a metric of users; those without it are left out."""
    return Sample.of(value for user in users if (value := metric.read(user)) is not None)


def _mean(users: Iterable[UserSummary], metric: Metric, experiment: Experiment, level: float) -> MetricMean:
    """Estimate the mean of a metric of users."""
    sample = _sample(users, metric)
    return MetricMean(sample.count, mean(sample, experiment.minimum_users, level))


def _variant(
    name: str,
    users: Sequence[UserSummary],
    excluded_users: int,
    compared: Sequence[Metric],
    experiment: Experiment,
    level: float,
) -> VariantResult:
    """Add up the figures of a variant."""
    own = [user for user in users if user.variant == name]
    return VariantResult(
        name,
        turns=sum(user.turns for user in own),
        conversations=sum(user.conversations for user in own),
        users=len(own),
        excluded_users=excluded_users,
        means={metric.name: _mean(own, metric, experiment, level) for metric in compared},
    )


def _phase(index: int, groups: _Groups, primary: Metric, experiment: Experiment, level: float) -> PhaseResult:
    """Test the split of a phase's users and estimate their means."""
    phase = experiment.phases[index]
    users = {name: groups[name, index] for name in experiment.variants}
    # The users who are compared, not those assigned: a variant that loses users on the way is a mismatch too.
    counts = {name: len(each) for name, each in users.items()}
    ratio = sample_ratio.check(counts, phase.weights, sample_ratio.phase_level(index))
    return PhaseResult(
        phase.name, ratio, {name: _mean(each, primary, experiment, level) for name, each in users.items()}
    )


def _difference(
    name: str, metric: Metric, groups: _Groups, experiment: Experiment, level: float, is_mismatch: bool
) -> Difference:
    """Compare one metric of a variant with the control's."""
    samples = [
        Stratum(_sample(groups[name, index], metric), _sample(groups[experiment.control, index], metric))
        for index in range(len(experiment.phases))
    ]
    strata = [stratum for stratum in samples if stratum.is_counted]
    users, control_users = (
        sum(stratum.variant.count for stratum in strata),
        sum(stratum.control.count for stratum in strata),
    )
    estimate = difference(strata, experiment.minimum_users, level)
    is_enough = min(users, control_users) >= experiment.minimum_users
    return Difference(
        name,
        metric.name,
        metric.name == experiment.primary,
        users,
        control_users,
        experiment.minimum_users,
        estimate,
        _verdict(estimate, metric, is_enough, is_mismatch),
    )


def _verdict(estimate: Estimate | None, metric: Metric, is_enough: bool, is_mismatch: bool) -> Verdict:
    """Judge an estimate."""
    if is_mismatch:
        return Verdict.SAMPLE_RATIO_MISMATCH
    if estimate is None or not is_enough:
        return Verdict.TOO_FEW_USERS
    if not estimate.is_decided:
        return Verdict.NO_DIFFERENCE
    return Verdict.BETTER if (estimate.value > 0) == metric.is_higher_better else Verdict.WORSE
