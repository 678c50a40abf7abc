"""Input of a comparison: the experiment, and one summary per user and variant."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

MINIMUM_USERS_LEAST = 20
"""Fewer users say too little of a variance, even of variants that are the same."""
MINIMUM_USERS = 100
"""Users per variant before a verdict, unless the experiment says otherwise.

From here on false verdicts stay below 5 % even for a variant with a far longer tail than the control and the same mean;
at 50 users they reach 8 %, at 20 users 14 % (benchmarks/comparison.py)."""


@dataclass(frozen=True)
class Tally:
    """Sum and count of one figure over the turns that have it."""

    total: float = 0.0
    count: int = 0

    @property
    def mean(self) -> float | None:
        """The mean, or None without a turn."""
        return self.total / self.count if self.count else None


@dataclass(frozen=True)
class UserSummary:
    """Turns of one user with one variant.

    Attributes:
        user: Key of the user.
        variant: Variant that served these turns.
        phase: Index of the experiment's phase in which the user was first exposed.
        variants_seen: All variants that served this user, in the order of exposure. More than one excludes the user.
        turns: Turns that were kept; failed ones are not.
        conversations: Conversations that these turns belong to.
        degraded_turns: Turns in which a stage was replaced or left out.
        rating: Ratings that the user gave.
        first_sound_s: Seconds until the first sound.
        scores: Automatic scores by name. In each, higher is better.
    """

    user: str
    variant: str
    phase: int
    variants_seen: tuple[str, ...]
    turns: int
    conversations: int
    degraded_turns: int = 0
    rating: Tally = Tally()
    first_sound_s: Tally = Tally()
    scores: Mapping[str, Tally] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """One value per user: the mean over the user's turns.

    Users are the unit of assignment, so they are the unit of analysis, and each weighs the same. The alternative, the
    ratio of all turns' sum to their count with a variance by the delta method (Deng, Knoblich & Lu 2018, "Applying the
    Delta Method in Metric Analytics"), lets the few users who talk most decide, and its value drifts as they return.

    Attributes:
        name: As the experiment names it.
        is_higher_better: Direction of improvement.
        read: Returns the user's value, or None if no turn has one.
    """

    name: str
    is_higher_better: bool
    read: Callable[[UserSummary], float | None]


@dataclass(frozen=True)
class Phase:
    """Stretch of an experiment with constant weights.

    Attributes:
        name: Shown in the phase table, such as the version of the variants table.
        weights: Weight of each variant, in any unit; variants without one get no users.

    Raises:
        ValueError: A weight is negative, or all are 0.
    """

    name: str
    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if min(self.weights.values(), default=0) < 0 or not any(self.weights.values()):
            raise ValueError(f"weights cannot be {dict(self.weights)}")


@dataclass(frozen=True)
class Experiment:
    """Question that a comparison answers.

    Attributes:
        control: Variant that the others are compared against.
        primary: Name of the metric that alone decides.
        phases: In the order of time.
        minimum_users: Users with the metric that each of the two variants needs before a verdict.

    Raises:
        ValueError: `minimum_users` is below `MINIMUM_USERS_LEAST`, there is no phase, or no phase knows the control.
    """

    control: str
    primary: str
    phases: tuple[Phase, ...]
    minimum_users: int = MINIMUM_USERS

    def __post_init__(self) -> None:
        if self.minimum_users < MINIMUM_USERS_LEAST:
            raise ValueError(f"an experiment needs at least {MINIMUM_USERS_LEAST} users per variant")
        if self.control not in self.variants:
            raise ValueError(f"no phase names the control {self.control!r}")

    @property
    def variants(self) -> tuple[str, ...]:
        """All variants, the control first."""
        names = dict.fromkeys(name for phase in self.phases for name in phase.weights)
        return tuple(sorted(names, key=lambda name: name != self.control))


_TURN_METRICS = (
    Metric("rating", True, lambda user: user.rating.mean),
    Metric("first_sound_s", False, lambda user: user.first_sound_s.mean),
    Metric("degraded_share", False, lambda user: Tally(user.degraded_turns, user.turns).mean),
)
"""Metrics that need no score."""
TURN_METRICS = tuple(metric.name for metric in _TURN_METRICS)


def metrics(users: Iterable[UserSummary], primary: str) -> tuple[Metric, ...]:
    """Return what can be compared: the primary metric first, then those of turns, then the scores that are found."""
    known = {metric.name: metric for metric in _TURN_METRICS}
    scores = sorted({name for user in users for name in user.scores})
    return tuple(known.get(name) or _score(name) for name in dict.fromkeys([primary, *known, *scores]))


def _score(name: str) -> Metric:
    """Return the metric of an automatic score."""
    return Metric(name, True, lambda user: user.scores.get(name, Tally()).mean)
