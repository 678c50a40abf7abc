"""Simulate comparisons of variants: false positives without an effect, and users until an effect is seen.

    python -m benchmarks.comparison

Each experiment is looked at after each batch of users, from the minimum of users on, and stops at the first verdict.
Beside it stands a t-test at 5 % that is looked at as often, which it does not allow. All figures are simulated with
fixed seeds and depend on no machine.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from orchestrator.comparison.compare import LEVEL
from orchestrator.comparison.sample_ratio import check
from orchestrator.comparison.sequences import Sample, Stratum, difference

EXPERIMENTS = 1000
BATCH = 25
MINIMUM_USERS = 50
SEED = 17

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

METRICS: Mapping[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "ratings 1-5": lambda rng, shape: rng.choice(np.arange(1.0, 6.0), p=[0.08, 0.04, 0.08, 0.2, 0.6], size=shape),
    "skewed latency": lambda rng, shape: rng.lognormal(sigma=1, size=shape),
    "binary 30 %": lambda rng, shape: (rng.random(shape) < 0.3).astype(np.float64),
    "binary 2 %": lambda rng, shape: (rng.random(shape) < 0.02).astype(np.float64),
}
"""Values of users by metric. The latency is lognormal, with a skewness of 6."""
SHARES = (0.5, 0.1)


@dataclass(frozen=True)
class Sums:
    """Running sums of the users of one variant in one phase: float64, (experiments, looks)."""

    count: Floats
    total: Floats
    squares: Floats

    @classmethod
    def at(cls, looks: NDArray[np.int_], values: Floats, members: Bools) -> "Sums":
        """Sum the values (experiments, users) of members at looks, which are numbers of users."""
        held = np.where(members, values, 0.0)
        counts, totals, squares = (np.cumsum(each, axis=1)[:, looks - 1] for each in (members, held, held**2))
        return cls(counts.astype(np.float64), totals, squares)

    def sample(self, experiment: int, look: int) -> Sample:
        """Return the sample of one experiment at one look."""
        count, total = int(self.count[experiment, look]), float(self.total[experiment, look])
        deviations = float(self.squares[experiment, look]) - total**2 / max(1, count)
        return Sample(count, total / max(1, count), max(0.0, deviations))


Phases = Sequence[tuple[Sums, Sums]]
"""Variant and control in each phase."""
Test = Callable[[Sequence[Stratum], int], bool]
"""Judgement of strata with a minimum of users: true for a verdict."""


def sequential(strata: Sequence[Stratum], minimum_users: int) -> bool:
    """Decide as the comparison does."""
    estimate = difference(strata, minimum_users, LEVEL)
    return estimate is not None and estimate.is_decided


def t_test(strata: Sequence[Stratum], minimum_users: int) -> bool:
    """Decide as Welch's t-test does at a single look at the first phase."""
    stratum = strata[0]
    freedom, normal = min(stratum.variant.count, stratum.control.count) - 1, NormalDist().inv_cdf(1 - LEVEL / 2)
    # Fisher's expansion of the quantile of t.
    quantile = normal + (normal**3 + normal) / (4 * freedom)
    return abs(stratum.difference) > quantile * math.sqrt(stratum.separate_variance)


def decisions(phases: Phases, minimum_users: int, test: Test = sequential) -> NDArray[np.int_]:
    """Return the first look with a verdict of each experiment, -1 for none."""
    experiments, looks = phases[0][0].count.shape
    found = np.full(experiments, -1)
    enough = np.minimum(sum(variant.count for variant, _ in phases), sum(control.count for _, control in phases))
    for experiment in range(experiments):
        for look in range(looks):
            if enough[experiment, look] < minimum_users:
                continue
            sums = [(variant.sample(experiment, look), control.sample(experiment, look)) for variant, control in phases]
            if test([Stratum(*each) for each in sums], minimum_users):
                found[experiment] = look
                break
    return found


