"""Changes of the table of variants: pure functions that return the changed table."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from orchestrator.variants import past
from orchestrator.variants.wording import summary
from services.common import addresses
from services.common.errors import InvalidRequest
from services.common.variants.overlay import rolled_back
from services.common.variants.table import (
    ALONE,
    HISTORY_MAX,
    NAME,
    SHARE,
    Change,
    Experiment,
    Guardrail,
    Stage,
    State,
    Table,
    Variant,
    problems,
)

SUMMARY_CHARS_MAX = 500
TOLERANCE = 1e-6
"""Of sums of weights, which are no exact numbers."""

Edit = Callable[[Table], Table]
"""A change of the table's content; raises InvalidRequest where it is wrong."""


@dataclass(frozen=True)
class Author:
    """Who changes the table.

    Attributes:
        by: Name.
        why: Reason.
        at_s: Unix time.
    """

    by: str
    why: str
    at_s: float


def made(table: Table, edit: Edit, author: Author) -> Table:
    """Return the table after a change, counted up and with its record; the same table if nothing is different.

    Raises:
        InvalidRequest: The change is wrong.
    """
    edited = edit(table)
    if edited == table:
        return table
    change = Change(
        version=table.version + 1,
        at_s=author.at_s,
        by=author.by,
        why=author.why,
        summary=summary(table, edited)[:SUMMARY_CHARS_MAX],
        stages=table.stages,
    )
    history = (*table.history, change)[-HISTORY_MAX:]
    record = {"version": change.version, "history": history, "experiment": _experiment(table, edited)}
    return edited.model_copy(update=record)


def put(table: Table, stage: str, variant: str, address: str) -> Table:
    """Add a variant with weight 0, or change its address."""
    if not re.fullmatch(NAME, variant):
        raise InvalidRequest("put.variant", f"{variant!r} is no name; use 1 to 40 of a-z, 0-9 and '-', first a letter")
    try:
        addresses.parse(address)
    except ValueError as error:
        raise InvalidRequest("put.address", str(error)) from None
    variants = table.stage(stage).variants
    changed = variants.get(variant, Variant()).model_copy(update={"address": address})
    return with_variants(table, stage, variants | {variant: changed})


def remove(table: Table, stage: str, variant: str) -> Table:
    """Take a variant that is off out of the table."""
    found = having(table, stage, variant, "remove.variant")
    if variant == found.control:
        raise InvalidRequest("remove.variant", f"{variant} is the control of {stage}; promote another variant first")
    if (state := found.variants[variant].state) is not State.OFF:
        remedy = "set its state to off first, and its conversations move at their next turn"
        raise InvalidRequest("remove.variant", f"{variant} is {state}; {remedy}")
    return with_variants(table, stage, {name: each for name, each in found.variants.items() if name != variant})


def set_weights(table: Table, stage: str, weights: Mapping[str, float]) -> Table:
    """Give variants weights; the control gets the rest of 100, unless it is named."""
    if not weights:
        raise InvalidRequest("set.weights", "empty; name a variant and its percent")
    for name, weight in weights.items():
        having(table, stage, name, "set.weights")
        check_percent(f"set.weights.{name}", weight)
    found = table.stage(stage)
    variants = {
        name: _weighted(each, weights[name]) if name in weights else each for name, each in found.variants.items()
    }
    total = sum(each.weight for name, each in variants.items() if name in weights or name != found.control)
    if found.control not in weights:
        if total > SHARE + TOLERANCE:
            problem = f"all but {found.control}, the control, sum to {total:g}; make them {SHARE} at most"
            raise InvalidRequest("set.weights", problem)
        variants[found.control] = _weighted(variants[found.control], max(0.0, round(SHARE - total, 6)))
    elif abs(total - SHARE) > TOLERANCE:
        remedy = f"make them {SHARE}, or leave {found.control}, the control, out: it gets the rest"
        raise InvalidRequest("set.weights", f"the weights sum to {total:g}; {remedy}")
    return with_variants(table, stage, variants)


def set_state(table: Table, stage: str, variant: str, state: str) -> Table:
    """Set the state of a variant; the weight of one that does not serve goes to the control."""
    if state not in tuple(State):
        raise InvalidRequest("state.state", f"{state!r}; use one of: {', '.join(State)}")
    found = having(table, stage, variant, "state.variant")
    if variant == found.control and state != State.SERVING:
        raise InvalidRequest("state.variant", f"{variant} is the control of {stage}; promote another variant first")
    weight = found.variants[variant].weight if state == State.SERVING else 0.0
    changed = found.variants[variant].model_copy(update={"state": State(state), "weight": weight})
    freed = found.variants[variant].weight - weight
    control = found.variants[found.control]
    return with_variants(
        table,
        stage,
        found.variants | {found.control: _weighted(control, round(control.weight + freed, 6)), variant: changed},
    )


