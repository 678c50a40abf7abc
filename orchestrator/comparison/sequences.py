"""Confidence sequences: intervals that hold at every look at once, so that looking early is allowed.

The boundary is Robbins' normal mixture as an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy &
Ramdas 2024, "Time-uniform central limit theory and asymptotic confidence sequences"), in the form for an estimated
variance (Lindon, Ham, Tingley & Bojinov 2022, "Anytime-Valid Linear Models"). With t the estimate in standard errors,
n the information, v degrees of freedom, phi the precision of the mixture and r = phi / (phi + n):

    B(t) = sqrt(r) * ((1 + r * t^2 / v) / (1 + t^2 / v)) ^ (-(v + 1) / 2),    p = min(1, 1 / B),

    interval = estimate +- se * sqrt(v * (1 - q) / (q - r)),    q = (level * sqrt(r)) ^ (2 / (v + 1)).

B is the likelihood ratio of t under effects ~ N(0, sigma^2 / phi) to t without an effect: a martingale, by which
P(any look has B >= 1 / level) <= level (Ville). For v -> inf it is the interval of Waudby-Smith et al. with
rho^2 = 1 / phi: se * sqrt(2 * (n * rho^2 + 1) / (n * rho^2) * log(sqrt(n * rho^2 + 1) / level)).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

TIGHTEST = 5
"""Multiple of the minimum of users at which intervals are tightest. Later looks than the first need the power."""


@dataclass(frozen=True)
class Sample:
    """Values of users in short.

    Attributes:
        count: Number of users.
        mean: Mean of their values.
        deviations: Sum of the squared deviations from the mean.
    """

    count: int
    mean: float
    deviations: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Sample":
        """Summarize values."""
        held = list(values)
        mean = fmean(held) if held else 0.0
        return cls(len(held), mean, math.fsum((value - mean) ** 2 for value in held))

    @property
    def mean_variance(self) -> float:
        """The variance of the mean; of two users at least."""
        return self.deviations / (self.count - 1) / self.count


@dataclass(frozen=True)
class Stratum:
    """Users of two variants in one phase."""

    variant: Sample
    control: Sample

    @property
    def is_counted(self) -> bool:
        """Whether variances can be estimated. It depends on counts alone, so it biases no estimate."""
        return min(self.variant.count, self.control.count) >= 2

    @property
    def size(self) -> float:
        """Information on the difference: a mean of n users with the same variance knows as much."""
        return self.variant.count * self.control.count / (self.variant.count + self.control.count)

    @property
    def difference(self) -> float:
        """Variant minus control."""
        return self.variant.mean - self.control.mean

    @property
    def separate_variance(self) -> float:
        """Welch's variance of the difference: each variant has its own variance."""
        return self.variant.mean_variance + self.control.mean_variance

    @property
    def pooled_variance(self) -> float:
        """Variance of the difference if all users have one distribution, as they do without an effect."""
        deviations = self.variant.deviations + self.control.deviations + self.size * self.difference**2
        return deviations / (self.variant.count + self.control.count - 1) / self.size


@dataclass(frozen=True)
class Estimate:
    """Estimate with an interval of its confidence sequence.

    Attributes:
        value: Point estimate.
        lower: Lower bound; -inf while the variance is unknown.
        upper: Upper bound; inf while the variance is unknown.
        p_value: Always-valid p-value of the value 0.
    """

    value: float
    lower: float
    upper: float
    p_value: float

    @property
    def is_decided(self) -> bool:
        """Whether the interval excludes 0."""
        return self.lower > 0 or self.upper < 0


def mean(sample: Sample, minimum_users: int, level: float) -> Estimate | None:
    """Estimate the mean of one variant; None without users."""
    if not sample.count:
        return None
    variance = sample.mean_variance if sample.count > 1 else 0.0
    return _estimate(sample.mean, variance, sample.count, sample.count - 1, _precision(minimum_users, level), level)


def difference(strata: Sequence[Stratum], minimum_users: int, level: float) -> Estimate | None:
    """Estimate variant minus control within phases; None while no phase has two users of each.

    Phases weigh by n1 * n0 / (n1 + n0) (Cochran 1954, "Some Methods for Strengthening the Common chi^2 Tests"). These
    are inverse variances for a common variance, and free of the outcomes: estimated variances as weights would favour
    phases that happen to lack the long tail of a skewed metric. Comparing within phases avoids Simpson's paradox of
    ramps (Crook, Frasca, Kohavi & Longbotham 2009, "Seven Pitfalls to Avoid when Running Controlled Experiments").

    The variance is the larger of Welch's and the pooled one. A small variant without a single rare or extreme value
    would believe its mean to be certain: Welch's alone rejects a third of A/A experiments with a 2 % event at 90/10.
    Degrees of freedom are those of the smaller variant, below which Welch-Satterthwaite's never fall.
    """
    counted = [stratum for stratum in strata if stratum.is_counted]
    if not counted:
        return None
    size = sum(stratum.size for stratum in counted)
    value = sum(stratum.size * stratum.difference for stratum in counted) / size
    separate = sum(stratum.size**2 * stratum.separate_variance for stratum in counted) / size**2
    pooled = sum(stratum.size**2 * stratum.pooled_variance for stratum in counted) / size**2
    freedom = min(
        sum(stratum.variant.count - 1 for stratum in counted), sum(stratum.control.count - 1 for stratum in counted)
    )
    # Two equal variants of m users have size m / 2, any others with at least m more.
    precision = _precision(minimum_users / 2, level)
    return _estimate(value, max(separate, pooled), size, freedom, precision, level)


def _precision(size_least: float, level: float) -> float:
    """Return the precision whose interval is tightest at `TIGHTEST` times a size (Waudby-Smith et al., appendix)."""
    log = -2 * math.log(level)
    return TIGHTEST * size_least / (log + math.log(log + 1))


def _estimate(value: float, variance: float, size: float, freedom: int, precision: float, level: float) -> Estimate:
    """Put an interval around a value with the estimated variance."""
    if variance <= 0:
        return Estimate(value, -math.inf, math.inf, 1.0)
    ratio = precision / (precision + size)
    root = (level * math.sqrt(ratio)) ** (2 / (freedom + 1))
    # Too few degrees of freedom: no t is large enough.
    radius = math.sqrt(variance * freedom * (1 - root) / (root - ratio)) if root > ratio else math.inf
    square = value**2 / variance / freedom
    log_evidence = math.log(ratio) / 2 + (freedom + 1) / 2 * (math.log1p(square) - math.log1p(ratio * square))
    return Estimate(value, value - radius, value + radius, math.exp(min(0.0, -log_evidence)))