def rate(found: NDArray[np.int_]) -> float:
    """Return the share of experiments with a verdict."""
    return float((found >= 0).mean())


def split(
    draw: Draw, share: float, seed: int, users: int = 2000, effect: float = 0.0, experiments: int = EXPERIMENTS
) -> Phases:
    """Simulate one phase in which a share of the users sees the variant, which adds an effect."""
    rng = np.random.default_rng(seed)
    values, is_variant = draw(rng, (experiments, users)), rng.random((experiments, users)) < share
    looks = np.arange(BATCH, users + 1, BATCH)
    values = values + effect * is_variant
    return [(Sums.at(looks, values, is_variant), Sums.at(looks, values, ~is_variant))]


def shapes(share: float, seed: int, users: int = 2000) -> Phases:
    """Simulate equal means with unequal tails: lognormal with sigma 1 for the variant, 0.3 for the control."""
    rng = np.random.default_rng(seed)
    is_variant = rng.random((EXPERIMENTS, users)) < share
    sigma = np.where(is_variant, 1.0, 0.3)
    values = np.exp(rng.normal(size=sigma.shape) * sigma - sigma**2 / 2)
    looks = np.arange(BATCH, users + 1, BATCH)
    return [(Sums.at(looks, values, is_variant), Sums.at(looks, values, ~is_variant))]


def returning(share: float, seed: int, users: int = 1000) -> Phases:
    """Simulate users who come back: their mean changes between looks, as in each batch a fifth has a turn more."""
    rng = np.random.default_rng(seed)
    shape = (EXPERIMENTS, users)
    is_variant, habit = rng.random(shape) < share, 0.5 * rng.normal(size=shape)
    turns, total = np.zeros(shape), np.zeros(shape)
    looks: list[tuple[Floats, ...]] = []
    for end in range(BATCH, users + 1, BATCH):
        more = rng.poisson(0.2, (EXPERIMENTS, end)).astype(np.float64)
        more[:, end - BATCH :] += 1
        turns[:, :end] += more
        total[:, :end] += more * habit[:, :end] + np.sqrt(more) * rng.normal(size=more.shape)
        means, members = total[:, :end] / turns[:, :end], is_variant[:, :end]
        looks.append(tuple((arm * means**power).sum(axis=1) for arm in (members, ~members) for power in range(3)))
    columns = [np.stack(column, axis=1) for column in zip(*looks, strict=True)]
    return [(Sums(*columns[:3]), Sums(*columns[3:]))]


def ramp(seed: int, users: int = 1000) -> Phases:
    """Simulate a ramp from 10 % to 50 % without an effect, while all users' values rise by one standard deviation."""
    rng = np.random.default_rng(seed)
    shape = (EXPERIMENTS, 2 * users)
    is_late = np.broadcast_to(np.arange(2 * users) >= users, shape)
    values = rng.normal(size=shape) + is_late
    is_variant = rng.random(shape) < np.where(is_late, 0.5, 0.1)
    looks = np.arange(BATCH, 2 * users + 1, BATCH)
    arms = [(is_variant & late, ~is_variant & late) for late in (~is_late, is_late)]
    return [(Sums.at(looks, values, variant), Sums.at(looks, values, control)) for variant, control in arms]


def without_phases(phases: Phases) -> Phases:
    """Return the same users in one phase."""
    arms = zip(*phases, strict=True)
    variant, control = (
        Sums(sum(each.count for each in arm), sum(each.total for each in arm), sum(each.squares for each in arm))
        for arm in arms
    )
    return [(variant, control)]


def mismatches(expected: float, actual: float, seed: int, level: float, users: int = 2000) -> NDArray[np.int_]:
    """Return the users after which a split is found to be wrong, -1 for never; each test looks after every ten."""
    rng = np.random.default_rng(seed)
    counts = np.cumsum(rng.random((EXPERIMENTS, users)) < actual, axis=1)
    weights = {"b": expected, "a": 1 - expected}
    found = np.full(EXPERIMENTS, -1)
    for experiment in range(EXPERIMENTS):
        for total in range(10, users + 1, 10):
            variant = int(counts[experiment, total - 1])
            if check({"b": variant, "a": total - variant}, weights, level).is_mismatch:
                found[experiment] = total
                break
    return found


