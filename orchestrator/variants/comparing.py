"""Summaries of the memory as input of a comparison, and its outcome as messages and words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from e3rg.memory.v1 import turns_pb2 as memory
from e3rg.orchestrator.v1 import variants_pb2 as pb
from orchestrator.comparison.results import Comparison, Difference, MetricMean, PhaseResult, VariantResult
from orchestrator.comparison.sequences import Estimate
from orchestrator.comparison.summaries import Experiment, Phase, Tally, UserSummary
from orchestrator.report import FIRST_SOUND
from services.common.variants import table

RATING = "rating"


@dataclass(frozen=True)
class Users:
    """Users of a comparison.

    Attributes:
        summaries: One for each user and variant.
        left_out: Users who saw a variant that no phase gives users to, or were assigned in an unknown phase.
    """

    summaries: tuple[UserSummary, ...]
    left_out: int


def question(trial: table.Experiment, stage: table.Stage) -> Experiment:
    """Return the question of an experiment.

    Args:
        trial: The experiment.
        stage: Its stage now, whose weights count where the experiment names no phases.
    """
    phases = trial.phases or ({name: each.weight for name, each in stage.variants.items() if each.weight},)
    return Experiment(
        trial.control,
        trial.primary,
        tuple(_phase(str(number), trial.control, weights) for number, weights in enumerate(phases, 1)),
        trial.users_min,
    )


def observed(found: Sequence[memory.UserSummary], control: str) -> Experiment:
    """Return the question that turns without an experiment leave: their own split is all that is known."""
    counts: dict[str, float] = {}
    for each in found:
        if each.variants_seen == 1:
            counts[each.variant] = counts.get(each.variant, 0) + 1
    known = dict.fromkeys((each.variant for each in found), 0.0) | counts
    return Experiment(control, RATING, (_phase("1", control, known if counts else known | {control: 1}),))


def users_of(found: Sequence[memory.UserSummary], experiment: Experiment) -> Users:
    """Return the users of summaries, in which those of one user stand together in the order of exposure."""
    summaries: list[UserSummary] = []
    left_out = 0
    for _, group in groupby(found, lambda each: each.user):
        of_user = list(group)
        seen = tuple(each.variant for each in of_user)
        # Turns without an experiment have phase 0, those of one count from 1.
        index = max(0, of_user[0].phase - 1)
        if set(seen) <= set(experiment.variants) and index < len(experiment.phases):
            summaries += (_user(each, seen, index) for each in of_user)
        else:
            left_out += 1
    return Users(tuple(summaries), left_out)


def outcome(compared: Comparison) -> str:
    """Return the primary metric of each variant in words."""
    excluded = f"; {compared.excluded_users} saw several variants" if compared.excluded_users else ""
    return "; ".join(f"{each.metric} of {each.variant}: {_outcome(each)}" for each in compared.primary) + excluded


def response(compared: Comparison, is_decided: bool) -> pb.CompareVariantsResponse:
    """Return a comparison as a message.

    Args:
        compared: The comparison.
        is_decided: Whether it is an experiment's, with phases and verdicts.
    """
    return pb.CompareVariantsResponse(
        control=compared.experiment.control,
        variants=[_variant(each) for each in compared.variants],
        differences=[_difference(each, is_decided) for each in (*compared.primary, *compared.others)],
        phases=[_compared_phase(*each) for each in enumerate(compared.phases, 1)] if is_decided else (),
        level=compared.level,
    )


def experiment(trial: table.Experiment) -> pb.Experiment:
    """Return an experiment of the table as a message."""
    return pb.Experiment(**trial.model_dump(exclude={"salt", "phases"}))


def _phase(name: str, control: str, weights: Mapping[str, float]) -> Phase:
    return Phase(name, {control: 0.0, **weights})


def _user(found: memory.UserSummary, seen: tuple[str, ...], phase: int) -> UserSummary:
    return UserSummary(
        user=found.user,
        variant=found.variant,
        phase=phase,
        variants_seen=seen,
        turns=found.turns,
        conversations=found.conversations,
        degraded_turns=found.degraded_turns,
        rating=_tally(found.rating),
        first_sound_s=_tally(found.timings_s[FIRST_SOUND]) if FIRST_SOUND in found.timings_s else Tally(),
        scores={name: _tally(total) for name, total in found.scores.items()},
    )


def _tally(total: memory.Total) -> Tally:
    return Tally(total.sum, total.count)


def _outcome(found: Difference) -> str:
    size = f", {found.users} and {found.control_users} users"
    if not found.estimate or not math.isfinite(found.estimate.lower):
        return f"{found.text}{size}"
    each = found.estimate
    return f"{found.text}, {each.value:+.3g} ({each.lower:+.3g} to {each.upper:+.3g}){size}"


def _estimate(found: Estimate | None) -> pb.Estimate | None:
    if found is None:
        return None
    lower, upper = (end if math.isfinite(end) else None for end in (found.lower, found.upper))
    return pb.Estimate(value=found.value, lower=lower, upper=upper)


def _mean(name: str, found: MetricMean) -> pb.MetricMean:
    return pb.MetricMean(metric=name, users=found.users, estimate=_estimate(found.estimate))


def _variant(found: VariantResult) -> pb.ComparedVariant:
    return pb.ComparedVariant(
        name=found.name,
        turns=found.turns,
        conversations=found.conversations,
        users=found.users,
        excluded_users=found.excluded_users,
        means=[_mean(*each) for each in found.means.items()],
    )


def _difference(found: Difference, is_decided: bool) -> pb.Difference:
    return pb.Difference(
        variant=found.variant,
        metric=found.metric,
        primary=found.is_primary,
        users=found.users,
        control_users=found.control_users,
        users_needed=found.users_needed,
        estimate=_estimate(found.estimate),
        verdict=found.verdict if is_decided else "",
    )


def _compared_phase(number: int, found: PhaseResult) -> pb.ComparedPhase:
    return pb.ComparedPhase(
        number=number,
        variants=_phase_variants(found),
        p_value=found.ratio.p_value,
        mismatch=found.ratio.is_mismatch,
    )


def _phase_variants(found: PhaseResult) -> Iterator[pb.PhaseVariant]:
    for name, users in found.ratio.users.items():
        share = found.ratio.expected.get(name, 0.0)
        # The response names the metric once.
        yield pb.PhaseVariant(name=name, share=share, users=users, mean=_mean("", found.means[name]))
