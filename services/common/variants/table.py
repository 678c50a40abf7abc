"""Table of variants: which configuration of each stage serves which share of the conversations."""

import hashlib
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from services.common.addresses import Address
from services.common.metrics import VARIANT

SHARE = 100
"""Sum of the weights of a stage: they are percent."""
HISTORY_MAX = 50
ENDED_MAX = 20
"""Experiments that are remembered after their end."""
USERS_MIN_LEAST = 20
"""Fewer users say too little of a variance to compare anything."""
NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"

Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Text = Annotated[str, StringConstraints(max_length=500)]
Percent = Annotated[float, Field(ge=0, le=SHARE)]


class InvalidTable(ValueError):
    """A table cannot be used; the text names the field, the value and what would be right."""


class Frozen(BaseModel):
    """Closed and frozen model of the table's text."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class State(StrEnum):
    """Part of a variant in the traffic."""

    SERVING = "serving"
    DRAINING = "draining"
    """No new conversations; its own stay."""
    OFF = "off"
    """Its conversations move at their next turn."""


class Variant(Frozen):
    """One configuration of a stage."""

    address: Address | Literal[""] = ""
    """Address of its replicas; empty for the stage's in the settings."""
    weight: Percent = 0
    """Percent of the new conversations."""
    shadow: Percent = 0
    """Percent of the turns whose work it gets a copy of."""
    state: State = State.SERVING


class Stage(Frozen):
    """The variants of one stage."""

    control: Name = VARIANT
    """Variant that others are compared with, and that takes over for one without a ready replica."""
    variants: Annotated[dict[Name, Variant], Field(min_length=1, max_length=16)]

    @model_validator(mode="after")
    def _adds_up(self) -> "Stage":
        if self.control not in self.variants:
            raise ValueError(f"control is {self.control!r}; name one of {sorted(self.variants)}")
        if (state := self.variants[self.control].state) is not State.SERVING:
            raise ValueError(f"{self.control} is the control and {state}; let it serve, or name another control")
        for name, variant in self.variants.items():
            if variant.weight and variant.state is not State.SERVING:
                raise ValueError(f"{name} is {variant.state} with weight {variant.weight:g}; give it weight 0")
        total = sum(variant.weight for variant in self.variants.values())
        if abs(total - SHARE) > 1e-6:
            raise ValueError(f"the weights sum to {total:g}; make them {SHARE}")
        return self


class Guardrail(Frozen):
    """Limits that a variant may not pass against the control, or it is rolled back."""

    window_s: Annotated[float, Field(ge=10, le=86400)] = 300
    """Turns of the last so many seconds count."""
    turns_min: Annotated[int, Field(ge=1)] = 30
    """Turns of the variant before anything is judged."""
    failed_share_max: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Excess of its share of failed turns over the control's that is allowed."""
    degraded_share_max: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Excess of its share of degraded turns that is allowed."""
    first_chunk_ratio_max: Annotated[float, Field(ge=1)] = 1.5
    """Ratio to the control's that is allowed of the 95th percentile of the time to its first chunk."""


class Ramp(Frozen):
    """Weights that a variant goes through by itself."""

    stage: Name
    variant: Name
    weights: Annotated[tuple[Percent, ...], Field(min_length=1, max_length=20)]
    """The steps, the next one first."""
    every_s: Annotated[float, Field(gt=0)]
    turns_min: Annotated[int, Field(ge=0)] = 30
    """Turns of the variant that each step waits for."""
    next_at_s: float
    """Unix time of the next step, at the earliest."""


