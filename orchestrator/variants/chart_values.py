"""Values of the chart that make a table of variants, as YAML to commit."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from services.common.variants.table import Table


def written(before: Table, after: Table) -> str:
    """Return the values for the stages that are different; a ramp has none: each of its steps is a commit."""
    names = {*before.stages, *after.stages, *before.guardrails, *after.guardrails}
    different = sorted(
        name
        for name in names
        if before.stage(name) != after.stage(name) or before.guardrails.get(name) != after.guardrails.get(name)
    )
    content = after.model_dump(mode="json", include={"stages", "guardrails"}, exclude_defaults=True)
    guardrails = {name: each for name, each in content.get("guardrails", {}).items() if name in different}
    # The control is named even where it has the default's name: a reader shall see it.
    stages = {name: {"control": after.stage(name).control} | content["stages"][name] for name in different}
    values = {"stages": stages, "guardrails": guardrails}
    if before.experiment != after.experiment:
        trial = after.experiment
        values["experiment"] = trial.model_dump(mode="json", exclude_defaults=True) if trial else {}
    written = {name: each for name, each in values.items() if each or name == "experiment"}
    return "\n".join(_lines({"variants": written})) + "\n"


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
