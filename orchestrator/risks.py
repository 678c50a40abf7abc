"""Risks that messages raise: kept in the memory, and told to the operator, beside the turn."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from orchestrator.memory import Memory
from orchestrator.webhook import Notice, Webhook
from services.common.errors import DeadlineExceeded, NotReady, Overloaded, ServiceError

log = logging.getLogger(__name__)

PAUSES_S = (0.1, 0.3, 1.0, 2.0, 4.0)
"""Pauses before a memory that does not keep a risk is asked again."""


@dataclass
class Risks:
    """Keeps and tells risks. Its work goes on when the turn is cancelled: whoever hangs up is in no less danger.

    Attributes:
        memory: The memory.
        webhook: The operator's; None for none.
    """

    memory: Memory
    webhook: Webhook | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def raise_(
        self, header: pb.RespondHeader, understood: understanding.UnderstandResponse
    ) -> tuple[pb.RiskRaised, asyncio.Task[ServiceError | None]]:
        """Begin to keep and to tell a risk.

        Returns:
            The event for the caller, and the keeping, which ends with the reason that it was not kept, if any.
        """
        risk = understood.risk
        event = pb.RiskRaised(risk=risk, conversation=header.conversation, id=uuid4().hex)
        names = {
            "kind": common.RiskKind.Name(risk.kind).removeprefix("RISK_KIND_").lower(),
            "severity": common.RiskSeverity.Name(risk.severity).removeprefix("RISK_SEVERITY_").lower(),
            "source": common.RiskSource.Name(risk.source).removeprefix("RISK_SOURCE_").lower(),
        }
        log.warning("risk raised", extra={"risk": event.id, **names})
        if self.webhook:
            notice = Notice(
                id=event.id,
                **names,
                confidence=round(risk.confidence, 3),
                tenant=header.tenant,
                identity=header.identity,
                user=header.person,
                conversation=header.conversation,
                words=understood.text,
            )
            self._start(self.webhook.send(notice))
        return event, self._start(self._keep(header, event))

    async def close(self, timeout_s: float) -> None:
        """Wait for what is still to be kept or told, then give it up."""
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in pending:
                task.cancel()
            if pending:
                log.error("risks not kept or not told at the end", extra={"count": len(pending)})

    async def _keep(self, header: pb.RespondHeader, event: pb.RiskRaised) -> ServiceError | None:
        if not header.conversation:
            return None
        request = memory.RaiseRiskRequest(
            tenant=header.tenant,
            identity=header.identity,
            person=header.person,
            conversation=header.conversation,
            id=event.id,
            kind=event.risk.kind,
            severity=event.risk.severity,
        )
        for pause_s in (*PAUSES_S, None):
            try:
                await self.memory.raise_risk(request)
                return None
            except (NotReady, Overloaded, DeadlineExceeded) as error:
                if pause_s is None:
                    return error
                await asyncio.sleep(pause_s)
            except ServiceError as error:
                return error
        return None

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # Without the turn's deadline and trace: it outlives the turn.
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
