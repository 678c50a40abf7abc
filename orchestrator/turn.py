"""One turn while it runs: its routes, what serves it, and the tasks that end with it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from orchestrator.flow import Kept
from orchestrator.keeping import Keeper
from orchestrator.memory import Memory
from orchestrator.report import Loss, Report, Timing, loss_of
from orchestrator.routing import TTS, VIDEO, WRITER, Routing
from orchestrator.stages import Tts, Video
from services.common.channels import BalancedChannel
from services.common.errors import (
    BackendFailed,
    DeadlineExceeded,
    FailedPrecondition,
    NotReady,
    ServiceError,
    Unsupported,
)
from services.common.variants.choosing import Chosen

log = logging.getLogger(__name__)

REPORTED = {TTS: "speech", VIDEO: "video", WRITER: "reply"}
"""Stages of a turn by the stages that have variants."""
LOST = (NotReady, BackendFailed, DeadlineExceeded, Unsupported)
"""Errors for which the control takes over from another variant. A full queue is none: it would move a crowd."""

Result = TypeVar("Result")


@dataclass
class Turn:
    """State that the stages of one turn share. Times are monotonic.

    Attributes:
        header: Request; its tenant is filled.
        output: How much of a reply is still made.
        report: Events, work and losses.
        routing: Choice of variants.
        memory: The memory.
        keeper: Keeps the turn.
        left_s: Tells the seconds that a stage may still take.
        idle_s: Seconds that a stage may be silent over its work.
        to_voice: Makes the client of a voice.
        to_face: Makes the client of a renderer.
        chosen: Variant of each stage that has been reached.
        served: Who serves each stage, as it said itself.
        sentences: Reply, as it is written.
        speech: Speech, as it is spoken.
        samples: Samples of speech so far.
        first_video_s: When the first video came; 0 before.
        derived: Tasks that keep what models derived.
        rate_hz: Sample rate of the speech, once the voice is ready; 0 when there is none.
        rendering: Rendering of speech of that rate.
    """

    header: pb.RespondHeader
    output: pb.Output
    report: Report
    routing: Routing
    memory: Memory
    keeper: Keeper
    left_s: Callable[[], float]
    idle_s: float
    to_voice: Callable[[BalancedChannel], Tts]
    to_face: Callable[[BalancedChannel], Video]
    chosen: dict[str, Chosen] = field(default_factory=dict)
    served: dict[str, pb.Served] = field(default_factory=dict)
    sentences: Kept[str] = field(default_factory=Kept)
    speech: Kept[tts.SpeechChunk] = field(default_factory=Kept)
    samples: int = 0
    first_video_s: float = 0.0
    derived: list[asyncio.Task[None]] = field(default_factory=list)
    rate_hz: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    rendering: asyncio.Task[None] | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def audio_s(self) -> float:
        """Seconds of speech so far."""
        rate_hz = self.rate_hz.result() if self.rate_hz.done() else 0
        return self.samples / rate_hz if rate_hz else 0.0

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run something beside the rest of the turn, and no longer than it."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        return task

    @property
    def voice(self) -> Tts:
        """Voice that serves now."""
        return self.to_voice(self.channel(TTS))

    @property
    def face(self) -> Video:
        """Renderer that serves now."""
        return self.to_face(self.channel(VIDEO))

    def channel(self, stage: str) -> BalancedChannel:
        """Return the channel to the variant that serves a stage."""
        return self.routing.channel(self.chosen[stage])

    async def stop(self) -> None:
        """Stop all that still runs, and end what shadows read."""
        self.sentences.end()
        self.speech.end()
        if not self.rate_hz.done():
            self.rate_hz.set_result(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reference(self, identity: identities.Identity, digest: str) -> bytes:
        """Return a file of the identity."""
        return await self.memory.reference(self.header.tenant, identity, digest)

    def keep_derived(self, identity: identities.Identity, digests: Sequence[str], model: str, content: bytes) -> None:
        """Keep what a model derived, beside what else runs, so that no replica derives it again."""
        keeping = self.memory.keep_derived(self.header.tenant, identity, digests, model, content)
        self.derived.append(self.start(keeping))

    def is_served(self, stage: str, card: common.ModelCard, timing: Timing) -> None:
        """Note and tell which model serves a stage."""
        served = pb.Served(stage=stage, variant=self.chosen[stage].variant, card=card)
        timing.model, timing.variant = card.backend, served.variant
        if served != self.served.get(stage):
            self.served[stage] = served
            names = {"variant": served.variant, "model": card.backend, "digest": card.digest}
            log.info("served", extra={"stage": stage, **names, "reason": self.chosen[stage].reason})
            self.report.tell(pb.RespondResponse(served=served))

    def move(self, stage: str, error: ServiceError, timing: Timing) -> bool:
        """Have the control serve a stage whose variant failed before anything was heard or seen; tell whether it will.

        Args:
            stage: The stage.
            error: Its failure.
            timing: Work of the variant so far.
        """
        chosen = self.chosen[stage]
        has_begun = {TTS: self.samples > 0, VIDEO: self.first_video_s > 0}.get(stage, False)
        if has_begun or self.routing.is_control(chosen) or not isinstance(error, LOST):
            return False
        failed = Timing(timing.start_s, model=timing.model, variant=chosen.variant, outcome="failed")
        self.report.outcomes.append((REPORTED[stage], failed))
        self.chosen[stage] = self.routing.control(stage)
        if stage == TTS and self.rate_hz.done():  # The control's rate may be another, and nothing was spoken yet.
            self.rate_hz = asyncio.get_running_loop().create_future()
            if self.rendering:
                self.rendering.cancel()
        self.tell_moved(stage, chosen.variant, str(error))
        return True

    def tell_moved(self, stage: str, variant: str, reason: str) -> None:
        """Tell that another variant serves than was chosen."""
        instead = self.chosen[stage].variant
        why = f"{instead!r} serves instead of {variant!r}: {reason}"
        self.report.degrade(REPORTED[stage], Loss.VARIANT, why)

    def drop(self, stage: str, error: ServiceError, output: pb.Output) -> None:
        """Go on with less output; but a service with another ontology is a fault of the deployment, not of the turn."""
        if isinstance(error, FailedPrecondition):
            raise error
        has_begun = self.first_video_s if stage == "video" else self.samples
        loss = loss_of(stage, bool(has_begun), self.output)
        self.output = min(self.output, output)
        self.report.degrade(stage, loss, str(error))
