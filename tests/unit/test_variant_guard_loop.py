"""The guard of the variants over hours, in virtual time: it looks again and again, whatever happens meanwhile."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest

from e3rg.gateway.v1 import gateway_pb2 as pb
from orchestrator.settings import OrchestratorSettings
from orchestrator.variants import ramps
from orchestrator.variants.counts import ByVariant, Counts, Ledger, Outcome, Span
from orchestrator.variants.guard import Guard
from orchestrator.variants.guarding import guarding
from services.common.errors import Conflict, NotReady
from services.common.variants.live import LiveTable
from services.common.variants.table import Stage, Table, Variant, dump, parse
from tests.support import virtual_time
from tests.support.virtual_time import BEGIN_S

STAGE = Stage(control="a", variants={"a": Variant(weight=100), "b": Variant()})
RAMP = ramps.start(Table(stages={"tts": STAGE}), "tts", "b", (10, 50, 100), every_s=600, at_s=BEGIN_S, turns_min=30)


class Held:
    """`services.common.variants.live.Source` in memory."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.problem = ""
        self._news = asyncio.Event()

    async def read(self) -> str:
        if self.problem:
            raise NotReady(self.problem)
        return self.text

    async def texts(self) -> AsyncGenerator[str]:
        while True:
            self._news.clear()
            yield self.text
            await self._news.wait()

    async def replace(self, before: str, text: str) -> None:
        if before != self.text:
            raise Conflict("changed")
        self.text = text
        self._news.set()


async def _check(table: Table) -> None:
    """Take every table."""


class Gateway:
    """An elected gateway whose counts a test sets."""

    def __init__(self) -> None:
        self.source = Held(dump(RAMP))
        self.turns = 30
        self.problem: Exception | None = None
        self.live = LiveTable(self.source, _check)
        now = asyncio.get_running_loop().time
        self.guard = Guard(self.live, Ledger(now), self._ask, lambda: True, clock=now)

    def weight(self) -> float:
        return parse(self.source.text).stage("tts").variants["b"].weight

    async def _ask(self, spans: Sequence[Span]) -> Mapping[Span, ByVariant]:
        if self.problem:
            raise self.problem
        return {span: {"b": Counts(turns=self.turns)} for span in spans}


def test_a_ramp_goes_on_step_by_step_without_anybody() -> None:
    async def main() -> list[float]:
        gateway = Gateway()
        weights = []
        async with gateway.live.running(), gateway.guard.running():
            for _ in range(5):
                weights.append(gateway.weight())
                await virtual_time.passing(350)
        return weights

    assert virtual_time.run(main()) == [10, 10, 50, 50, 100]


def test_a_ramp_waits_for_turns_for_as_long_as_it_takes() -> None:
    async def main() -> tuple[float, float]:
        gateway = Gateway()
        gateway.turns = 29
        async with gateway.live.running(), gateway.guard.running():
            await virtual_time.passing(100_000)
            waited, gateway.turns = gateway.weight(), 30
            await virtual_time.passing(10)
        return waited, gateway.weight()

    assert virtual_time.run(main()) == (10, 50)


@pytest.mark.parametrize("where", ["counts", "table"])
def test_a_guard_that_fails_looks_again_and_says_so_once(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> tuple[float, float]:
        gateway = Gateway()
        gateway.problem = NotReady("away") if where == "counts" else None
        gateway.source.problem = "away" if where == "table" else ""
        async with gateway.live.running(), gateway.guard.running():
            await virtual_time.passing(1000)
            before, gateway.problem, gateway.source.problem = gateway.weight(), None, ""
            await virtual_time.passing(10)
        return before, gateway.weight()

    assert virtual_time.run(main()) == (10, 50)
    said = [each for each in caplog.records if "cannot change the table" in each.message]
    assert [vars(each)["why"] for each in said] == ["away"]


def test_a_guard_with_a_fault_of_its_own_looks_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> float:
        gateway = Gateway()
        gateway.problem = KeyError("a fault")
        async with gateway.live.running(), gateway.guard.running():
            await virtual_time.passing(1000)
            gateway.problem = None
            await virtual_time.passing(10)
        return gateway.weight()

    assert virtual_time.run(main()) == 50
    assert "it looks again" in caplog.text


async def test_what_a_gateway_counts_is_what_it_tells_the_others() -> None:
    async with guarding(OrchestratorSettings(), LiveTable(None, _check)) as (guard, servicer, asked):
        guard.observe([Outcome("tts", "b")])
        span = pb.Span(stage="tts", begin_s=time.time() - 60, end_s=time.time() + 60)
        answer = await servicer.GetVariantCounts(pb.GetVariantCountsRequest(spans=[span]), None)
        same = Span("tts", span.begin_s, span.end_s)
        assert (await asked([same]))[same]["b"].turns == 1
    assert [(each.variant, each.turns) for each in answer.spans[0].variants] == [("b", 1)]