def promote(table: Table, stage: str, variant: str) -> Table:
    """Make a variant the control with all the weight; the one before drains."""
    found = having(table, stage, variant, "promote.variant")
    variants = {name: _weighted(each, 0) for name, each in found.variants.items()}
    variants[found.control] = variants[found.control].model_copy(update={"state": State.DRAINING})
    variants[variant] = _weighted(variants[variant], SHARE)
    return with_variants(table, stage, variants, variant)


def rollback(table: Table, stage: str, variant: str = "") -> Table:
    """Set a variant off; its weight goes to the control, or to the control before it when it is that itself."""
    variant = variant or past.raised_last(table, stage)
    found = having(table, stage, variant, "rollback.variant")
    if found.variants[variant].state is State.OFF:
        return table
    control = past.control_before(table, stage) if variant == found.control else found.control
    after = rolled_back(found, variant, control)
    return with_variants(table, stage, after.variants, after.control)


def set_shadow(table: Table, stage: str, variant: str, share: float) -> Table:
    """Set the percent of turns whose work a variant gets a copy of; one that is off serves again, with weight 0."""
    check_percent("shadow.share", share)
    found = having(table, stage, variant, "shadow.variant")
    update: dict[str, object] = {"shadow": share}
    if share and found.variants[variant].state is State.OFF:
        update["state"] = State.SERVING
    return with_variants(table, stage, found.variants | {variant: found.variants[variant].model_copy(update=update)})


def set_guardrail(table: Table, stage: str, limits: Mapping[str, float] | None) -> Table:
    """Set the limits of a stage's variants, those that are left out to their defaults; None for no guardrail."""
    others = {name: each for name, each in table.guardrails.items() if name != stage}
    if limits is None:
        return table.model_copy(update={"guardrails": others})
    try:
        guardrail = Guardrail.model_validate(dict(limits))
    except ValidationError as error:
        raise InvalidRequest("guardrail", problems(error)) from None
    stages = {stage: table.stage(stage)} | table.stages
    return table.model_copy(update={"stages": stages, "guardrails": others | {stage: guardrail}})


def having(table: Table, stage: str, variant: str, field: str) -> Stage:
    """Return a stage.

    Raises:
        InvalidRequest: It has no such variant.
    """
    found = table.stage(stage)
    if variant not in found.variants:
        known = ", ".join(sorted(found.variants))
        raise InvalidRequest(field, f"{stage} has no variant {variant!r}; use one of: {known}; or put it there first")
    return found


def check_percent(field: str, value: float) -> None:
    """Check a percent.

    Raises:
        InvalidRequest: It is none.
    """
    if not 0 <= value <= SHARE:
        raise InvalidRequest(field, f"{value:g}; use 0 to {SHARE} percent")


def with_variants(table: Table, stage: str, variants: Mapping[str, Variant], control: str = "") -> Table:
    """Return a table with other variants of a stage; a ramp of it stops unless weights and variant are as they were.

    Raises:
        InvalidRequest: There are too many.
    """
    before = table.stage(stage)
    try:
        after = Stage(control=control or before.control, variants=dict(variants))
    except ValidationError as error:
        raise InvalidRequest(stage, problems(error)) from None
    ramp = table.ramp
    if ramp and ramp.stage == stage:
        serves = ramp.variant in after.variants and after.variants[ramp.variant].state is State.SERVING
        if not serves or after.control != before.control or weights_of(after) != weights_of(before):
            ramp = None
    stages = table.stages if after == before else table.stages | {stage: after}
    return table.model_copy(update={"stages": stages, "ramp": ramp})


def _weighted(variant: Variant, weight: float) -> Variant:
    """Return a variant with a weight; with more than 0 it serves."""
    state = State.SERVING if weight else variant.state
    return variant.model_copy(update={"weight": float(weight), "state": state})


def weights_of(stage: Stage) -> dict[str, float]:
    """Return the weights of the variants that get new conversations."""
    return {name: variant.weight for name, variant in stage.variants.items() if variant.weight}


def _experiment(before: Table, after: Table) -> Experiment | None:
    """Return the experiment after a change: in its next phase if the weights of its stage are other ones."""
    experiment = after.experiment
    if not experiment or not before.experiment or experiment.id != before.experiment.id:
        return experiment
    old, new = (weights_of(table.stages.get(experiment.stage, ALONE)) for table in (before, after))
    if old == new:
        return experiment
    phases = (*(experiment.phases or (old,)), new)
    return experiment.model_copy(update={"phase": experiment.phase + 1, "phases": phases})
