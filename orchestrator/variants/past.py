"""Read from the history of a table which variant was the control before, and which was raised last."""

from collections.abc import Iterator

from services.common.errors import InvalidRequest
from services.common.variants.table import ALONE, Stage, State, Table

FIELD = "rollback.variant"


def control_before(table: Table, stage: str) -> str:
    """Return the variant that was the control before the present one, and still has its conversations.

    Raises:
        InvalidRequest: There is none.
    """
    now = table.stage(stage)
    draining = [name for name, each in now.variants.items() if each.state is State.DRAINING]
    for before, _ in _changes(table, stage):
        known = now.variants.get(before.control)
        if before.control != now.control and known and known.state is not State.OFF:
            return before.control
    # Values under version control have no history.
    if len(draining) == 1:
        return draining[0]
    problem = f"{now.control} is the control of {stage}, and no variant before it serves or drains"
    raise InvalidRequest(FIELD, f"{problem}; promote the one that shall serve")


def raised_last(table: Table, stage: str) -> str:
    """Return the variant that was promoted, or given more weight, by the newest change that did so.

    Raises:
        InvalidRequest: No change did, it raised several, or the variant does not serve any more.
    """
    now = table.stage(stage)
    for before, after in _changes(table, stage):
        if not (raised := _raised(before, after)):
            continue
        if len(raised) > 1:
            raise InvalidRequest(FIELD, f"the last change raised {' and '.join(raised)}; name the one to take back")
        if raised[0] not in now.variants or now.variants[raised[0]].state is State.OFF:
            break
        return raised[0]
    raise InvalidRequest(FIELD, f"nothing of {stage} is left to take back; name a variant to set it off")


def _raised(before: Stage, after: Stage) -> list[str]:
    if before.control != after.control:
        # A rollback makes a control too, and sets the one before off.
        old = after.variants.get(before.control)
        return [after.control] if old and old.state is not State.OFF else []
    return [
        name
        for name, variant in sorted(after.variants.items())
        if name != after.control and variant.weight > (before.variants[name].weight if name in before.variants else 0)
    ]


def _changes(table: Table, stage: str) -> Iterator[tuple[Stage, Stage]]:
    """Yield the stage before and after each change, the newest first."""
    after = table.stage(stage)
    for change in reversed(table.history):
        before = change.stages.get(stage, ALONE)
        yield before, after
        after = before
