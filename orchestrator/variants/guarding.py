"""Guarding of the variants in one gateway: election, counts and guard together."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from orchestrator.settings import OrchestratorSettings
from orchestrator.variants.counts import Asked, Ledger
from orchestrator.variants.election import Election, lock_of
from orchestrator.variants.guard import Guard
from orchestrator.variants.peers import Peers
from orchestrator.variants.servicer import GatewayServicer
from services.common.variants.live import LiveTable

ROLLED_BACK = "VariantRolledBack"
"""Reason of the Event."""


@asynccontextmanager
async def guarding(
    settings: OrchestratorSettings, live: LiveTable
) -> AsyncIterator[tuple[Guard, GatewayServicer, Asked]]:
    """Guard the variants while the block runs; yields what counts turns, tells others the counts, and asks for all.

    Raises:
        OSError, ValueError: A file of TLS cannot be used.
    """
    ledger, gateway = Ledger(), secrets.token_hex(8)
    peers = Peers(ledger, gateway, settings.peers_address, settings.channel_tls)
    async with AsyncExitStack() as stack:
        election = await stack.enter_async_context(Election(lock_of(settings)).running())
        guard = Guard(live, ledger, peers.counts, lambda: election.is_elected, _warner(settings))
        yield await stack.enter_async_context(guard.running()), GatewayServicer(ledger, gateway), peers.counts


def _warner(settings: OrchestratorSettings) -> Callable[[str], None]:
    if not settings.variants_configmap:
        return lambda text: None
    # The client takes 60 MiB and half a second.
    from orchestrator.variants.lease import warn

    return partial(warn, settings.variants_configmap, ROLLED_BACK)
