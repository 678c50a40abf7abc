"""Shadows of a turn: variants that do a copy of its work, which nobody hears, sees or keeps."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from orchestrator.delivery import Capabilities
from orchestrator.filming import Camera
from orchestrator.memory import REFERENCES_KEEP_S
from orchestrator.messages import Scene, Speaker, portrait_of, to_speak, voices_of
from orchestrator.report import Timing
from orchestrator.routing import TTS, VIDEO, WRITER
from orchestrator.stages import Understanding
from orchestrator.turn import Turn
from services.common import deadline, metrics
from services.common.channels import BalancedChannel
from services.common.clock import now_s
from services.common.errors import NotReady, ServiceError
from services.common.variants.choosing import Chosen, Reason

SHADOWS_MAX = 4
"""Shadows that one gateway feeds at a time; further ones are skipped."""
SHADOW_S = REFERENCES_KEEP_S
"""Longest life of a shadow. After an erasure no gateway may hold references longer than these seconds."""

Work = Callable[[Timing], Awaitable[None]]
Decide = Callable[[Capabilities], pb.Delivery]


class Shadows:
    """Shadows of all turns of this gateway. They outlive their turns by their own deadline, and cost them nothing."""

    def __init__(self, shadows_max: int = SHADOWS_MAX, timeout_s: float = SHADOW_S) -> None:
        self._max, self._timeout_s = shadows_max, timeout_s
        self._running: set[asyncio.Task[None]] = set()

    def start(self, stage: str, variant: str, work: Work) -> None:
        """Start a shadow, unless as many run as may."""
        if len(self._running) >= self._max:
            self.skip(stage, variant)
            return
        task = asyncio.create_task(self._run(stage, variant, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def skip(self, stage: str, variant: str) -> None:
        """Count a copy that a shadow does not get."""
        metrics.SHADOW_SKIPPED.labels(stage, variant).inc()

    async def idle(self) -> None:
        """Wait until none runs."""
        while self._running:
            await asyncio.wait({*self._running})

    async def close(self) -> None:
        """Stop all."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, stage: str, variant: str, work: Work) -> None:
        deadline.start(self._timeout_s)  # Its own: the turn's may be over before.
        timing = Timing(now_s(), outcome="failed")
        try:
            async with asyncio.timeout(self._timeout_s):
                await work(timing)
            timing.outcome = "ok"
        except TimeoutError:
            timing.outcome = "late"
        except asyncio.CancelledError:
            timing.outcome = "cancelled"
            raise
        except ServiceError:
            pass
        finally:
            metrics.observe(metrics.SHADOW_SECONDS.labels(stage, variant, timing.outcome), now_s() - timing.start_s)
            if timing.first_s:
                first_s = timing.first_s - timing.start_s
                metrics.observe(metrics.SHADOW_FIRST_CHUNK_SECONDS.labels(stage, variant), first_s)


class TurnShadows:
    """Shadows of one turn.

    Args:
        turn: The turn, whose permissions have been checked for all that its variants do.
        shadows: Those of all turns.
    """

    def __init__(self, turn: Turn, shadows: Shadows) -> None:
        self._turn, self._shadows = turn, shadows

    def speak_and_render(self, identity: identities.Identity, decide: Decide) -> None:
        """Have shadow voices speak what is written, and shadow renderers render what is spoken.

        Args:
            identity: The identity.
            decide: Decides how a variant with these abilities delivers the reply.
        """
        for stage, work in ((TTS, self._speak), (VIDEO, self._render)):
            if stage not in self._turn.chosen:
                continue
            routing = self._turn.routing
            for variant in routing.shadows(stage, self._turn.chosen[stage].variant):
                channel = routing.channel(Chosen(stage, variant, Reason.SHADOW))
                if channel.replicas.ready:
                    self._shadows.start(stage, variant, partial(work, channel, identity, decide))
                else:
                    self._shadows.skip(stage, variant)

    def write(self, stage: Understanding, order: mllm.WriteReplyRequest) -> None:
        """Have shadow writers write a reply."""
        turn = self._turn
        for variant in turn.routing.shadows(WRITER, turn.chosen[WRITER].variant):
            request = understanding.WriteReplyRequest(
                reply=order, variant=variant, variants_version=turn.routing.table.version
            )

            self._shadows.start(WRITER, variant, partial(_write, stage, request))

    async def _speak(
        self, channel: BalancedChannel, identity: identities.Identity, decide: Decide, timing: Timing
    ) -> None:
        model = _model(channel, tts.GetModelResponse)
        recordings = {digest: await self._turn.reference(identity, digest) for digest in voices_of(identity)}
        delivery = decide(Capabilities(styles=model.styles))
        request = to_speak(Speaker(identity.profile, recordings, b""), delivery, aiter(self._turn.sentences))
        async with aclosing(self._turn.to_voice(channel).speak(request)) as parts:
            async for part in parts:
                if part.WhichOneof("part") == "chunk":
                    timing.start_s, timing.first_s = self._turn.sentences.first_s, timing.first_s or now_s()

    async def _render(
        self, channel: BalancedChannel, identity: identities.Identity, decide: Decide, timing: Timing
    ) -> None:
        turn, model = self._turn, _model(channel, video.GetModelResponse)
        digest = portrait_of(identity)
        portrait = await turn.reference(identity, digest)
        if not (rate_hz := await asyncio.shield(turn.rate_hz)):
            return

        def left_s() -> float:
            return deadline.remaining_s() or 0.0

        camera = Camera(turn.to_face(channel), model, "", turn.idle_s, left_s, lambda _: None, lambda _: None)
        scene = Scene(decide(Capabilities(classes=model.face_classes)), portrait, digest, rate_hz, turn.header.seed)
        async with aclosing(camera.film(scene, turn.speech)) as chunks:
            async for _ in chunks:
                timing.start_s, timing.first_s = turn.speech.first_s, timing.first_s or now_s()


async def _write(stage: Understanding, request: understanding.WriteReplyRequest, timing: Timing) -> None:
    async with aclosing(stage.write_reply(request)) as parts:
        async for _ in parts:
            timing.first_s = timing.first_s or now_s()


def _model(channel: BalancedChannel, kind: Any) -> Any:
    """Return the model behind a channel, as a replica says.

    Raises:
        NotReady: None takes calls.
    """
    models = channel.replicas.models(kind)
    if not models:
        raise NotReady(channel.replicas.problem or "no replica says which model it has")
    return models[0]
