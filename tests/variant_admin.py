"""A gateway that administers variants and does nothing else, over a file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import grpc

from e3rg.orchestrator.v1 import variants_pb2_grpc
from orchestrator.variants.counts import Ledger
from orchestrator.variants.messages import Behind
from orchestrator.variants.peers import Peers
from orchestrator.variants.servicer import VariantServicer
from orchestrator.variants.trials import Trials
from orchestrator.variants.writing import TableWriter
from services.common.errors import NotReady
from services.common.variants.files import TableFile
from services.common.variants.live import LiveTable
from services.common.variants.table import State, Table, dump, parse
from tests.fakes import PATIENCE_S
from tests.ports import HeldPort
from tests.serving import plain_channel, serving

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.variants_pb2_grpc import VariantServiceAsyncStub as Stub

STAGES = ("mllm-text", "tts", "video", "writer")
SERVICE = "e3rg.orchestrator.v1.VariantService"


@dataclass(frozen=True)
class Gateway:
    """A gateway that serves.

    Attributes:
        address: Where.
        stub: Calls it.
        live: Its table.
        writer: A guardrail's way to the table.
        path: File of the table.
        gone: Addresses without a ready replica.
        ledger: Its counts of turns.
    """

    address: str
    stub: "Stub"
    live: LiveTable
    writer: TableWriter
    path: Path
    gone: set[str]
    ledger: Ledger

    def table(self) -> Table:
        """The table in the file."""
        return parse(self.path.read_text("utf-8"))

    async def uses(self, version: int) -> Table:
        """Wait until the gateway uses a version."""
        found = await self.live.version(version, PATIENCE_S)
        assert found, self.live.problem
        return found

    async def write(self, table: Table) -> Table:
        """Write a table as the chart does; returns it when the gateway uses it."""
        await asyncio.to_thread(self.path.write_text, dump(table), "utf-8")
        return await self.uses(parse(dump(table)).version)


async def until(live: LiveTable, is_so: Callable[[LiveTable], bool]) -> None:
    """Wait until something is so of a live table."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(live):
            await live.changed()


@asynccontextmanager
async def gateway(
    path: Path, admin: bool = True, configured: bool = True, memory: grpc.aio.Channel | None = None
) -> AsyncIterator[Gateway]:
    """Serve a gateway over a file of variants; without a memory, it is away."""
    gone: set[str] = set()
    ledger = Ledger()

    async def check(table: Table) -> None:
        for stage in table.stages.values():
            for variant in stage.variants.values():
                if variant.address in gone and variant.state is not State.OFF:
                    raise NotReady(f"{variant.address} has no ready replica")

    source = TableFile(path) if configured else None
    beside = TableFile(path.with_name(f"{path.name}.overlay")) if configured else None
    async with AsyncExitStack() as stack:
        live = await stack.enter_async_context(LiveTable(source, check, beside).running())
        away = plain_channel(f"127.0.0.1:{stack.enter_context(HeldPort()).number}")
        await stack.enter_async_context(away)
        servicer = VariantServicer(
            live, lambda: STAGES, _behind, admin, Trials(memory or away, Peers(ledger, "mine").counts)
        )
        served = await stack.enter_async_context(
            serving(SERVICE, lambda server: variants_pb2_grpc.add_VariantServiceServicer_to_server(servicer, server))
        )
        stub = cast("Stub", variants_pb2_grpc.VariantServiceStub(served.channel))
        yield Gateway(served.address, stub, live, TableWriter(live), path, gone, ledger)


def _behind(stage: str, variant: str) -> Behind:
    return Behind(2, 1, ("kokoro 0123abcd",)) if (stage, variant) == ("tts", "kokoro") else Behind()
