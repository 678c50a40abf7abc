"""Reports readiness, load and model of this replica to callers that choose among several."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.protobuf import any_pb2
from google.protobuf.message import Message

from e3rg.replica.v1 import replica_pb2 as pb
from e3rg.replica.v1 import replica_pb2_grpc

REPORT_S, LOOK_S = 1.0, 0.1
"""Longest time between two reports, and time between two looks at what a report would say."""
CHANGE = 0.1
"""A backlog that changed by less than this share of a call's seconds is not reported before its time."""


@dataclass(frozen=True)
class Load:
    """Seconds that a new call waits for the model, and seconds that a call adds to that on average."""

    backlog_s: float = 0.0
    call_s: float = 0.0


class LoadReporter(replica_pb2_grpc.ReplicaServiceServicer):
    """Serves `ReplicaService`.

    Args:
        calls: Tells the number of calls in progress.

    Attributes:
        load: Tells the load now.
    """

    def __init__(self, calls: Callable[[], int]) -> None:
        self.load: Callable[[], Load] = Load
        self._calls = calls
        self._model: any_pb2.Any | None = None
        self._is_ready = self._is_stopping = False
        self._news = asyncio.Event()
        self._watchers = 0
        self._looking: asyncio.Task[None] | None = None

    def set_model(self, model: Message) -> None:
        """Report from now on which model is served: to each caller once."""
        self._model = any_pb2.Any()
        self._model.Pack(model)
        self._tell()

    def set_ready(self, is_ready: bool) -> None:
        """Change the readiness, and report it at once."""
        self._is_ready = is_ready
        self._tell()

    def stop(self) -> None:
        """Report that the replica drains, and end all streams."""
        self._is_ready, self._is_stopping = False, True
        self._tell()

    async def WatchReplica(  # noqa: N802, D102  # the proto names and documents it
        self, request: pb.WatchReplicaRequest, context: Any
    ) -> AsyncIterator[pb.WatchReplicaResponse]:
        self._watchers += 1
        self._looking = self._looking or asyncio.create_task(self._look())
        model: any_pb2.Any | None = None
        try:
            while True:
                news, told = self._news, self._now()
                if self._model is not None and self._model is not model:
                    model = self._model
                    told.model.CopyFrom(model)
                yield told
                if self._is_stopping:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), REPORT_S)
        finally:
            self._watchers -= 1
            if not self._watchers and self._looking:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        """Report changes; one task for all callers, as most looks see none."""
        told = self._now()
        while True:
            await asyncio.sleep(LOOK_S)
            if self._has_changed(told):
                told = self._now()
                self._tell()

    def _now(self) -> pb.WatchReplicaResponse:
        load = self.load()
        return pb.WatchReplicaResponse(
            ready=self._is_ready, backlog_s=load.backlog_s, call_s=load.call_s, calls=self._calls()
        )

    def _has_changed(self, told: pb.WatchReplicaResponse) -> bool:
        now = self._now()
        return now.calls != told.calls or abs(now.backlog_s - told.backlog_s) > CHANGE * max(now.call_s, 0.1)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
