"""Ramps: weights of a variant that rise step by step."""

import math
from collections.abc import Sequence

from orchestrator.variants.edits import TOLERANCE, check_percent, having, set_weights
from services.common.errors import InvalidRequest
from services.common.variants.table import SHARE, Ramp, Table

STEPS_MAX = 20
TURNS_MIN = 30
"""Turns of the variant that a step waits for, unless the ramp says otherwise."""


def start(
    table: Table,
    stage: str,
    variant: str,
    weights: Sequence[float],
    every_s: float,
    at_s: float,
    turns_min: int = TURNS_MIN,
) -> Table:
    """Set the first weight of a ramp, and note the others.

    Args:
        table: The table.
        stage: The stage.
        variant: The variant.
        weights: The steps, rising.
        every_s: Seconds that each lasts at least.
        at_s: Unix time.
        turns_min: Turns of the variant that each step waits for.

    Raises:
        InvalidRequest: The ramp is wrong, or another stage's runs.
    """
    found = having(table, stage, variant, "ramp.variant")
    if variant == found.control:
        raise InvalidRequest("ramp.variant", f"{variant} is the control of {stage}; name another variant")
    if table.ramp and table.ramp.stage != stage:
        raise InvalidRequest("ramp.stage", f"a ramp of {table.ramp.stage} runs; stop it first, or wait for its end")
    if not 0 < every_s < math.inf:
        raise InvalidRequest("ramp.every_s", f"{every_s:g}; use more than 0 seconds")
    fixed = sum(each.weight for name, each in found.variants.items() if name not in (variant, found.control))
    _check(weights, SHARE - fixed)
    return _at(table, stage, variant, weights, every_s, at_s, turns_min)


def stop(table: Table, stage: str) -> Table:
    """Stop the ramp of a stage; the weights stay as they are."""
    if not table.ramp or table.ramp.stage != stage:
        return table
    return table.model_copy(update={"ramp": None})


def step(table: Table, at_s: float) -> Table:
    """Set the next weight of the ramp that runs."""
    ramp = table.ramp
    if not ramp:
        return table
    return _at(table, ramp.stage, ramp.variant, ramp.weights, ramp.every_s, at_s, ramp.turns_min)


def _at(
    table: Table, stage: str, variant: str, weights: Sequence[float], every_s: float, at_s: float, turns_min: int
) -> Table:
    """Return the table with the first weight set, and a ramp of the others."""
    after = set_weights(table, stage, {variant: weights[0]})
    ramp = None
    if len(weights) > 1:
        ramp = Ramp(
            stage=stage,
            variant=variant,
            weights=tuple(weights[1:]),
            every_s=every_s,
            turns_min=turns_min,
            next_at_s=at_s + every_s,
        )
    return after.model_copy(update={"ramp": ramp})


def _check(weights: Sequence[float], room: float) -> None:
    if len(weights) > STEPS_MAX:
        raise InvalidRequest("ramp.weights", f"{len(weights)} steps; use at most {STEPS_MAX}")
    for weight in weights:
        check_percent("ramp.weights", weight)
    if not weights or any(later <= earlier for earlier, later in zip((0.0, *weights), weights, strict=False)):
        shown = ", ".join(f"{weight:g}" for weight in weights)
        raise InvalidRequest("ramp.weights", f"'{shown}'; use percents that rise, such as 1, 10, 50, 100")
    if weights[-1] > room + TOLERANCE:
        problem = f"it ends at {weights[-1]:g}, and the other variants leave {room:g}"
        raise InvalidRequest("ramp.weights", f"{problem}; end there, or lower theirs")
