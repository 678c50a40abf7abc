"""Lines for a person about variants."""

from collections.abc import Iterator

from client.terminal import count, moment
from e3rg.orchestrator.v1 import variants_pb2 as pb

_OWNERS = {"cli": "changed by `e3rg variants`", "helm": "owned by the chart's values"}
_UNITS_S = (("d", 86_400), ("h", 3_600), ("m", 60))


def table_lines(table: pb.GetVariantsResponse) -> Iterator[str]:
    """Yield the table: each stage with its variants and what is set for it."""
    yield f"version {table.version}, {_OWNERS.get(table.owner, table.owner)}"
    for stage in table.stages:
        yield stage.name
        for variant in stage.variants:
            yield f"  {_variant(variant, stage.control)}"
        if table.ramp.stage == stage.name:
            yield f"  ramp       {_ramp(table.ramp)}"
        if table.experiment.stage == stage.name:
            yield f"  experiment {_experiment(table.experiment)}"
        yield from (f"  guardrail  {_limits(each)}" for each in table.guardrails if each.stage == stage.name)
        yield from (f"  rollback   {_rollback(each)}" for each in table.rollbacks if each.stage == stage.name)


def change_lines(change: pb.VariantChange) -> Iterator[str]:
    """Yield a change that was made."""
    yield f"version {change.version}, {moment(change.at_s)}, by {change.by or 'somebody'}"
    yield f"  {change.summary}"
    if change.why:
        yield f"  why: {change.why}"


def length(seconds: float) -> str:
    """A length of time: "1h", "90s"."""
    for unit, unit_s in _UNITS_S:
        if seconds % unit_s == 0:
            return f"{seconds / unit_s:g}{unit}"
    return f"{seconds:g}s"


def _variant(variant: pb.Variant, control: str) -> str:
    replicas = f"{variant.replicas_ready} of {count(variant.replicas, 'replica')}" if variant.replicas else ""
    more = (
        "control" if variant.name == control else "",
        f"shadow {variant.shadow:g} %" if variant.shadow else "",
        variant.address,
        replicas,
        ", ".join(variant.models),
    )
    return f"{variant.name:14} {variant.weight:6g} %  {variant.state:8}  {'; '.join(filter(None, more))}"


def _ramp(ramp: pb.Ramp) -> str:
    steps = ", ".join(f"{weight:g}" for weight in ramp.weights)
    return (
        f"{ramp.variant} goes on to {steps} %, each after {length(ramp.every_s)} and {count(ramp.turns_min, 'turn')};"
        f" next at {moment(ramp.next_at_s)} or later"
    )


def _experiment(trial: pb.Experiment) -> str:
    return f"{trial.id} since {moment(trial.started_at_s)}, in phase {trial.phase}; {trial.primary} decides"


def _limits(guardrail: pb.SetGuardrail) -> str:
    return (
        f"against the control, over {length(guardrail.window_s)} and {count(guardrail.turns_min, 'turn')} or more:"
        f" failed +{guardrail.failed_share_max * 100:g} %, degraded +{guardrail.degraded_share_max * 100:g} %,"
        f" 95th percentile of the first chunk x{guardrail.first_chunk_ratio_max:g}"
    )


def _rollback(rollback: pb.GuardrailRollback) -> str:
    remedy = f"`e3rg variants acknowledge {rollback.stage}` ends this"
    return f"{rollback.variant} is off since {moment(rollback.at_s)}: {rollback.reason}; {remedy}"
