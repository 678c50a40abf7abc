"""Values of the chart that make a table of variants, as YAML to commit."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from services.common.variants.table import Guardrail, Stage, State, Table


def written(before: Table, after: Table) -> str:
    """Return the values for the stages that are different; a ramp has none: each of its steps is a commit."""
    names = {*before.stages, *after.stages, *before.guardrails, *after.guardrails}
    different = sorted(
        name
        for name in names
        if before.stage(name) != after.stage(name) or before.guardrails.get(name) != after.guardrails.get(name)
    )
    stages = {name: _stage(after.stage(name)) for name in different}
    limits = {name: _limits(each) for name, each in after.guardrails.items() if name in different}
    values: dict[str, Any] = {"stages": stages, "guardrails": limits}
    if before.experiment != after.experiment:
        trial = after.experiment
        values["experiment"] = trial.model_dump(mode="json", exclude_defaults=True) if trial else {}
    written = {name: each for name, each in values.items() if each or name == "experiment"}
    return "\n".join(_lines({"variants": written})) + "\n"


def _stage(stage: Stage) -> dict[str, Any]:
    """Return a stage as the chart has it: addresses come from the components."""
    found = stage.variants.items()
    parts = {
        "weights": {name: each.weight for name, each in found if each.weight},
        "shadow": {name: each.shadow for name, each in found if each.shadow},
        "states": {name: str(each.state) for name, each in found if each.state is not State.SERVING},
    }
    # The control is named even where it has the default's name: a reader shall see it.
    return {"control": stage.control} | {name: part for name, part in parts.items() if part}


def _limits(guardrail: Guardrail) -> dict[str, Any]:
    """Return the limits that are not the default ones, in the chart's spelling."""
    return {
        re.sub("_([a-z])", lambda found: found[1].upper(), name): value
        for name, value in guardrail.model_dump(mode="json", exclude_defaults=True).items()
    }


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        else:
            # JSON of a scalar or of an empty map is YAML too.
            yield f"{indent}{key}: {json.dumps(int(value) if _is_whole(value) else value)}"


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()
