"""What is told of a turn while it runs: its events, when each stage worked, and what was dropped."""

import time

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from orchestrator.flow import Flow
from services.common import metrics


class Report:
    """The events of one turn. Times are monotonic until they leave in an event.

    Attributes:
        events: What the caller gets.
        received_s: When the request had come whole: the times in events count from here.
        took_s: Seconds that each stage took that has ended.
    """

    def __init__(self) -> None:
        self.events: Flow[pb.RespondResponse] = Flow()
        self.received_s = time.monotonic()
        self.took_s: dict[str, float] = {}

    def tell(self, event: pb.RespondResponse) -> None:
        """Hands an event on."""
        self.events.put(event)

    def time(self, stage: str, start_s: float, first_s: float = 0.0, end_s: float = 0.0) -> None:
        """Tells when a stage worked that has ended; at `end_s`, or now."""
        end_s = end_s or time.monotonic()
        self.took_s[stage] = max(0.0, end_s - start_s)
        metrics.STAGE_SECONDS.labels(stage, "ok").observe(self.took_s[stage])
        timing = pb.StageTiming(
            stage=stage,
            start_s=start_s - self.received_s,
            first_s=(first_s or end_s) - self.received_s,
            end_s=end_s - self.received_s,
        )
        self.tell(pb.RespondResponse(timing=timing))

    def failed(self, stage: str) -> None:
        """Counts a stage that failed."""
        metrics.STAGE_SECONDS.labels(stage, "failed").observe(time.monotonic() - self.received_s)

    def degrade(self, stage: str, dropped: str, reason: str) -> None:
        """Tells what the turn goes on without, and why."""
        metrics.DEGRADED.labels(stage, dropped).inc()
        self.tell(pb.RespondResponse(degraded=pb.Degraded(stage=stage, dropped=dropped, reason=reason)))
