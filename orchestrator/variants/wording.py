"""Words for the difference between two tables of variants."""

from collections.abc import Iterator

from services.common.variants.table import Guardrail, Stage, Table, Variant

NOTHING = "nothing is different"


def summary(before: Table, after: Table) -> str:
    """Return the difference between two tables in a line."""
    parts = [
        f"{name}: {'; '.join(parts)}"
        for name in sorted({*before.stages, *after.stages, *before.guardrails, *after.guardrails})
        if (parts := [*_stage(before.stage(name), after.stage(name)), *_guardrail(before, after, name)])
    ]
    return "; ".join([*parts, *_ramp(before, after), *_experiment(before, after)]) or NOTHING


def _stage(before: Stage, after: Stage) -> Iterator[str]:
    if before.control != after.control:
        yield f"control {before.control} -> {after.control}"
    for name in sorted({*before.variants, *after.variants}):
        old, new = before.variants.get(name), after.variants.get(name)
        if not new:
            yield f"{name} removed"
        elif not old:
            yield f"{name} added at {new.address}, {new.weight:g} %"
        elif old != new:
            yield f"{name} {', '.join(_variant(old, new))}"


def _variant(old: Variant, new: Variant) -> Iterator[str]:
    if old.address != new.address:
        yield f"at {old.address or 'the address of the settings'} -> {new.address}"
    if old.weight != new.weight:
        yield f"{old.weight:g} -> {new.weight:g} %"
    if old.state != new.state:
        yield f"{old.state} -> {new.state}"
    if old.shadow != new.shadow:
        yield f"shadow {old.shadow:g} -> {new.shadow:g} %"


def _guardrail(before: Table, after: Table, stage: str) -> Iterator[str]:
    old, new = before.guardrails.get(stage), after.guardrails.get(stage)
    if new and new != old:
        yield f"guardrail set: {limits(new)}"
    elif old and not new:
        yield "guardrail removed"


def limits(guardrail: Guardrail) -> str:
    """Return the limits of a guardrail in words."""
    return (
        f"failed turns +{guardrail.failed_share_max:g}, degraded turns +{guardrail.degraded_share_max:g},"
        f" first chunk x{guardrail.first_chunk_ratio_max:g}"
        f" over {guardrail.window_s:g} s and {guardrail.turns_min} turns"
    )


def _ramp(before: Table, after: Table) -> Iterator[str]:
    old, new = before.ramp, after.ramp
    if new and new != old:
        steps = ", ".join(f"{weight:g}" for weight in new.weights)
        yield f"ramp of {new.variant} goes on to {steps} %, each after {new.every_s:g} s"
    elif old and not new:
        variant = after.stage(old.stage).variants.get(old.variant)
        is_over = variant and old.weights == (variant.weight,)
        yield f"ramp of {old.variant} {'has ended' if is_over else 'stopped'}"


def _experiment(before: Table, after: Table) -> Iterator[str]:
    old, new = before.experiment, after.experiment
    if new and (not old or new.id != old.id):
        yield f"experiment {new.id} of {new.stage} started: {new.primary} decides, with {new.users_min} users a variant"
    elif old and not new:
        result = after.ended[-1].result if after.ended else ""
        yield f"experiment {old.id} ended{f': {result}' if result else ''}"
