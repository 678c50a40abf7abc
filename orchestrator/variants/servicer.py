"""Servicer of the table of variants and of comparisons."""

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from e3rg.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from e3rg.orchestrator.v1 import variants_pb2 as pb
from e3rg.orchestrator.v1 import variants_pb2_grpc
from orchestrator.variants import comparing, experiments, messages, peers
from orchestrator.variants.counts import Ledger, Span
from orchestrator.variants.edits import Author, Edit
from orchestrator.variants.messages import Behind
from orchestrator.variants.trials import Trials
from orchestrator.variants.writing import TableWriter
from services.common.errors import InvalidRequest, Unsupported
from services.common.variants.live import LiveTable
from services.common.variants.table import dump

BY_CHARS_MAX = 200
WHY_CHARS_MAX = 500
SPANS_MAX = 64
OFF = "variants are not administered at this gateway; set E3RG_ORCHESTRATOR_VARIANT_ADMIN=true"


class VariantServicer(variants_pb2_grpc.VariantServiceServicer):
    """Shows and changes the table of variants, and compares variants.

    Args:
        live: The table in use.
        stages: Returns the names of the stages that can have variants, as far as they are known now.
        behind: Returns the replicas behind a variant, given its stage and its name.
        admin: Whether variants are administered at this gateway.
        trials: Compares variants.
    """

    def __init__(
        self,
        live: LiveTable,
        stages: Callable[[], Collection[str]],
        behind: Callable[[str, str], Behind],
        admin: bool,
        trials: Trials,
    ) -> None:
        self._trials = trials
        self._live, self._stages, self._behind, self._admin = live, stages, behind, admin
        self._writer = TableWriter(live)

    async def GetVariants(self, request: pb.GetVariantsRequest, context: Any) -> pb.GetVariantsResponse:
        self._check_admin()
        table = self._live.current
        names = sorted({*self._stages(), *table.stages})
        return pb.GetVariantsResponse(
            version=table.version,
            owner=table.owner,
            stages=[messages.stage(name, table.stage(name), self._behind) for name in names],
            history=[messages.change(each) for each in reversed(table.history)],
            problem=self._live.problem,
            table_json=dump(table),
            guardrails=[messages.guardrail(*each) for each in sorted(table.guardrails.items())],
            rollbacks=[messages.rollback(each) for each in self._live.overlay.rolled_back],
            ramp=pb.Ramp(**table.ramp.model_dump()) if table.ramp else None,
            experiment=comparing.experiment(table.experiment) if table.experiment else None,
            ended=[comparing.experiment(each) for each in reversed(table.ended)],
        )

    async def CompareVariants(self, request: pb.CompareVariantsRequest, context: Any) -> pb.CompareVariantsResponse:
        self._check_admin()
        if request.stage:
            self._check_stage("stage", request.stage)
        return await self._trials.compare(self._live.current, request)

    async def ChangeVariants(self, request: pb.ChangeVariantsRequest, context: Any) -> pb.ChangeVariantsResponse:
        self._check_admin()
        kind = request.WhichOneof("change")
        if not kind:
            raise InvalidRequest("change", "missing; name one")
        for field, text, chars_max in (("by", request.by, BY_CHARS_MAX), ("why", request.why, WHY_CHARS_MAX)):
            if len(text) > chars_max:
                raise InvalidRequest(field, f"{len(text)} characters; send at most {chars_max}")
        if kind != "stop":
            self._check_stage(f"{kind}.stage", getattr(request, kind).stage)
        if kind == "acknowledge":
            return await self._acknowledge(request.acknowledge.stage)
        author = Author(request.by, request.why, time.time())
        edit = await self._stop(request.stop.id, author.at_s) if kind == "stop" else messages.edit(request, author.at_s)
        if kind == "start":
            await self._trials.check_metric(request.start.stage, request.start.primary)
        made = await self._writer.change(edit, author, request.expected_version)
        problem = await self._writer.taken(lambda live: live.current.version >= made.table.version)
        return pb.ChangeVariantsResponse(version=made.table.version, summary=made.summary, problem=problem)

    async def _acknowledge(self, stage: str) -> pb.ChangeVariantsResponse:
        over = await self._writer.acknowledge(stage)
        names = ", ".join(each.variant for each in over)
        summary = f"{stage}: the rollback of {names} lies over the chart's values no more"
        problem = await self._writer.taken(lambda live: not {*over} & {*live.overlay.rolled_back})
        return pb.ChangeVariantsResponse(version=self._live.current.version, summary=summary, problem=problem)

    async def _stop(self, id: str, at_s: float) -> Edit:
        """Return the end of an experiment, with its outcome at this moment."""
        return partial(experiments.stop, id=id, result=await self._trials.outcome(self._live.current, id), at_s=at_s)

    def _check_stage(self, field: str, stage: str) -> None:
        known = {*self._stages(), *self._live.current.stages}
        if stage not in known:
            raise InvalidRequest(field, f"{stage!r} is no stage; use one of: {', '.join(sorted(known))}")

    def _check_admin(self) -> None:
        if not self._admin:
            raise Unsupported(OFF)


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    """Tells other gateways the counts of this one.

    Args:
        ledger: The counts.
        gateway: Id of this gateway.
    """

    def __init__(self, ledger: Ledger, gateway: str) -> None:
        self._ledger, self._gateway = ledger, gateway

    async def GetVariantCounts(
        self, request: gateway_pb2.GetVariantCountsRequest, context: Any
    ) -> gateway_pb2.GetVariantCountsResponse:
        if len(request.spans) > SPANS_MAX:
            raise InvalidRequest("spans", f"{len(request.spans)} of them; ask for at most {SPANS_MAX}")
        spans = [Span(each.stage, each.begin_s, each.end_s) for each in request.spans]
        return gateway_pb2.GetVariantCountsResponse(
            gateway=self._gateway, spans=[peers.message(self._ledger.counts(span)) for span in spans]
        )
