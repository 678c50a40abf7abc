"""Rollbacks that lie over a table which the chart's values own, until someone acknowledges them."""

import hashlib

from pydantic import ValidationError

from services.common.variants.table import SHARE, Frozen, InvalidTable, Name, Stage, State, Table, Text, problems


class RolledBack(Frozen):
    """Rollback of one variant by a guardrail."""

    stage: Name
    variant: Name
    control: Name
    """Variant that takes its traffic, should it become the control."""
    reason: Text
    at_s: float
    """Unix time."""
    version: int
    """Version of the table that it was laid over first."""


class Overlay(Frozen):
    """All rollbacks that nobody acknowledged."""

    rolled_back: tuple[RolledBack, ...] = ()


def rolled_back(stage: Stage, variant: str, control: str) -> Stage:
    """Return a stage with a variant off.

    Its weight goes to the control. If it is the control itself, another one becomes that, with all the weight.

    Args:
        stage: The stage.
        variant: The variant that is taken back.
        control: The control from now on.
    """
    off = stage.variants[variant].model_copy(update={"state": State.OFF, "weight": 0.0})
    variants = stage.variants | {variant: off}
    if variant == stage.control:
        variants = {name: each.model_copy(update={"weight": 0.0}) for name, each in variants.items()}
    rest = SHARE - sum(each.weight for name, each in variants.items() if name != control)
    serving = {"state": State.SERVING, "weight": round(rest, 6)}
    return Stage(control=control, variants=variants | {control: variants[control].model_copy(update=serving)})


def laid_over(table: Table, overlay: Overlay) -> Table:
    """Return a table of the chart's values with its rollbacks, under a version of its own; else the same table."""
    if table.owner != "helm":
        return table
    stages = dict(table.stages)
    for each in overlay.rolled_back:
        stage = stages.get(each.stage)
        if not stage or each.variant not in stage.variants or stage.variants[each.variant].state is State.OFF:
            continue
        control = each.control if each.variant == stage.control else stage.control
        if control in stage.variants:
            stages[each.stage] = rolled_back(stage, each.variant, control)
    if stages == table.stages:
        return table
    # Gateways and panels derive the same version from the same two texts.
    digest = hashlib.sha256(f"{table.version}\n{dump_overlay(overlay)}".encode()).hexdigest()
    return table.model_copy(update={"stages": stages, "version": int(digest[:12], 16)})


def parse_overlay(text: str) -> Overlay:
    """Return the overlay in a JSON text; an empty text is none.

    Raises:
        InvalidTable: It is no overlay.
    """
    if not text.strip():
        return Overlay()
    try:
        return Overlay.model_validate_json(text)
    except ValidationError as error:
        raise InvalidTable(f"overlay: {problems(error)}") from None


def dump_overlay(overlay: Overlay) -> str:
    """Return the overlay as JSON; an empty text for none."""
    return overlay.model_dump_json(indent=1) + "\n" if overlay.rolled_back else ""
