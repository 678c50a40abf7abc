"""Gateways that judge variants: counts on real channels, a table in a file, and a clock that a test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from e3rg.gateway.v1 import gateway_pb2_grpc
from orchestrator.variants.counts import ByVariant, Ledger, Outcome, Span
from orchestrator.variants.guard import Guard
from orchestrator.variants.peers import Peers
from orchestrator.variants.servicer import GatewayServicer
from services.common.variants.live import LiveTable, Source
from services.common.variants.table import Table
from tests.fakes import PATIENCE_S, go_on
from tests.ports import HeldPort
from tests.serving import serving

BEGIN_S = 1_800_000_000.0
SERVICE = "e3rg.gateway.v1.GatewayService"


class Clock:
    """Unix time of all gateways, which a test moves."""

    def __init__(self) -> None:
        self.now_s = BEGIN_S

    def __call__(self) -> float:
        return self.now_s


class Judge:
    """A gateway.

    Attributes:
        live: Its table.
        clock: The clock of all of them.
        guard: Its guard; a test calls `look`.
        is_elected: Whether it acts.
        warnings: Events that it wrote.
        problem: Why Events cannot be written; empty when they can.
        meanwhile: Called after the gateways were asked for their counts.
    """

    def __init__(self, live: LiveTable, ledger: Ledger, peers: Peers, clock: Clock, is_elected: bool) -> None:
        self.live, self.clock, self.is_elected = live, clock, is_elected
        self.warnings: list[str] = []
        self.problem = ""
        self.meanwhile: Callable[[], None] = go_on

        async def ask(spans: Sequence[Span]) -> Mapping[Span, ByVariant]:
            counts = await peers.counts(spans)
            self.meanwhile()
            return counts

        self.guard = Guard(live, ledger, ask, lambda: self.is_elected, self._warn, clock)

    def serve(self, variant: str, turns: int, failed: int = 0, first_s: float = 0.4) -> None:
        """Count turns of tts, of which the first fail."""
        self.guard.observe([Outcome("tts", variant, number < failed, False, first_s) for number in range(turns)])

    async def has(self, is_so: Callable[[Table], bool]) -> Table:
        """Wait until something is so of its table; return that."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(self.live.current):
                await self.live.changed()
        return self.live.current

    def _warn(self, text: str) -> None:
        if self.problem:
            raise OSError(self.problem)
        self.warnings.append(text)


@asynccontextmanager
async def judges(source: Source, overlay: Source, number: int = 2, away: int = 0) -> AsyncIterator[list[Judge]]:
    """Run gateways over one table; the first is elected.

    Args:
        source: Holds the table.
        overlay: Holds the rollbacks.
        number: Of the gateways.
        away: Addresses that are listed besides, and do not answer.
    """
    clock, found = Clock(), list[Judge]()
    async with AsyncExitStack() as stack:
        ledgers = [Ledger(clock) for _ in range(number)]
        addresses = [await stack.enter_async_context(_serving(str(at), each)) for at, each in enumerate(ledgers)]
        addresses += [f"127.0.0.1:{stack.enter_context(HeldPort()).number}" for _ in range(away)]
        for at, ledger in enumerate(ledgers):
            live = await stack.enter_async_context(LiveTable(source, _check, overlay).running())
            await live.known()
            peers = Peers(ledger, str(at), f"ipv4:{','.join(addresses)}")
            found.append(Judge(live, ledger, peers, clock, is_elected=not at))
        yield found


@asynccontextmanager
async def _serving(gateway: str, ledger: Ledger) -> AsyncIterator[str]:
    servicer = GatewayServicer(ledger, gateway)
    async with serving(
        SERVICE, lambda server: gateway_pb2_grpc.add_GatewayServiceServicer_to_server(servicer, server)
    ) as served:
        yield served.address


async def _check(table: Table) -> None:
    """Take every table."""
