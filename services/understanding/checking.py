"""Check of the voters' and the writer's variants, before a gateway takes their table."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from e3rg.common.v1 import common_pb2 as common
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.understanding.v1 import understanding_pb2 as pb
from services.common.errors import InvalidRequest
from services.common.variants.table import SHARE, Stage, Table, Variant, problems
from services.understanding.variants import WRITER, Clients, stage_of

READY_S = 8.0
"""Time that a new variant gets until one of its replicas takes calls."""


class VariantCheck:
    """Checks variants against the replicas behind them.

    Args:
        clients: Clients of all variants.
    """

    def __init__(self, clients: Clients) -> None:
        self._channels, self._wheel = clients.channels, clients.wheel
        self._stages = (*map(stage_of, clients.voters), WRITER)

    async def check(self, variants: Sequence[pb.StageVariant]) -> pb.CheckVariantsResponse:
        """Open channels to the variants, wait for their replicas, and tell what is wrong with them.

        Raises:
            InvalidRequest: A stage has no control, or a name or an address is none.
        """
        table = _table(variants)
        if strange := [name for name in table.stages if name not in self._stages]:
            known = f"the panel has no such stage; use one of: {', '.join(self._stages)}"
            return pb.CheckVariantsResponse(problems=[f"stages.{name}: {known}" for name in strange])
        self._channels.open(table)
        needed = [each for each in variants if each.needed]
        await asyncio.gather(*(self._wait(table, each) for each in needed))
        found = pb.CheckVariantsResponse()
        for each in needed:
            where = f"stages.{each.stage}.variants.{each.variant}"
            replicas = self._channels.of(table, each.stage, each.variant).replicas
            if replicas.problem:
                found.not_ready.append(f"{where}: no replica takes calls: {replicas.problem}")
            found.problems.extend(f"{where}: {problem}" for problem in self._problems(table, each))
            found.lost.extend(f"{where}: {lost}" for lost in self._lost(table, each))
        return found

    async def _wait(self, table: Table, each: pb.StageVariant) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._channels.of(table, each.stage, each.variant).replicas.wait_ready(), READY_S)

    def _models(self, table: Table, stage: str, variant: str) -> list[mllm.GetModelResponse]:
        return self._channels.of(table, stage, variant).replicas.models(mllm.GetModelResponse)

    def _problems(self, table: Table, each: pb.StageVariant) -> Iterator[str]:
        does, verb = (
            (mllm.OPERATION_WRITE, "write replies") if each.stage == WRITER else (mllm.OPERATION_PREDICT, "vote")
        )
        if strange := self._channels.of(table, each.stage, each.variant).replicas.strange(mllm.GetModelResponse):
            yield strange
        for model in self._models(table, each.stage, each.variant):
            digest = model.card.ontology_hash
            if digest != self._wheel.digest:
                yield (
                    f"it uses emotion wheel {digest[:12]}, the panel {self._wheel.digest[:12]};"
                    " deploy the same version of both"
                )
            if does not in model.operations:
                yield f"its model cannot {verb}"

    def _lost(self, table: Table, each: pb.StageVariant) -> Iterator[str]:
        """Yield what votes lack that a variant gives, compared with the control."""
        mine = self._models(table, each.stage, each.variant)
        control = self._models(table, each.stage, table.stage(each.stage).control)
        if each.stage == WRITER or not mine:
            return
        had, has = ({sense for model in models for sense in model.perceives} for models in (control, mine))
        if missing := sorted(had - has):
            names = (common.Modality.Name(sense).removeprefix("MODALITY_").lower() for sense in missing)
            yield f"it does not perceive {', '.join(names)}"
        fine, coarse = ({model.level for model in models} for models in (control, mine))
        if mllm.LEVEL_LABEL in fine and coarse == {mllm.LEVEL_CLASS}:
            yield "it tells classes only"


def _table(variants: Sequence[pb.StageVariant]) -> Table:
    """Return a table of variants to check, whose weights mean nothing."""
    stages: dict[str, list[pb.StageVariant]] = {}
    for each in variants:
        stages.setdefault(each.stage, []).append(each)
    try:
        return Table(stages={name: _stage(found) for name, found in stages.items()})
    except ValidationError as error:
        raise InvalidRequest("variants", problems(error)) from None


def _stage(variants: Sequence[pb.StageVariant]) -> Stage:
    control = next((each.variant for each in variants if each.control), "")
    return Stage(
        control=control,
        variants={
            each.variant: Variant(address=each.address, weight=SHARE if each.variant == control else 0)
            for each in variants
        },
    )
