"""Pipeline of a turn: recall beside understanding, speech while the reply is written, video while it is spoken."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from emotions import Wheel
from orchestrator.delivery import Capabilities, check_quality, check_wishes, decide_delivery
from orchestrator.keeping import Keeper, ServedBy, served_by
from orchestrator.memory import Memory
from orchestrator.messages import to_examples, to_history, to_memories, to_understand
from orchestrator.recalling import Found, Recaller
from orchestrator.report import Loss, Report, Timing
from orchestrator.routing import TTS, VIDEO, WRITER, Routing
from orchestrator.shadows import Shadows, TurnShadows
from orchestrator.speech_stage import SpeechStage
from orchestrator.stages import Tts, Understanding, Video
from orchestrator.turn import Turn
from orchestrator.video_stage import VideoStage
from services.common import rpc, tracing
from services.common.channels import BalancedChannel, near
from services.common.clock import now_s
from services.common.errors import DeadlineExceeded, FailedPrecondition, NotReady, ServiceError
from services.common.variants.channels import VariantChannels
from services.common.variants.choosing import Chosen
from services.common.variants.live import LiveTable

STORED_REPLIES = {
    "exemplar": "no candidate passed the gate",
    "crisis": "a message that speaks of self-harm is never left to a model",
}
"""Why a writer used a stored reply."""

FAREWELL_S = 0.5
"""Time that a turn needs to end well after its video is given up for lack of time."""
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
        self._learned: dict[Chosen, Sequence[Any]] = {}
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
            now = decide(self._capabilities())
            if now != delivery:
                delivery.CopyFrom(now)
                tell(pb.RespondResponse(delivery=now))
            return now

        deliver()
        voice = SpeechStage(turn, self._voice, deliver)
        speaking = turn.start(voice.run(recalled.identity))
        self._shadows.speak_and_render(recalled.identity, decide)
        filming = turn.start(VideoStage(turn, self._renderer, deliver).run(recalled.identity))
        text, record = await self._write(understood, recalled, await searching, delivery)
        served = self._served_by(understood)
        remembering = turn.start(turn.keeper.remember(recalled, understood, text, delivery, served))
        await asyncio.gather(speaking, filming)
        if turn.derived:
            with self.report.stage("keep_derived"):
                await asyncio.wait(turn.derived, timeout=self._left_s())
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

    async def _recall(self) -> memory.RecallResponse:
        turn = self._turn
        recalled = await self._recaller.recall(turn.output, self._pipeline.history_turns, turn.routing.experiment)
        self._pipeline.check_wheel("memory", recalled.ontology_hash)
        turn.routing.recalled(recalled)
        return recalled

    async def _reach(self, recalling: asyncio.Task[memory.RecallResponse]) -> None:
        """Choose voice and face, and learn what they have; one that cannot be reached is dropped from the output."""
        turn = self._turn
        if turn.output < pb.OUTPUT_AUDIO:
            return
        await recalling
        try:
            await self._reach_stage(TTS)
        except ServiceError as error:
            turn.chosen.pop(TTS, None)
            turn.drop("speech", error, pb.OUTPUT_TEXT)
        if turn.output < pb.OUTPUT_VIDEO:
            return
        try:
            await self._reach_stage(VIDEO)
        except ServiceError as error:
            turn.chosen.pop(VIDEO, None)
            turn.drop("video", error, pb.OUTPUT_AUDIO)
        if VIDEO in turn.chosen and self._header.quality:
            check_quality(self._header.quality, self._face().qualities)

    async def _reach_stage(self, stage: str) -> None:
        turn = self._turn
        wanted = turn.routing.choose(stage)
        turn.chosen[stage] = await turn.routing.ready(wanted)
        if turn.chosen[stage].variant != wanted.variant:
            turn.tell_moved(stage, wanted.variant, "no replica of it takes calls")
        if not self._models(stage):  # Replicas of an older release say nothing by themselves.
            service = turn.voice if stage == TTS else turn.face
            self._learned[turn.chosen[stage]] = [await service.model()]
        for model in self._models(stage):
            self._pipeline.check_wheel(stage, model.card.ontology_hash)

    def _models(self, stage: str) -> Sequence[Any]:
        """Return what the replicas of the variant that serves a stage say of their models; empty without output."""
        if stage not in self._turn.chosen:
            return ()
        chosen = self._turn.chosen[stage]
        if chosen not in self._learned:
            kind = tts.GetModelResponse if stage == TTS else video.GetModelResponse
            if not (models := self._turn.channel(stage).replicas.models(kind)):
                return ()
            self._learned[chosen] = models
        return self._learned[chosen]

    def _served_by(self, understood: understanding.UnderstandResponse) -> ServedBy:
        turn = self._turn
        return served_by(turn.routing, understood, turn.chosen, turn.served)

    def _voice(self) -> tts.GetModelResponse:
        """Return what the voice is that serves now.

        Raises:
            NotReady: It took over from another one, and no replica of it takes calls.
        """
        if not (models := self._models(TTS)):
            raise NotReady(f"{TTS}: {self._turn.channel(TTS).replicas.problem or 'no replica says which model it has'}")
        voice: tts.GetModelResponse = models[0]
        return voice

    def _renderer(self) -> video.GetModelResponse:
        """Return what the renderer is that serves now.

        Raises:
            NotReady: It took over from another one, and no replica of it takes calls.
        """
        if not self._models(VIDEO):
            problem = self._turn.channel(VIDEO).replicas.problem
            raise NotReady(f"{VIDEO}: {problem or 'no replica says which model it has'}")
        return self._face()

    def _face(self) -> video.GetModelResponse:
        return next(iter(self._models(VIDEO)), video.GetModelResponse())

    def _capabilities(self) -> Capabilities:
        """Return what voice and face have that serve now; nothing of one that cannot be reached."""
        return Capabilities(_in_all([voice.styles for voice in self._models(TTS)]), tuple(self._face().face_classes))

    async def _understand(self, recalling: asyncio.Task[memory.RecallResponse]) -> understanding.UnderstandResponse:
        asked_s = 0.0

        async def history() -> list[common.Utterance]:
            nonlocal asked_s
            self.report.received_s = now_s()
            turns = (await recalling).turns
            asked_s = now_s()
            return to_history(turns)

        routing = self._turn.routing
        parts = to_understand(
            self._header, self._pipeline.wheel.digest, self._media, history, routing.voters(), routing.table.version
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

    async def _write(
        self,
        understood: understanding.UnderstandResponse,
        recalled: memory.RecallResponse,
        found: Found,
        delivery: pb.Delivery,
    ) -> tuple[str, mllm.ReplyRecord]:
        sentences: list[str] = []
        record = mllm.ReplyRecord()
        if found.turns.hits:
            self.report.tell(pb.RespondResponse(recalled=found.turns))
        order = mllm.WriteReplyRequest(
            text=understood.text,
            history=to_history(recalled.turns),
            user_emotion=understood.emotion,
            reply_emotion=delivery.emotion,
            profile=recalled.identity.profile,
            seed=self._header.seed,
            memories=to_memories(found.turns.hits, time.time()),
            examples=to_examples(found.examples.hits),
        )
        with self.report.stage("reply", made=self._turn.sentences) as timing:
            try:
                await self._write_all(order, sentences, record, timing)
            except ServiceError as error:
                if not sentences:
                    raise
                timing.outcome = "failed"
                self.report.degrade("reply", Loss.REPLY_REST, str(error))
            finally:
                self._turn.sentences.end()
        if record.degraded:
            reason = STORED_REPLIES.get(record.degraded, "the writer does not say why")
            self.report.degrade("reply", Loss.OWN_WORDS, f"{record.degraded}: {reason}")
        return " ".join(sentences), record

    async def _write_all(
        self, order: mllm.WriteReplyRequest, sentences: list[str], record: mllm.ReplyRecord, timing: Timing
    ) -> None:
        """Have the reply written; by the control when the variant of the turn fails before its first sentence."""
        turn = self._turn
        turn.chosen[WRITER] = turn.routing.choose(WRITER)
        self._shadows.write(self._pipeline.understanding, order)
        while True:
            timing.variant = turn.chosen[WRITER].variant
            request = understanding.WriteReplyRequest(
                reply=order, variant=timing.variant, variants_version=turn.routing.table.version
            )
            try:
                async with aclosing(self._pipeline.understanding.write_reply(request)) as parts:
                    async for part in parts:
                        self._take(part, sentences, record, timing)
                return
            except ServiceError as error:
                if sentences or not turn.move(WRITER, error, timing):
                    raise

    def _take(
        self, part: understanding.WriteReplyResponse, sentences: list[str], record: mllm.ReplyRecord, timing: Timing
    ) -> None:
        if part.HasField("card"):
            self._turn.is_served(WRITER, part.card, timing)
        if part.WhichOneof("part") == "record":
            record.CopyFrom(part.record)
            return
        sentences.append(part.sentence)
        self._turn.sentences.put(part.sentence)
        self.report.tell(pb.RespondResponse(text=pb.TextDelta(sentence=part.sentence)))

    def _left_s(self, farewell_s: float = FAREWELL_S) -> float:
        """Return the seconds that a stage may still take so that the turn can end in time, its loss included."""
        allowed_s = self._end_s - now_s()
        remaining_s = rpc.remaining_s()
        return max(0.0, (allowed_s if remaining_s is None else min(allowed_s, remaining_s)) - farewell_s)


def _in_all(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names that are in all lists, in the order of the first."""
    return tuple(name for name in lists[0] if all(name in each for each in lists)) if lists else ()
