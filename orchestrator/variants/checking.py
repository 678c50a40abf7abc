"""Check that the variants of a table can serve before the table is taken."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from orchestrator.routing import PINNED, TTS, VIDEO, VOTER
from orchestrator.stages import Understanding
from orchestrator.variants.messages import Behind
from services.common.errors import NotReady
from services.common.metrics import DIGEST_CHARS
from services.common.variants.channels import VariantChannels
from services.common.variants.table import InvalidTable, Stage, State, Table, Variant

log = logging.getLogger(__name__)

KINDS: Mapping[str, type[tts.GetModelResponse | video.GetModelResponse]] = {
    TTS: tts.GetModelResponse,
    VIDEO: video.GetModelResponse,
}
"""Messages by which replicas tell their models."""
READY_S = 10.0
"""Time that a new variant gets until one of its replicas takes calls."""


class VariantCheck:
    """Checks tables against the replicas behind them.

    Args:
        channels: Channels to the variants of voice and face.
        understanding: The panel, which checks those of voters and writer.
        ontology: Digest of the gateway's ontology.
        current: Tells the table in use.
    """

    def __init__(
        self, channels: VariantChannels, understanding: Understanding, ontology: str, current: Callable[[], Table]
    ) -> None:
        self._channels, self._understanding = channels, understanding
        self._ontology, self._current = ontology, current

    def prepare(self, tables: Sequence[Table]) -> None:
        """Open channels to the variants of the last table; close those that none of the tables needs."""
        self._channels.open(tables[-1])
        self._channels.close_others(tables)

    async def check(self, table: Table) -> None:
        """Wait until each variant can serve that gets more of the traffic than it has.

        The others stay as they are: a variant that is away must not hinder taking back another one.

        Raises:
            InvalidTable: A stage has no variants here, a model has another ontology, or the writer's cannot write.
            NotReady: A variant has no replica that takes calls.
            ServiceError: The panel, which is asked about voters and writer, cannot tell.
        """
        for name in table.stages:
            if name not in PINNED and not name.startswith(VOTER):
                known = ", ".join([*PINNED, f"{VOTER}VOTER"])
                raise InvalidTable(f"stages.{name}: no stage with variants; use one of: {known}")
        checks = (
            self._check_variant(table, stage, name)
            for stage in self._channels.addresses
            for name in _needed(table.stage(stage), self._current().stage(stage))
        )
        lost, _ = await asyncio.gather(self._check_panel(table), asyncio.gather(*checks))
        for each in (*lost, *self.lost(table)):
            log.warning("a variant lacks what the control has", extra={"version": table.version, "lost": each})

    async def _check_variant(self, table: Table, stage: str, name: str) -> None:
        replicas = self._channels.of(table, stage, name).replicas
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(replicas.wait_ready(), READY_S)
        if not replicas.ready:
            raise NotReady(f"stages.{stage}.variants.{name}: no replica takes calls: {replicas.problem}")
        if strange := replicas.strange(KINDS[stage]):
            raise InvalidTable(f"stages.{stage}.variants.{name}.address: {strange}")
        for model in self._models(table, stage, name):
            if model.card.ontology_hash != self._ontology:
                problem = f"it uses emotion wheel {model.card.ontology_hash[:12]}, the gateway {self._ontology[:12]}"
                raise InvalidTable(f"stages.{stage}.variants.{name}: {problem}; deploy the same version of both")

    async def _check_panel(self, table: Table) -> Sequence[str]:
        """Have the panel check voters and writer; return what their variants lack, compared with the control."""
        asked = [
            understanding.StageVariant(
                stage=stage,
                variant=name,
                address=variant.address,
                needed=name in _needed(table.stage(stage), self._current().stage(stage)),
                control=name == table.stage(stage).control,
            )
            for stage in table.stages
            if stage not in self._channels.addresses
            for name, variant in table.stage(stage).variants.items()
            if variant.state is not State.OFF or name == table.stage(stage).control
        ]
        if not asked:
            return ()
        found = await self._understanding.check_variants(asked)
        if found.problems:
            raise InvalidTable("; ".join(found.problems))
        if found.not_ready:
            raise NotReady("; ".join(found.not_ready))
        return found.lost

    def _models(self, table: Table, stage: str, name: str) -> Sequence[tts.GetModelResponse | video.GetModelResponse]:
        return self._channels.of(table, stage, name).replicas.models(KINDS[stage])

    def behind(self, table: Table, stage: str, name: str) -> Behind:
        """Return the replicas behind a variant; none of a stage that the gateway does not call itself."""
        if stage not in self._channels.addresses or table.stage(stage).variants[name].state is State.OFF:
            return Behind()
        replicas = self._channels.of(table, stage, name).replicas
        models = {
            f"{model.card.backend} {model.card.digest[:DIGEST_CHARS]}" for model in self._models(table, stage, name)
        }
        return Behind(replicas.known, len(replicas.ready), tuple(sorted(models)))

    def lost(self, table: Table) -> list[str]:
        """Return what replies lack that a variant serves, compared with the control, by field of the table."""
        return [
            f"stages.{stage}.variants.{name}: {what}"
            for stage in self._channels.addresses
            for name in table.stage(stage).variants
            for what in self._lost(table, stage, name)
        ]

    def _lost(self, table: Table, stage: str, name: str) -> Iterator[str]:
        mine = self._models(table, stage, name)
        control = self._models(table, stage, table.stage(stage).control)
        for field in {TTS: ("styles", "languages"), VIDEO: ("face_classes", "qualities")}[stage]:
            had, has = ({each for model in models for each in getattr(model, field)} for models in (control, mine))
            if missing := had - has:
                yield f"no {field.replace('_', ' ')} {', '.join(sorted(missing))}"


def _needed(stage: Stage, before: Stage) -> list[str]:
    """Return the variants that get new conversations, or more of them than before."""
    return [
        name
        for name, variant in stage.variants.items()
        if variant.state is State.SERVING
        and (variant.weight > _weight(before, name, variant) or name == stage.control != before.control)
    ]


def _weight(stage: Stage, name: str, variant: Variant) -> float:
    """Return the weight that a variant has at the same address; -1 where it is not there."""
    found = stage.variants.get(name)
    return found.weight if found and (found.address, found.state) == (variant.address, variant.state) else -1.0
