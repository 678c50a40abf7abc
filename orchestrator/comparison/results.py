"""Outcome of a comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.comparison.sample_ratio import RatioTest
from orchestrator.comparison.sequences import Estimate
from orchestrator.comparison.summaries import Experiment


class Verdict(StrEnum):
    """Judgement on one metric of one variant."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference seen yet"
    TOO_FEW_USERS = "too few users"
    SAMPLE_RATIO_MISMATCH = "no verdict: sample-ratio mismatch"


@dataclass(frozen=True)
class MetricMean:
    """Mean of one metric over the users of a variant.

    Attributes:
        users: Users who have the metric.
        estimate: Mean over them, each the mean of their turns; None without users.
    """

    users: int
    estimate: Estimate | None


@dataclass(frozen=True)
class VariantResult:
    """Figures of one variant. Users who saw several variants are in none but `excluded_users`.

    Attributes:
        name: Name of the variant.
        turns: Turns of its users.
        conversations: Conversations of its users.
        users: Users who saw this variant alone.
        excluded_users: Users who saw this variant first and another later.
        means: Mean of each metric. Phases are not told apart here: only the differences compare within phases.
    """

    name: str
    turns: int
    conversations: int
    users: int
    excluded_users: int
    means: Mapping[str, MetricMean]


@dataclass(frozen=True)
class Difference:
    """One metric of a variant against the control.

    Attributes:
        variant: Name of the variant.
        metric: Name of the metric.
        is_primary: Whether this metric decides. The others are shown, each with its own sequence.
        users: Users of the variant who have the metric, in phases that can be compared.
        control_users: Those of the control.
        users_needed: Users that each of the two needs before a verdict.
        estimate: Variant minus control; None while no phase can be compared.
        verdict: Judgement.
    """

    variant: str
    metric: str
    is_primary: bool
    users: int
    control_users: int
    users_needed: int
    estimate: Estimate | None
    verdict: Verdict

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.verdict is Verdict.TOO_FEW_USERS:
            return f"{self.verdict}: {min(self.users, self.control_users)} of {self.users_needed}"
        is_judged = self.verdict in {Verdict.BETTER, Verdict.WORSE}
        return self.verdict if self.is_primary or not is_judged else f"{self.verdict} (does not decide)"


@dataclass(frozen=True)
class PhaseResult:
    """Figures of one phase.

    Attributes:
        name: Name of the phase.
        ratio: Test of its split of users.
        means: Mean of the primary metric by variant.
    """

    name: str
    ratio: RatioTest
    means: Mapping[str, MetricMean]


@dataclass(frozen=True)
class Comparison:
    """All that is known of an experiment at one look.

    Attributes:
        experiment: Question.
        variants: Figures of each variant, the control first.
        primary: Primary metric of each variant against the control. These alone decide.
        others: The other metrics, likewise.
        phases: Figures of each phase.
        level: Chance that any interval of one metric ever misses: 5 %, shared by the variants beside the control.
    """

    experiment: Experiment
    variants: tuple[VariantResult, ...]
    primary: tuple[Difference, ...]
    others: tuple[Difference, ...]
    phases: tuple[PhaseResult, ...]
    level: float

    @property
    def users(self) -> int:
        """Users who are compared."""
        return sum(variant.users for variant in self.variants)

    @property
    def excluded_users(self) -> int:
        """Users who saw more than one variant."""
        return sum(variant.excluded_users for variant in self.variants)

    @property
    def is_mismatch(self) -> bool:
        """Whether a phase has a sample-ratio mismatch. Its cause may bias every metric, so no verdict is given."""
        return any(phase.ratio.is_mismatch for phase in self.phases)
