"""Writer of the table of variants: checks a change, writes it where all gateways and panels read it, and waits."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from orchestrator.variants import chart_values
from orchestrator.variants.edits import Author, Edit, made, rollback
from orchestrator.variants.wording import NOTHING
from services.common.errors import Conflict, FailedPrecondition, InvalidRequest, NotReady, ServiceError
from services.common.variants.live import LiveTable, Source
from services.common.variants.overlay import Overlay, RolledBack, dump_overlay, parse_overlay
from services.common.variants.table import InvalidTable, Table, dump, parse

TRIES_MAX = 10
"""Tries of a change while other gateways write."""
TAKEN_S = 10.0
"""Wait for this gateway to take a new table."""
NO_SOURCE = (
    "this gateway has no table of variants; set E3RG_ORCHESTRATOR_VARIANTS_FILE to a file that all gateways and panels"
    " read, or, in a cluster, `variants` in the chart's values"
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Written:
    """A change that is made.

    Attributes:
        table: The new table, or the present one if nothing is different.
        summary: The change in words.
    """

    table: Table
    summary: str


class TableWriter:
    """Changes what a live table reads.

    Args:
        live: The table in use at this gateway.
    """

    def __init__(self, live: LiveTable) -> None:
        self._live = live
        self._writing = asyncio.Lock()

    async def change(self, edit: Edit, author: Author, expected_version: int = 0) -> Written:
        """Write a change.

        Args:
            edit: The change.
            author: Who makes it.
            expected_version: Version of the table that it is meant for; 0 for any.

        Raises:
            InvalidRequest: The change is wrong.
            FailedPrecondition: No table is configured, the chart's values own it, or it could not serve.
            Conflict: The table has another version than the expected one, or others change it all the time.
            NotReady: It cannot be read or written.
        """

        async def changed(before: str) -> tuple[str, Written]:
            table = _parsed(before)
            if expected_version not in (0, table.version):
                problem = f"the table of variants is at version {table.version}, not {expected_version}"
                raise Conflict(f"{problem}; look at it and try again")
            after = made(table, edit, author)
            if after is table:
                return before, Written(table, NOTHING)
            if table.owner == "helm":
                raise FailedPrecondition(_to_commit(table, after))
            await self._check(after)
            return dump(after), Written(after, after.history[-1].summary)

        return await self._replaced(self._live.source, changed)

    async def taken(self, is_taken: Callable[[LiveTable], bool]) -> str:
        """Wait until this gateway uses what was written; return why it does not."""
        try:
            async with asyncio.timeout(TAKEN_S):
                while not is_taken(self._live):
                    await self._live.changed()
        except TimeoutError:
            return self._live.problem or "this gateway has not read and checked the new table yet"
        return ""

    async def roll_back(self, stage: str, variant: str, reason: str, at_s: float) -> bool:
        """Take a variant back for a guardrail: in the table, or over the one that the chart's values own.

        Returns:
            Whether it was not taken back before.

        Raises:
            ServiceError: See `change`.
        """
        if _parsed(await _read(self._live.source)).owner == "cli":
            author = Author("guardrail", reason, at_s)
            written = await self.change(partial(rollback, stage=stage, variant=variant), author)
            return written.summary != NOTHING
        table = self._live.current
        taken_back = RolledBack(
            stage=stage,
            variant=variant,
            control=table.stage(stage).control,
            reason=reason,
            at_s=at_s,
            version=table.version,
        )

        async def laid_over(before: str) -> tuple[str, bool]:
            there = parse_overlay(before).rolled_back
            if any((each.stage, each.variant) == (stage, variant) for each in there):
                return before, False
            return dump_overlay(Overlay(rolled_back=(*there, taken_back))), True

        return await self._replaced(self._live.overlay_source, laid_over)

    async def acknowledge(self, stage: str) -> tuple[RolledBack, ...]:
        """End the rollbacks that lie over the chart's values of a stage; return them.

        Raises:
            InvalidRequest: There is none.
            ServiceError: See `change`.
        """

        async def ended(before: str) -> tuple[str, tuple[RolledBack, ...]]:
            there = parse_overlay(before).rolled_back
            over = tuple(each for each in there if each.stage == stage)
            if not over:
                known = ", ".join(sorted({each.stage for each in there})) or "no stage"
                raise InvalidRequest("acknowledge.stage", f"no rollback lies over {stage!r}; one lies over: {known}")
            left = tuple(each for each in there if each.stage != stage)
            return dump_overlay(Overlay(rolled_back=left)), over

        return await self._replaced(self._live.overlay_source, ended)

    async def _check(self, table: Table) -> None:
        try:
            parse(dump(table))
            await self._live.check(table)
        except (InvalidTable, ServiceError) as error:
            raise FailedPrecondition(f"nothing was changed, for the table could not serve: {error}") from error

    async def _replaced(self, source: Source | None, change: Callable[[str], Awaitable[tuple[str, Result]]]) -> Result:
        """Replace the text of an object by the one that `change` returns, again when somebody else was faster."""
        if not source:
            raise FailedPrecondition(NO_SOURCE)
        async with self._writing:
            for _ in range(TRIES_MAX):
                before = await _read(source)
                text, result = await change(before)
                if text == before:
                    return result
                with contextlib.suppress(Conflict):
                    await _replace(source, before, text)
                    return result
        raise Conflict("others change the table of variants all the time; try again")


async def _read(source: Source | None) -> str:
    if not source:
        raise FailedPrecondition(NO_SOURCE)
    try:
        return await source.read()
    except OSError as error:
        raise NotReady(f"the table of variants cannot be read: {error}") from error


async def _replace(source: Source, before: str, text: str) -> None:
    try:
        await source.replace(before, text)
    except OSError as error:
        raise NotReady(f"the table of variants cannot be written: {error}") from error


def _parsed(text: str) -> Table:
    try:
        return parse(text)
    except InvalidTable as error:
        raise FailedPrecondition(f"the table of variants is wrong as it is: {error}; correct it first") from error


def _to_commit(before: Table, after: Table) -> str:
    # The text goes as a status, which may have a few KiB: the values of what is different are enough.
    ramp = "no ramp runs there, so commit each of its steps; " if after.ramp else ""
    remedy = f"{ramp}put this in the place of what they have, commit it and upgrade"
    return f"the chart's values own the table of variants; {remedy}:\n{chart_values.written(before, after)}"
