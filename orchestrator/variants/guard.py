"""Guard of the variants: takes back a variant that passes a limit, and steps ramps, in the elected gateway alone."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from prometheus_client import Counter, Gauge

from orchestrator.variants import guardrails, ramps
from orchestrator.variants.counts import Asked, ByVariant, Counts, Ledger, Outcome, Span
from orchestrator.variants.edits import Author
from orchestrator.variants.guardrails import Breach, Comparison
from orchestrator.variants.writing import TableWriter
from services.common.errors import NotReady, ServiceError
from services.common.variants.live import LiveTable
from services.common.variants.table import Ramp, State, Table

log = logging.getLogger(__name__)

ROLLBACKS = Counter(
    "e3rg_variant_rollbacks_total", "Variants that a guardrail took back.", ["stage", "variant", "reason"]
)
SHARE = Gauge(
    "e3rg_variant_share", "Share of the turns in the guardrail's window, in the elected gateway.",
    ["stage", "variant", "outcome"],
)  # fmt: skip
P95_SECONDS = Gauge(
    "e3rg_variant_first_chunk_p95_seconds",
    "95th percentile of the time to the first chunk in the guardrail's window, in the elected gateway.",
    ["stage", "variant"],
)

LOOK_S = 5.0
"""Time between two looks at the counts."""


class Guard:
    """Judges variants and steps ramps while its gateway is elected.

    Args:
        live: The table in use.
        ledger: Counts of this gateway.
        ask: Returns the counts of all gateways.
        is_elected: Tells whether this gateway acts.
        warn: Tells the operators of the cluster of a rollback; blocks, and raises OSError.
        clock: Tells the Unix time.
    """

    def __init__(
        self,
        live: LiveTable,
        ledger: Ledger,
        ask: Asked,
        is_elected: Callable[[], bool],
        warn: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._live, self._ledger, self._ask = live, ledger, ask
        self._is_elected, self._warn, self._clock = is_elected, warn, clock
        self._writer = TableWriter(live)
        self._problem = ""

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of a turn; not of variants that were switched off while it ran."""
        table = self._live.current
        self._ledger.add(each for each in outcomes if not _is_off(table, each.stage, each.variant))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Guard"]:
        """Look again and again while the block runs."""
        tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._watch())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> None:
        """Look once; act where this gateway is elected.

        Raises:
            ServiceError: The table cannot be changed.
        """
        table, now_s = self._live.current, self._clock()
        if not self._is_elected() or not (table.guardrails or table.ramp):
            _forget_gauges()
            return
        watched = guardrails.comparisons(table, now_s)
        spans = {span: None for each in watched for span in (each.span, each.reference_span)}
        if table.ramp:
            spans[_step_span(table.ramp, now_s)] = None
        counts = await self._ask([*spans])
        _forget_gauges()
        for each in watched:
            for reason in guardrails.REASONS:  # A rate needs the 0 before the first.
                ROLLBACKS.labels(each.stage, each.variant, reason)
            _show(each, counts)
        breaches = [found for each in watched if (found := guardrails.breach(each, counts.__getitem__))]
        problems = [await self._roll_back(found) for found in breaches]
        # The chart's values step by commits.
        if table.ramp and table.owner == "cli" and table.ramp.stage not in {found.stage for found in breaches}:
            await self._step(table, table.ramp, counts[_step_span(table.ramp, now_s)], now_s)
        if any(problems):
            raise NotReady("; ".join(filter(None, problems)))

    async def _follow(self) -> None:
        while True:
            self._ledger.forget_off(self._live.current)
            await self._live.changed()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
                self._problem = ""
            except ServiceError as error:
                self._tell_once(str(error))
            except Exception:  # A guard that ends would leave a bad variant serving for ever.
                log.exception("the guard of the variants failed; it looks again")

    def _tell_once(self, problem: str) -> None:
        if problem != self._problem:
            log.error("guardrails and ramps cannot change the table; they try again", extra={"why": problem})
        self._problem = problem

    async def _roll_back(self, found: Breach) -> str:
        """Take a variant back; return why that cannot be, for the others are taken back all the same."""
        try:
            if not await self._writer.roll_back(found.stage, found.variant, found.figures, self._clock()):
                return ""
        except ServiceError as error:
            return str(error)
        ROLLBACKS.labels(found.stage, found.variant, found.reason).inc()
        names = {"stage": found.stage, "variant": found.variant, "reason": found.reason}
        log.error("a guardrail took a variant back", extra={**names, "why": found.figures})
        try:
            await asyncio.to_thread(self._warn, f"{found.stage} {found.variant}: {found.figures}")
        except OSError as error:
            log.warning("no Event tells of the rollback", extra={**names, "why": str(error)})
        await self._writer.taken(lambda live: _is_off(live.current, found.stage, found.variant))
        return ""

    async def _step(self, table: Table, ramp: Ramp, counts: ByVariant, now_s: float) -> None:
        turns = counts.get(ramp.variant, Counts()).turns
        if now_s < ramp.next_at_s or turns < ramp.turns_min:
            return
        why = f"{turns} turns of {ramp.variant!r} in this step, and no limit was passed"
        made = await self._writer.change(partial(ramps.step, at_s=now_s), Author("ramp", why, now_s), table.version)
        log.info("a ramp went on", extra={"stage": ramp.stage, "variant": ramp.variant, "weight": ramp.weights[0]})
        await self._writer.taken(lambda live: live.current.version >= made.table.version)


def _step_span(ramp: Ramp, now_s: float) -> Span:
    """Return the turns of the step that runs."""
    return Span(ramp.stage, ramp.next_at_s - ramp.every_s, now_s)


def _is_off(table: Table, stage: str, variant: str) -> bool:
    known = table.stage(stage).variants.get(variant)
    return known is not None and known.state is State.OFF


def _show(watched: Comparison, counts: Mapping[Span, ByVariant]) -> None:
    for variant, span in ((watched.variant, watched.span), (watched.reference, watched.reference_span)):
        seen = counts[span].get(variant, Counts())
        if seen.turns:
            SHARE.labels(watched.stage, variant, "failed").set(seen.failed / seen.turns)
            SHARE.labels(watched.stage, variant, "degraded").set(seen.degraded / seen.turns)
        if seen.latencies:
            P95_SECONDS.labels(watched.stage, variant).set(guardrails.p95_s(seen))


def _forget_gauges() -> None:
    SHARE.clear()
    P95_SECONDS.clear()
