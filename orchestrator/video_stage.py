"""Video of a turn: the identity's face says the reply, rendered by the variant of the turn or else by the control."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.video.v1 import video_pb2 as video
from orchestrator.filming import Camera
from orchestrator.messages import Scene, portrait_of
from orchestrator.report import Loss, Timing
from orchestrator.routing import VIDEO
from orchestrator.turn import Turn
from services.common.clock import now_s
from services.common.errors import ServiceError


class VideoStage:
    """Renders one reply.

    Args:
        turn: The turn.
        model: Tells the abilities of the renderer that serves now.
        deliver: Tells how the reply is delivered by the variant that serves now.
    """

    def __init__(
        self, turn: Turn, model: Callable[[], video.GetModelResponse], deliver: Callable[[], pb.Delivery]
    ) -> None:
        self._turn = turn
        self._model, self._deliver = model, deliver

    async def run(self, identity: identities.Identity) -> None:
        """Render the speech of the turn; a failure drops the rest of the video."""
        turn = self._turn
        if turn.output < pb.OUTPUT_VIDEO:
            return
        try:
            with turn.report.stage("video", fed=turn.speech, media_s=lambda: turn.audio_s) as timing:
                await self._render_speech(identity, timing)
        except ServiceError as error:
            turn.drop("video", error, pb.OUTPUT_AUDIO)

    async def _render_speech(self, identity: identities.Identity, timing: Timing) -> None:
        """Render the speech; anew when another voice takes over, whose sample rate may be another."""
        turn = self._turn
        await turn.reference(identity, portrait_of(identity))  # Read beside the speech, and named where it is damaged.
        while True:
            told = turn.rate_hz
            rate_hz = await asyncio.shield(told)
            if turn.rate_hz is not told:
                continue
            if not rate_hz:
                timing.outcome = "cancelled"
                return None  # The voice failed before its first sound: there is nothing to render.
            turn.rendering = turn.start(self._render(identity, rate_hz, timing))
            await asyncio.wait({turn.rendering})
            if turn.rate_hz is told:
                return turn.rendering.result()

    async def _render(self, identity: identities.Identity, rate_hz: int, timing: Timing) -> None:
        while True:
            timing.variant = self._turn.chosen[VIDEO].variant
            try:
                return await self._call(identity, rate_hz, timing)
            except ServiceError as error:
                if not self._turn.move(VIDEO, error, timing):
                    raise

    async def _call(self, identity: identities.Identity, rate_hz: int, timing: Timing) -> None:
        """Have the variant of the turn render."""
        turn, model = self._turn, self._model()
        digest, wish = portrait_of(identity), turn.header.quality
        portrait = await turn.reference(identity, digest)
        rigged = await turn.memory.derived(turn.header.tenant, identity, [digest], model.card.digest)
        lowered = Loss.WISHED_QUALITY if wish else Loss.BEST_QUALITY
        camera = Camera(
            turn.face,
            model,
            wish,
            turn.idle_s,
            turn.left_s,
            lambda why: turn.report.degrade("video", lowered, why),
            lambda why: turn.report.degrade("video", Loss.EVEN_MOTION, why),
            # Replicas of an older release say their card only when they are asked.
            lambda made_by, face: turn.keep_derived(identity, [digest], made_by or model.card.digest, face),
            lambda card: turn.is_served(VIDEO, card if card.digest else model.card, timing),
        )
        scene = Scene(self._deliver(), portrait, digest, rate_hz, turn.header.seed, rigged)
        async with aclosing(camera.film(scene, turn.speech)) as chunks:
            async for chunk in chunks:
                if not turn.samples:
                    timing.outcome = "cancelled"
                    return  # The voice failed before its first sound: there is nothing to render.
                timing.first_s = turn.first_video_s = turn.first_video_s or now_s()
                turn.keeper.see(chunk.content)
                turn.report.tell(pb.RespondResponse(video=chunk))