def _show_false_positives() -> None:
    """Print the verdicts of experiments without an effect."""
    print(f"\nA/A: verdicts in {EXPERIMENTS} experiments, looked at after each {BATCH} of 2000 users")
    print(f"{'metric':<28}{'split':>7}{'minimum':>9}{'comparison':>12}{'t-test, each look':>19}")
    for name, draw in METRICS.items():
        for share in SHARES:
            for minimum in (20, 50, 100):
                phases = split(draw, share, SEED)
                _print_row(name, share, minimum, phases)
    for share in SHARES:
        for minimum in (20, 50, 100):
            _print_row("returning users (1000)", share, minimum, returning(share, SEED))
            _print_row("equal means, unequal tails", share, minimum, shapes(share, SEED))


def _print_row(name: str, share: float, minimum: int, phases: Phases) -> None:
    """Print the rates of both tests."""
    ours, theirs = (rate(decisions(phases, minimum, test)) for test in (sequential, t_test))
    print(f"{name:<28}{1 - share:>4.0%}{share:>4.0%}{minimum:>8}{ours:>12.1%}{theirs:>19.1%}", flush=True)


def _show_ramp() -> None:
    """Print the verdicts that a ramp without an effect gets."""
    phases = ramp(SEED)
    ours, pooled = rate(decisions(phases, MINIMUM_USERS)), rate(decisions(without_phases(phases), MINIMUM_USERS))
    print("\nA/A over a ramp from 10 % to 50 % while the metric drifts by one standard deviation")
    print(f"within phases {ours:.1%}, without phases {pooled:.1%}")


def _show_power() -> None:
    """Print the users until an effect is seen."""
    print(f"\nA/B: users until the verdict, looked at after each {BATCH} of 20000 users, 200 experiments, minimum 100")
    print(f"{'effect':>8}{'split':>9}{'median':>9}{'80 %':>8}{'seen':>7}{'t-test planned for 80 %':>25}")
    for effect in (0.1, 0.2, 0.3, 0.5, 0.8):
        for share in SHARES:
            phases = split(METRICS["normal"], share, SEED, users=20000, effect=effect, experiments=200)
            found = decisions(phases, 100)
            users = np.where(found >= 0, (found + 1.0) * BATCH, np.inf)
            median, most = np.quantile(users, [0.5, 0.8], method="higher")
            normal = NormalDist()
            planned = ((normal.inv_cdf(0.975) + normal.inv_cdf(0.8)) / effect) ** 2 * (1 / share + 1 / (1 - share))
            row = f"{effect:>5} sd{1 - share:>5.0%}{share:>4.0%}{median:>9.0f}{most:>8.0f}{rate(found):>7.0%}"
            print(f"{row}{planned:>25.0f}", flush=True)


def _show_mismatches() -> None:
    """Print how a wrong split is found."""
    print("\nSample-ratio mismatch at a level of 0.5 % (the first phase), looked at after each 10 of 2000 users")
    for expected, actual in ((0.5, 0.5), (0.1, 0.1), (0.5, 0.45), (0.5, 0.4), (0.1, 0.15), (0.1, 0.2), (0.1, 0.05)):
        found = mismatches(expected, actual, SEED, 0.005)
        median = f"{np.median(found[found >= 0]):.0f} users" if rate(found) > 0.5 else "-"
        print(f"expected {expected:.0%}, actual {actual:.0%}: found in {rate(found):.1%}, median {median}", flush=True)


if __name__ == "__main__":
    _show_false_positives()
    _show_ramp()
    _show_power()
    _show_mismatches()
