"""Lines for a person about an experiment and its comparison; they fit 100 columns."""

from collections.abc import Iterator

from client.terminal import count, moment
from e3rg.orchestrator.v1 import variants_pb2 as pb

NAME_CHARS_MAX = 22
"""Of the name of a variant; longer ones are cut."""
_NAMES = {"first_sound_s": "seconds to the first sound", "degraded_share": "share of degraded turns"}
"""Metrics that are told in words."""


def experiment_lines(trial: pb.Experiment) -> Iterator[str]:
    """Yield an experiment: what is expected, what decides, and when it ran."""
    ended = f", ended {moment(trial.ended_at_s)}" if trial.ended_at_s else ""
    yield f"experiment {trial.id} of {trial.stage}, started {moment(trial.started_at_s)}{ended}"
    if trial.hypothesis:
        yield f"  hypothesis {trial.hypothesis}"
    yield f"  decides    {trial.primary}, against {trial.control}, with {trial.users_min} users a variant or more"
    yield f"  phase      {trial.phase}"
    if trial.result:
        yield f"  result     {trial.result}"


def comparison_lines(told: pb.CompareVariantsResponse) -> Iterator[str]:
    """Yield a comparison: figures of the variants, differences to the control, phases, and what they mean."""
    if told.HasField("experiment"):
        yield from experiment_lines(told.experiment)
    else:
        yield f"{told.stage}: all turns, whoever was routed where; only an experiment decides"
    yield ""
    yield f"  {'variant':24}{'turns':>9}{'conversations':>16}{'users':>9}{'saw several':>14}"
    for each in told.variants:
        name = _name(each.name, told.control)
        yield f"  {name:24}{each.turns:9}{each.conversations:16}{each.users:9}{each.excluded_users:14}"
    yield ""
    yield "failed turns, of those of all users that the gateways have counted in the last day"
    for each in told.variants:
        yield f"  {_name(each.name, told.control):24}{each.failed_turns:9} of {each.counted_turns}"
    for index in range(len(told.variants[0].means)):
        yield ""
        yield from _metric(told, index)
    for phase in told.phases:
        yield ""
        yield from _phase(phase, told.control)
    yield ""
    yield from _notes(told)


def _metric(told: pb.CompareVariantsResponse, index: int) -> Iterator[str]:
    """Yield a metric: the mean of each variant, and its difference to the control."""
    metric = told.variants[0].means[index].metric
    differences = {each.variant: each for each in told.differences if each.metric == metric}
    decides = any(each.primary and each.verdict for each in differences.values())
    yield f"{_NAMES.get(metric, metric)}{', which decides' if decides else ''}"
    yield f"  {'variant':24}{'users':>7}{'mean':>10}   {'interval':18}{'difference':>11}   interval"
    for variant in told.variants:
        mean, name = variant.means[index], _name(variant.name, told.control)
        value, interval = _estimate(mean.estimate) if mean.HasField("estimate") else ("none", "")
        line = f"  {name:24}{mean.users:7}{value:>10}   {interval:18}"
        found = differences.get(variant.name, pb.Difference())
        if found.HasField("estimate"):
            value, interval = _estimate(found.estimate, "+")
            line += f"{value:>11}   {interval}"
        yield line
    for found in differences.values():
        if found.verdict:
            yield f"  {_cut(found.variant)}: {_verdict(found)}"


def _phase(phase: pb.ComparedPhase, control: str) -> Iterator[str]:
    fits = "MISMATCH, not as the weights say" if phase.mismatch else "as the weights say"
    yield f"phase {phase.number}: users {fits} (p = {phase.p_value:.2g})"
    for variant in phase.variants:
        yield f"  {_name(variant.name, control):24}{variant.users:7} users, {variant.share * 100:.3g} % expected"


def _notes(told: pb.CompareVariantsResponse) -> Iterator[str]:
    yield "* is the control. A user's value is the mean of their turns; a mean is of users."
    chance = f"{told.level * 100:.3g} %"
    yield f"Intervals hold at every look at once (chance of a miss: {chance}): looking early is allowed."
    yield "Failed turns are not kept, and so in no mean."
    if any(phase.mismatch for phase in told.phases):
        yield "A mismatch means that users were lost, or routed past the weights: find out why, and start anew."
    if told.users_left_out:
        yield f"Left out: {count(told.users_left_out, 'user')} who saw a variant that no phase gives users to."


def _name(variant: str, control: str) -> str:
    return f"{_cut(variant)} *" if variant == control else _cut(variant)


def _cut(name: str) -> str:
    return name if len(name) <= NAME_CHARS_MAX else f"{name[: NAME_CHARS_MAX - 1]}…"


def _estimate(found: pb.Estimate, sign: str = "") -> tuple[str, str]:
    """Return a value and its interval."""
    is_known = found.HasField("lower") and found.HasField("upper")
    interval = f"{found.lower:{sign}.3g} to {found.upper:{sign}.3g}" if is_known else "not known yet"
    return f"{found.value:{sign}.3g}", interval


def _verdict(found: pb.Difference) -> str:
    if found.verdict == "too few users":
        counted = f"{found.users} and {found.control_users} in phases that have users of both"
        return f"too few users: {counted}, {found.users_needed} of each needed"
    return found.verdict if found.primary or found.verdict not in ("better", "worse") else f"{found.verdict}, beside it"