class Experiment(Frozen):
    """Comparison of the variants of one stage, with users as the unit."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
    stage: Name
    hypothesis: Text
    primary: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    """Name of the metric that decides."""
    users_min: Annotated[int, Field(ge=USERS_MIN_LEAST)]
    """Users of each variant before anything is decided."""
    control: Name = VARIANT
    """Variant that the others are compared with, whichever is the stage's control later."""
    salt: Annotated[str, StringConstraints(min_length=8, max_length=64)]
    phase: Annotated[int, Field(ge=1)] = 1
    """Each change of the stage's weights begins one."""
    started_at_s: float
    phases: tuple[dict[Name, Percent], ...] = ()
    """Weights of each phase, the first one first."""
    ended_at_s: float = 0.0
    """Unix time; 0 while it runs."""
    result: Text = ""
    """Outcome in words when it ended: it stays when users are erased."""


class Change(Frozen):
    """Change of the table."""

    version: int
    at_s: float
    """Unix time."""
    by: Text
    why: Text
    summary: Text
    """The change in words."""
    stages: dict[Name, Stage]
    """The stages as they were before."""


class Table(Frozen):
    """All stages with variants. A turn takes one table and keeps it."""

    version: Annotated[int, Field(ge=0, lt=1 << 53)] = 0
    """Counts up with each change; derived from the content where nobody counts."""
    owner: Literal["cli", "helm"] = "cli"
    """Owner, who alone may change it."""
    salt: Annotated[str, StringConstraints(max_length=64)] = "e3rg"
    stages: dict[Name, Stage] = {}
    guardrails: dict[Name, Guardrail] = {}
    """By stage; one without has none."""
    ramp: Ramp | None = None
    experiment: Experiment | None = None
    """The one that runs."""
    ended: Annotated[tuple[Experiment, ...], Field(max_length=ENDED_MAX)] = ()
    """Those that ran before, the newest last."""
    history: Annotated[tuple[Change, ...], Field(max_length=HISTORY_MAX)] = ()
    """The newest change last."""

    @model_validator(mode="after")
    def _refers(self) -> "Table":
        for field, stage, variant in self._references():
            if stage not in self.stages:
                raise ValueError(f"{field} names stage {stage!r}; use one of {sorted(self.stages)}")
            if variant and variant not in self.stages[stage].variants:
                raise ValueError(f"{field} names variant {variant!r}; use one of {sorted(self.stages[stage].variants)}")
        return self

    def _references(self) -> Iterator[tuple[str, str, str]]:
        yield from (("guardrails", stage, "") for stage in self.guardrails)
        if self.ramp:
            yield "ramp", self.ramp.stage, self.ramp.variant
        if self.experiment:
            yield "experiment", self.experiment.stage, ""

    def stage(self, name: str) -> Stage:
        """Return a stage; with the one variant of the settings where the table has none."""
        return self.stages.get(name) or ALONE


ALONE = Stage(variants={VARIANT: Variant(weight=SHARE)})
"""A stage whose traffic is not split."""


def parse(text: str) -> Table:
    """Return the table in a JSON text; an empty text is the empty table.

    Raises:
        InvalidTable: It is none.
    """
    if not text.strip():
        return Table()
    try:
        table = Table.model_validate_json(text)
    except ValidationError as error:
        raise InvalidTable(problems(error)) from None
    if table.version:
        return table
    # Values under version control are not counted up: their content tells one version from another.
    digest = hashlib.sha256(json.dumps(table.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()
    return table.model_copy(update={"version": int(digest[:12], 16)})


def dump(table: Table) -> str:
    """Return the table as JSON."""
    return table.model_dump_json(indent=1, exclude_defaults=True) + "\n"


def problems(error: ValidationError) -> str:
    """Return the fields that are wrong, with their values."""
    return "; ".join(_problems(error))


def _problems(error: ValidationError) -> Iterator[str]:
    for each in error.errors(include_url=False):
        where = ".".join(str(part) for part in each["loc"]) or "table"
        text = re.sub(r"^Value error, ", "", each["msg"])
        if each["type"] == "extra_forbidden":
            text = "is no key here; docs/variants.md lists them"
        shown = each.get("input")
        value = f" {str(shown)[:60]!r}" if where == "table" or not isinstance(shown, dict | list | type(None)) else ""
        yield f"{where}:{value} {text}"
