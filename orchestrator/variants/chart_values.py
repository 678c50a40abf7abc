"""Values of the chart that make a table of variants, as YAML to commit."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from services.common.variants.table import Table


def written(table: Table) -> str:
    """Return the values for the stages and guardrails of a table; a ramp has none: each of its steps is a commit."""
    content = table.model_dump(mode="json", include={"stages", "guardrails"}, exclude_defaults=True)
    # The control is named even where it has the default's name: a reader shall see it.
    stages = {
        name: {"control": stage.control} | content["stages"][name] for name, stage in sorted(table.stages.items())
    }
    values = {"variants": {"owner": "helm", **content, "stages": stages}}
    return "\n".join(_lines(values)) + "\n"


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
