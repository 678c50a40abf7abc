"""Route a turn: the variant of each stage, and the channel to it."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from services.common import tracing
from services.common.channels import BalancedChannel
from services.common.errors import InvalidRequest, NotReady
from services.common.variants.channels import VariantChannels
from services.common.variants.choosing import Chosen, Reason, UnknownVariant, choose, shadows
from services.common.variants.table import Experiment, Table

WRITER, TTS, VIDEO = "writer", "tts", "video"
PINNED = (WRITER, TTS, VIDEO)
"""Stages whose variant a conversation keeps: nobody hears a new voice in mid-dialogue."""
VOTER = "mllm-"
"""Prefix of a voter's stage."""
READY_S = 2.0
"""Time that a turn waits for a replica where none is ready, as beside a restart."""


@dataclass
class Routing:
    """Choices of one turn, of one table.

    Attributes:
        table: The table; the turn keeps it.
        channels: Channels to all variants.
        header: Request of the turn; its tenant is filled.
        overrides: Variants that the caller names, by stage.
    """

    table: Table
    channels: VariantChannels
    header: pb.RespondHeader
    overrides: Mapping[str, str] = field(default_factory=dict)
    _pinned: Mapping[str, str] = field(default_factory=dict)
    _assigned: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a variant that the caller names and that there is not.

        Raises:
            InvalidRequest: A stage or a variant is unknown.
        """
        for stage in self.overrides:
            if stage not in PINNED and not stage.startswith(VOTER):
                known = ", ".join([*PINNED, f"{VOTER}VOTER"])
                raise InvalidRequest("e3rg-variant", f"{stage!r} is no stage with variants; use one of: {known}")
            self.choose(stage)

    def recalled(self, answer: memory.RecallResponse) -> None:
        """Note what served the conversation's last turn, and the user's first one in the experiment."""
        self._pinned, self._assigned = answer.variants, answer.assigned

    def choose(self, stage: str) -> Chosen:
        """Choose the variant of a stage; of a pinned one after `recalled`.

        Raises:
            InvalidRequest: The caller names one that there is not.
        """
        pinned = self._pinned.get(stage, "") if stage in PINNED else ""
        override, assigned = self.overrides.get(stage, ""), self._assigned.get(stage, "")
        try:
            return choose(self.table, stage, self._key, pinned, override, assigned)
        except UnknownVariant as error:
            raise InvalidRequest("e3rg-variant", str(error)) from None

    def control(self, stage: str) -> Chosen:
        """Return the control of a stage, for a variant that cannot serve."""
        return Chosen(stage, self.table.stage(stage).control, Reason.FALLBACK)

    def is_control(self, chosen: Chosen) -> bool:
        """Tell whether there is no other variant to go to."""
        return chosen.variant == self.table.stage(chosen.stage).control

    def channel(self, chosen: Chosen) -> BalancedChannel:
        """Return the channel to a variant."""
        return self.channels.of(self.table, chosen.stage, chosen.variant)

    async def ready(self, chosen: Chosen) -> Chosen:
        """Return a variant, or the control where no replica of it takes calls.

        Raises:
            NotReady: The control has no replica that takes calls either.
        """
        if not self.channel(chosen).replicas.ready and not self.is_control(chosen):
            chosen = self.control(chosen.stage)
        replicas = self.channel(chosen).replicas
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(replicas.wait_ready(), READY_S)
        if not replicas.ready:
            raise NotReady(f"{chosen.stage}: {replicas.problem}")
        return chosen

    def voters(self) -> list[understanding.VoterVariant]:
        """Return the variants that vote, by the key alone: recall is not waited for."""
        names = [name for name in self.table.stages if name.startswith(VOTER)]
        chosen = {name: self.choose(name).variant for name in names}
        return [
            understanding.VoterVariant(
                voter=name.removeprefix(VOTER),
                variant=variant,
                shadows=self.shadows(name, variant),
                named=name in self.overrides,
            )
            for name, variant in chosen.items()
        ]

    def shadows(self, stage: str, variant: str) -> tuple[str, ...]:
        """Return the variants of a stage that get a copy of this turn's work."""
        return shadows(self.table, stage, tracing.trace_id() or self._key, variant)

    @property
    def experiment(self) -> str:
        """Id of the experiment that runs; empty for none."""
        return self.table.experiment.id if self.table.experiment else ""

    def trial(self, chosen: Mapping[str, Chosen], variants: Mapping[str, str]) -> Experiment | None:
        """Return the experiment that the turn belongs to.

        None where its stage did not serve, and for a tester's choice. None too where a user who is not assigned yet was
        served by a variant that was not drawn: that of an older conversation, or the control for one that is away.

        Args:
            chosen: Variants that were chosen.
            variants: Variants that served.
        """
        experiment = self.table.experiment
        if not experiment or experiment.stage not in variants or experiment.stage in self.overrides:
            return None
        reason = chosen[experiment.stage].reason if experiment.stage in chosen else Reason.WEIGHT
        is_drawn = reason not in (Reason.PINNED, Reason.FALLBACK)
        return experiment if is_drawn or experiment.stage in self._assigned else None

    @property
    def _key(self) -> str:
        header = self.header
        if header.person:
            return f"user {header.tenant} {header.person}"
        if header.conversation:
            return f"conversation {header.tenant} {header.identity} {header.conversation}"
        return f"trace {tracing.trace_id()}"
