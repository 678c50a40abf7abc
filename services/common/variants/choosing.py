"""Choose the variant of a stage for a turn: pure, and the same in every gateway."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from services.common.variants.table import SHARE, Stage, State, Table


class Reason(StrEnum):
    """Why a variant was chosen."""

    OVERRIDE = "override"
    """The caller named it."""
    PINNED = "pinned"
    """It served the conversation's last turn."""
    ASSIGNED = "assigned"
    """It served the user's first turn of the experiment."""
    WEIGHT = "weight"
    """By the hash of the key over the weights."""
    FALLBACK = "fallback"
    """The control, for a variant without a ready replica."""
    SHADOW = "shadow"
    """It gets a copy of the work."""


class UnknownVariant(ValueError):
    """A caller named a variant that the table does not have."""


@dataclass(frozen=True)
class Chosen:
    """Choice for one stage.

    Attributes:
        stage: Its name.
        variant: Name of the variant.
        reason: Why it was chosen.
    """

    stage: str
    variant: str
    reason: Reason


def choose(table: Table, stage: str, key: str, pinned: str = "", override: str = "", assigned: str = "") -> Chosen:
    """Choose the variant of a stage.

    Args:
        table: The table of the turn.
        stage: Name of the stage.
        key: Whose choice it is: the user, else the conversation, else the trace.
        pinned: Variant of the conversation's last turn; empty for none, and for stages that are not pinned.
        override: Variant that the caller names; empty for none.
        assigned: Variant of the user's first turn in the experiment; empty for none.

    Raises:
        UnknownVariant: The override is no variant of the stage.
    """
    known = table.stage(stage)
    if override:
        if override not in known.variants:
            raise UnknownVariant(
                f"{stage} has no variant {override!r}; use one of: {', '.join(sorted(known.variants))}"
            )
        return Chosen(stage, override, Reason.OVERRIDE)
    for name, reason in ((pinned, Reason.PINNED), (assigned, Reason.ASSIGNED)):
        if name in known.variants and known.variants[name].state is not State.OFF:
            return Chosen(stage, name, reason)
    experiment = table.experiment
    salt = experiment.salt if experiment and experiment.stage == stage else table.salt
    return Chosen(stage, _by_weight(known, position(salt, stage, key)), Reason.WEIGHT)


def shadows(table: Table, stage: str, key: str, chosen: str) -> tuple[str, ...]:
    """Return the variants of a stage that get a copy of a turn's work.

    Args:
        table: The table of the turn.
        stage: Name of the stage.
        key: Of the turn, as its trace id.
        chosen: The variant that serves it, which is no shadow of itself.
    """
    return tuple(
        name
        for name, variant in table.stage(stage).variants.items()
        if variant.state is not State.OFF
        and name != chosen
        and position(f"{table.salt} shadow {name}", stage, key) < variant.shadow
    )


def position(salt: str, stage: str, key: str) -> float:
    """Return where a key stands in 0 to 100, uniformly over keys: SHA-256 of salt, stage and key."""
    digest = hashlib.sha256(f"{salt}\n{stage}\n{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / (1 << 64) * SHARE


def _by_weight(stage: Stage, at: float) -> str:
    """Return the variant at a position of the cumulative weights, the control's last."""
    end = 0.0
    for name, variant in sorted(stage.variants.items(), key=lambda each: (each[0] == stage.control, each[0])):
        end += variant.weight
        if at < end:
            return name
    return stage.control
