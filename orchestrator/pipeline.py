"""Pipeline of a turn: recall beside understanding, speech while the reply is written, video while it is spoken."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from emotions import Wheel
from orchestrator.delivery import Capabilities, check_wishes, decide_delivery
from orchestrator.generators import Generators
from orchestrator.keeping import Keeper, ServedBy, served_by
from orchestrator.memory import Memory
from orchestrator.messages import to_history, to_understand
from orchestrator.recalling import Recaller
from orchestrator.reply_stage import ReplyStage
from orchestrator.report import Loss, Report, Timing
from orchestrator.risks import Risks
from orchestrator.routing import TTS, VIDEO, Routing
from orchestrator.shadows import Shadows, TurnShadows
from orchestrator.speech_stage import SpeechStage
from orchestrator.stages import Tts, Understanding, Video
from orchestrator.turn import Turn
from orchestrator.video_stage import VideoStage
from services.common import rpc, tracing
from services.common.channels import BalancedChannel, near
from services.common.clock import now_s
from services.common.errors import DeadlineExceeded, FailedPrecondition, InvalidRequest, ServiceError
from services.common.variants.channels import VariantChannels
from services.common.variants.live import LiveTable

FAREWELL_S = 0.5
"""Time that a turn needs to end well after its video is given up for lack of time."""
SPOKEN_ENGLISH = ("", "und")
"""Languages of messages, as the panel tells them, that are answered in English."""
LAST_WORD_S = 0.25
"""Part of it for the time after the last attempt to keep something: `done` comes all the same."""


Observe = Callable[[Turn, Sequence[understanding.Vote]], None]


@dataclass(frozen=True)
class Pipeline:
    """Runs turns through the stages."""

    understanding: Understanding
    memory: Memory
    channels: VariantChannels
    variants: LiveTable
    wheel: Wheel
    turn_deadline_s: float
    turn_deadline_max_s: float
    history_turns: int
    risks: Risks
    stage_idle_s: float = 20.0
    shadows: Shadows = field(default_factory=Shadows)
    to_voice: Callable[[BalancedChannel], Tts] = Tts
    to_face: Callable[[BalancedChannel], Video] = Video
    observe: Observe = lambda turn, votes: None
    """Gets each turn when it has ended, with its votes."""

    async def respond(
        self,
        header: pb.RespondHeader,
        media: AsyncIterator[pb.RespondRequest],
        overrides: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[pb.RespondResponse]:
        """Yields the events of a turn as they happen. Closing this stops every stage.

        Raises:
            ServiceError: The turn cannot be answered at all.
        """
        check_wishes(header, self.wheel)
        routing = Routing(self.variants.current, self.channels, header, overrides or {})
        routing.check()
        turn = _Story(self, header, media, routing)
        running = asyncio.create_task(turn.run())
        running.add_done_callback(lambda _: turn.report.events.end())
        try:
            async for event in turn.report.events:
                yield event
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def tts(self) -> Tts:
        """Return the voice that is the control now."""
        return Tts(self.channels.of(self.variants.current, TTS, self.variants.current.stage(TTS).control))

    def video(self) -> Video:
        """Return the renderer that is the control now."""
        return Video(self.channels.of(self.variants.current, VIDEO, self.variants.current.stage(VIDEO).control))

    def check_wheel(self, service: str, digest: str) -> None:
        """Refuses a service that means something else by the same word.

        Raises:
            FailedPrecondition: It uses another emotion wheel.
        """
        if digest != self.wheel.digest:
            raise FailedPrecondition(
                f"{service} uses emotion wheel {digest[:12] or 'of no name'}, the orchestrator"
                f" {self.wheel.digest[:12]}; deploy the same version of both"
            )


class _Story:
    """One turn from its request to `done`. Times are monotonic until they leave in an event."""

    def __init__(
        self,
        pipeline: Pipeline,
        header: pb.RespondHeader,
        media: AsyncIterator[pb.RespondRequest],
        routing: Routing,
    ) -> None:
        self._pipeline = pipeline
        self._header = header
        self._media = media
        self.report = Report()
        asked_s = rpc.remaining_s()
        self._limit_s = min(pipeline.turn_deadline_s if asked_s is None else asked_s, pipeline.turn_deadline_max_s)
        self._end_s = self.report.received_s + self._limit_s
        keeper = Keeper(pipeline.memory, header, self.report, lambda: self._left_s(LAST_WORD_S))
        self._turn = Turn(
            header=header,
            output=header.output or pb.OUTPUT_VIDEO,
            report=self.report,
            routing=routing,
            memory=pipeline.memory,
            keeper=keeper,
            left_s=self._left_s,
            idle_s=pipeline.stage_idle_s,
            to_voice=pipeline.to_voice,
            to_face=pipeline.to_face,
        )
        self._shadows = TurnShadows(self._turn, pipeline.shadows)
        self._generators = Generators(self._turn, pipeline.check_wheel)
        self._votes: Sequence[understanding.Vote] = ()
        self._recaller = Recaller(pipeline.memory, header, self.report)

    async def run(self) -> None:
        """Lives through the turn; whatever happens, no stage is left working."""
        try:
            with self.report.turn(self._turn.output):
                await self._run()
        finally:
            self._pipeline.observe(self._turn, self._votes)

    async def _run(self) -> None:
        if self._header.conversation:
            near.set(f"{self._header.tenant} {self._header.identity} {self._header.conversation}")
        try:
            async with asyncio.timeout(self._limit_s):
                await self._tell_story()
        except TimeoutError:
            problem = f"the turn took longer than {self._limit_s:g} s"
            raise DeadlineExceeded(
                f"{problem}; at most {self._pipeline.turn_deadline_max_s:g} s may be allowed"
            ) from None
        finally:
            # In the block that measures the turn, so that every stage has ended before it.
            await self._turn.stop()

    async def _tell_story(self) -> None:
        turn, tell = self._turn, self.report.tell
        recalling = turn.start(self._recall())
        reaching = turn.start(self._reach(recalling))
        if self._header.quality:
            await reaching  # a wish that the renderer cannot fulfil is refused before any work is done
        hearing = turn.start(self._understand(recalling))
        ready = asyncio.Event()
        searching = turn.start(self._recaller.search(recalling, hearing, ready))
        understood = await hearing
        self._votes = understood.record.votes
        keeping_risk = self._raise_risk(understood)
        recalled = await recalling
        await reaching
        ready.set()

        tell(pb.RespondResponse(identity=recalled))
        tell(pb.RespondResponse(understood=understood))
        delivery = pb.Delivery()

        def decide(able: Capabilities) -> pb.Delivery:
            return decide_delivery(self._pipeline.wheel, self._header, understood, recalled.emotion_bank, able)

        def deliver() -> pb.Delivery:
            """Tells how the reply is delivered, again when another voice or face takes over that has other ways."""
            now = decide(self._generators.capabilities())
            if now != delivery:
                delivery.CopyFrom(now)
                tell(pb.RespondResponse(delivery=now))
            return now

        deliver()
        self._mute(understood.language)
        voice = SpeechStage(turn, self._generators.voice, deliver)
        speaking = turn.start(voice.run(recalled.identity))
        self._shadows.speak_and_render(recalled.identity, decide)
        filming = turn.start(VideoStage(turn, self._generators.renderer, deliver).run(recalled.identity))
        reply = ReplyStage(turn, self._pipeline.understanding, self._shadows)
        text, record = await reply.run(understood, recalled, await searching, delivery.emotion)
        served = self._served_by(understood)
        remembering = turn.start(turn.keeper.remember(recalled, understood, text, delivery, served))
        await asyncio.gather(speaking, filming)
        if turn.derived:
            with self.report.stage("keep_derived"):
                await asyncio.wait(turn.derived, timeout=self._left_s())
        if error := await keeping_risk:
            self.report.degrade("remember", Loss.RISK, str(error))
        turn_id = await remembering
        if turn_id and self._header.keep_clips:
            await turn.keeper.keep_clips(turn_id)
        self.report.end(turn.speech.first_s, turn.first_video_s)
        if turn_id:
            await turn.keeper.keep_outcome(turn_id, self._served_by(understood))
        done = pb.Done(
            text=text, record=record, trace_id=tracing.trace_id(), audio_duration_s=turn.audio_s, turn=turn_id
        )
        tell(pb.RespondResponse(done=done))

    def _raise_risk(self, understood: understanding.UnderstandResponse) -> asyncio.Future[ServiceError | None]:
        """Begin to keep and tell the risk of a message; return the keeping, which the turn's end does not stop."""
        if understood.undecided:
            self.report.degrade("vote", Loss.VOTE, understood.undecided)
        if not understood.risk_is_new:
            nothing: asyncio.Future[ServiceError | None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        event, keeping = self._pipeline.risks.raise_(self._header, understood)
        self.report.tell(pb.RespondResponse(risk_raised=event))
        return asyncio.shield(keeping)

    def _mute(self, language: str) -> None:
        """Go on with text alone where the voice does not speak the language of the reply."""
        turn = self._turn
        if turn.output < pb.OUTPUT_AUDIO or language in SPOKEN_ENGLISH:
            return
        spoken = self._generators.languages()
        if spoken and language not in spoken:
            problem = f"the reply is in {language!r}, which the voice does not speak; it speaks: {', '.join(spoken)}"
            turn.drop("speech", InvalidRequest("language", problem), pb.OUTPUT_TEXT)

    async def _recall(self) -> memory.RecallResponse:
        turn = self._turn
        recalled = await self._recaller.recall(turn.output, self._pipeline.history_turns, turn.routing.experiment)
        self._pipeline.check_wheel("memory", recalled.ontology_hash)
        turn.routing.recalled(recalled)
        return recalled

    async def _reach(self, recalling: asyncio.Task[memory.RecallResponse]) -> None:
        if self._turn.output >= pb.OUTPUT_AUDIO:
            await recalling  # It tells which variants the conversation has had.
            await self._generators.reach()

    def _served_by(self, understood: understanding.UnderstandResponse) -> ServedBy:
        turn = self._turn
        return served_by(turn.routing, understood, turn.chosen, turn.served)

    async def _understand(self, recalling: asyncio.Task[memory.RecallResponse]) -> understanding.UnderstandResponse:
        asked_s = 0.0

        async def context() -> understanding.UnderstandContext:
            nonlocal asked_s
            self.report.received_s = now_s()
            recalled = await recalling
            asked_s = now_s()
            return understanding.UnderstandContext(history=to_history(recalled.turns), risks=recalled.risks)

        routing = self._turn.routing
        parts = to_understand(
            self._header, self._pipeline.wheel.digest, self._media, context, routing.voters(), routing.table.version
        )
        with self.report.stage("vote", "panel") as vote:
            understood = await self._pipeline.understanding.understand(parts)
            start_s = self.report.received_s
            for stage in ("decode", "transcribe"):
                if seconds := getattr(understood, f"{stage}_s"):
                    self.report.time(stage, Timing(start_s), start_s + seconds)
                start_s += seconds
            # The votes need what was recalled, and the way there and back is theirs.
            vote.start_s = max(start_s, asked_s)
        return understood

    def _left_s(self, farewell_s: float = FAREWELL_S) -> float:
        """Return the seconds that a stage may still take so that the turn can end in time, its loss included."""
        allowed_s = self._end_s - now_s()
        remaining_s = rpc.remaining_s()
        return max(0.0, (allowed_s if remaining_s is None else min(allowed_s, remaining_s)) - farewell_s)
