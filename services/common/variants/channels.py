"""Channels to the variants of the stages that this process calls."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping

from services.common.channels import BalancedChannel
from services.common.metrics import VARIANT
from services.common.variants.table import State, Table


class VariantChannels:
    """A channel for each variant. Call it on a running event loop.

    Args:
        addresses: Of each stage, for variants without an address of their own.
        open_channel: Opens a channel to an address; gets a name for errors and metrics too.
    """

    def __init__(self, addresses: Mapping[str, str], open_channel: Callable[[str, str], BalancedChannel]) -> None:
        self.addresses = addresses
        self._open = open_channel
        self._channels: dict[tuple[str, str], BalancedChannel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        for stage in addresses:
            self.of(Table(), stage, VARIANT)

    def of(self, table: Table, stage: str, variant: str) -> BalancedChannel:
        """Return the channel to a variant of a table.

        Raises:
            KeyError: The table has no such variant.
        """
        address = table.stage(stage).variants[variant].address or self.addresses[stage]
        if (stage, address) not in self._channels:
            name = stage if address == self.addresses[stage] else f"{stage}-{variant}"
            self._channels[stage, address] = self._open(address, name)
        return self._channels[stage, address]

    def open(self, table: Table) -> None:
        """Open the channels to all variants that may be called, so that they are ready when a turn needs one."""
        for stage in self.addresses:
            for name, variant in table.stage(stage).variants.items():
                if variant.state is not State.OFF:
                    self.of(table, stage, name)

    async def ready(self, table: Table, timeout_s: float) -> None:
        """Wait until each variant that may be called has a replica that takes calls, or the time is over."""
        waiting = [
            self.of(table, stage, name).replicas.wait_ready()
            for stage in self.addresses
            for name, variant in table.stage(stage).variants.items()
            if variant.state is not State.OFF
        ]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waiting), timeout_s)

    def close_others(self, tables: Iterable[Table]) -> None:
        """Close the channels that none of these tables needs."""
        needed = set(self.addresses.items())
        for table in tables:
            needed |= {
                (stage, variant.address)
                for stage in self.addresses
                for variant in table.stage(stage).variants.values()
                if variant.address
            }
        for key in self._channels.keys() - needed:
            closing = asyncio.create_task(self._channels.pop(key).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all channels."""
        closing = [channel.close() for channel in self._channels.values()]
        self._channels.clear()
        await asyncio.gather(*closing, *self._closing)
