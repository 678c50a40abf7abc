"""One replica of a service: its channel, its reports, and the calls that are in progress there."""

import asyncio
from dataclasses import dataclass, field

import grpc
from google.protobuf import any_pb2

from e3rg.replica.v1 import replica_pb2 as pb

CONNECTING = "it is being connected to"


class Replica:
    """One replica: its channel, and what it reported last.

    Attributes:
        problem: Why it takes no calls; empty when it does.
        model: What it said last of its model; None when it said nothing.
    """

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address, self.channel = address, channel
        self.problem = CONNECTING
        self.model: any_pb2.Any | None = None
        self._told = pb.WatchReplicaResponse()
        self._begun = self._calls = self._reports = 0
        self._unanswered: set[grpc.aio.Call] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def wait_s(self) -> float:
        """Seconds that a call would wait: as reported, and for the calls that were begun here since."""
        return self._told.backlog_s + self._begun * self._told.call_s

    @property
    def rank(self) -> tuple[float, int]:
        """Order of choice: the wait, then the calls in progress."""
        return self.wait_s, self._told.calls + self._begun

    def begin(self, call: grpc.aio.Call) -> None:
        """Count a call until it ends."""
        self._begun += 1
        self._calls += 1
        self._is_idle.clear()
        self._unanswered.add(call)
        report = self._reports
        call.add_done_callback(lambda ended: self._ended(ended, report))

    def answered(self, call: grpc.aio.Call) -> None:
        """Keep a call though the replica hangs: its first response has come."""
        self._unanswered.discard(call)

    def abandon(self) -> None:
        """Cancel all calls without a response."""
        for call in [*self._unanswered]:
            call.cancel()

    def heard(self, told: pb.WatchReplicaResponse) -> None:
        """Take over a report."""
        self._told = told
        self._reported()
        if told.HasField("model"):
            self.model = told.model
        self.problem = "" if told.ready else "it is not ready: its model loads, or it stops"

    def promised(self, backlog_s: float) -> None:
        """Take over the backlog that an answer tells, ahead of the next report."""
        self._told.backlog_s = backlog_s
        self._reported()

    async def idle(self) -> None:
        """Wait until no call of ours is in progress."""
        await self._is_idle.wait()

    def _reported(self) -> None:
        self._begun = 0
        self._reports += 1

    def _ended(self, call: grpc.aio.Call, report: int) -> None:
        """Count a call no more; `report` is the number of the last one when it began."""
        self._unanswered.discard(call)
        self._begun -= report == self._reports
        self._calls -= 1
        if not self._calls:
            self._is_idle.set()


@dataclass
class Choice:
    """Wish for the replica of one call, and its outcome.

    Attributes:
        is_exact: Whether to compare all replicas and not two; for calls that last.
        avoided: Addresses to choose last.
        replica: The one that was chosen last; None before.
    """

    is_exact: bool = False
    avoided: set[str] = field(default_factory=set)
    replica: Replica | None = None

    def avoid(self) -> None:
        """Choose the replica last from now on."""
        if self.replica:
            self.avoided.add(self.replica.address)
