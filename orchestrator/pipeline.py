"""Pipeline of a turn: recall beside understanding, speech while the reply is written, video while it is spoken."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from emotions import Wheel
from orchestrator.delivery import Capabilities, check_quality, check_wishes, decide_delivery
from orchestrator.filming import Camera
from orchestrator.flow import Flow, watched
from orchestrator.keeping import Keeper, models_of
from orchestrator.memory import Memory
from orchestrator.messages import (
    Scene,
    Speaker,
    portrait_of,
    to_examples,
    to_history,
    to_memories,
    to_speak,
    to_understand,
    voices_of,
)
from orchestrator.recalling import Found, Recaller
from orchestrator.report import Loss, Report, Timing, loss_of
from orchestrator.resuming import speak_on
from orchestrator.stages import Tts, Understanding, Video
from services.common import rpc, tracing
from services.common.channels import near
from services.common.clock import now_s
from services.common.errors import DeadlineExceeded, FailedPrecondition, ServiceError

STORED_REPLIES = {
    "exemplar": "no candidate passed the gate",
    "crisis": "a message that speaks of self-harm is never left to a model",
}
"""Why a writer used a stored reply."""

FAREWELL_S = 0.5
"""Time that a turn needs to end well after its video is given up for lack of time."""
LAST_WORD_S = 0.25
"""Part of it for the time after the last attempt to keep something: `done` comes all the same."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Pipeline:
    """Runs turns through the stages."""

    understanding: Understanding
    memory: Memory
    tts: Tts
    video: Video
    wheel: Wheel
    turn_deadline_s: float
    turn_deadline_max_s: float
    history_turns: int
    stage_idle_s: float = 20.0

    async def respond(
        self, header: pb.RespondHeader, media: AsyncIterator[pb.RespondRequest]
    ) -> AsyncGenerator[pb.RespondResponse]:
        """Yields the events of a turn as they happen. Closing this stops every stage.

        Raises:
            ServiceError: The turn cannot be answered at all.
        """
        check_wishes(header, self.wheel)
        turn = _Turn(self, header, media)
        running = asyncio.create_task(turn.run())
        running.add_done_callback(lambda _: turn.report.events.end())
        try:
            async for event in turn.report.events:
                yield event
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

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


class _Turn:
    """One turn while it runs. Times are monotonic until they leave in an event."""

    def __init__(self, pipeline: Pipeline, header: pb.RespondHeader, media: AsyncIterator[pb.RespondRequest]) -> None:
        self._pipeline = pipeline
        self._header = header
        self._media = media
        self._output = header.output or pb.OUTPUT_VIDEO
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sentences: Flow[str] = Flow()
        self._speech: Flow[tts.SpeechChunk] = Flow()
        self._samples = 0
        self._rate_hz = 0
        self._first_video_s = 0.0
        self._cards: dict[str, common.ModelCard] = {}
        self._face = video.GetModelResponse()
        self._derived: list[asyncio.Task[None]] = []
        self.report = Report()
        asked_s = rpc.remaining_s()
        self._limit_s = min(pipeline.turn_deadline_s if asked_s is None else asked_s, pipeline.turn_deadline_max_s)
        self._end_s = self.report.received_s + self._limit_s
        self._recaller = Recaller(pipeline.memory, header, self.report)
        self._keeper = Keeper(pipeline.memory, header, self.report, lambda: self._left_s(LAST_WORD_S))

    async def run(self) -> None:
        """Lives through the turn; whatever happens, no stage is left working."""
        with self.report.turn(self._output):
            await self._run()

    async def _run(self) -> None:
        if self._header.conversation:
            near.set(f"{self._header.tenant} {self._header.identity} {self._header.conversation}")
        try:
            async with asyncio.timeout(self._limit_s):
                await self._story()
        except TimeoutError:
            problem = f"the turn took longer than {self._limit_s:g} s"
            raise DeadlineExceeded(
                f"{problem}; at most {self._pipeline.turn_deadline_max_s:g} s may be allowed"
            ) from None
        finally:
            # In the block that measures the turn, so that every stage has ended before it.
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _story(self) -> None:
        recalling = self._start(self._recall())
        looking = self._start(self._capabilities())
        if self._header.quality:
            await looking  # a wish that the renderer cannot fulfil is refused before any work is done
        hearing = self._start(self._understand(recalling))
        ready = asyncio.Event()
        searching = self._start(self._recaller.search(recalling, hearing, ready))
        understood = await hearing
        recalled, capabilities = await recalling, await looking
        ready.set()
        delivery = decide_delivery(self._pipeline.wheel, self._header, understood, recalled.emotion_bank, capabilities)
        self._tell(pb.RespondResponse(identity=recalled))
        self._tell(pb.RespondResponse(understood=understood))
        self._tell(pb.RespondResponse(delivery=delivery))
        speaking = self._start(self._speak(recalled.identity, delivery))
        filming = self._start(self._film(recalled.identity, delivery))
        text, record = await self._write(understood, recalled, await searching, delivery)
        models = models_of(understood, self._cards)
        remembering = self._start(self._keeper.remember(recalled, understood, text, delivery, models))
        await asyncio.gather(speaking, filming)
        if self._derived:
            with self.report.stage("keep_derived"):
                await asyncio.wait(self._derived, timeout=self._left_s())
        turn_id = await remembering
        if turn_id and self._header.keep_clips:
            await self._keeper.keep_clips(turn_id)
        self.report.end(self._speech.first_s, self._first_video_s)
        if turn_id:
            await self._keeper.keep_timings(turn_id)
        self._tell(
            pb.RespondResponse(
                done=pb.Done(
                    text=text,
                    record=record,
                    trace_id=tracing.trace_id(),
                    audio_duration_s=self._audio_s,
                    turn=turn_id,
                )
            )
        )

    async def _recall(self) -> memory.RecallResponse:
        recalled = await self._recaller.recall(self._output, self._pipeline.history_turns)
        self._pipeline.check_wheel("memory", recalled.ontology_hash)
        return recalled

    async def _capabilities(self) -> Capabilities:
        """Asks voice and face what they have; one that cannot be reached is dropped from the output."""
        if self._output < pb.OUTPUT_AUDIO:
            return Capabilities((), ())
        with self.report.stage("models"):
            return await self._ask_models()

    async def _ask_models(self) -> Capabilities:
        styles: tuple[str, ...] = ()
        classes: tuple[str, ...] = ()
        if self._output >= pb.OUTPUT_AUDIO:
            try:
                voice = await self._pipeline.tts.model()
                self._pipeline.check_wheel("tts", voice.card.ontology_hash)
                styles, self._rate_hz = tuple(voice.styles), voice.sample_rate_hz
                self._cards["tts"] = voice.card
            except ServiceError as error:
                self._drop("speech", error, pb.OUTPUT_TEXT)
        if self._output >= pb.OUTPUT_VIDEO:
            try:
                face = await self._pipeline.video.model()
                self._pipeline.check_wheel("video", face.card.ontology_hash)
                classes, self._face = tuple(face.face_classes), face
                self._cards["video"] = face.card
            except ServiceError as error:
                self._drop("video", error, pb.OUTPUT_AUDIO)
        if classes and self._header.quality:
            check_quality(self._header.quality, self._face.qualities)
        return Capabilities(styles, classes)

    async def _understand(self, recalling: asyncio.Task[memory.RecallResponse]) -> understanding.UnderstandResponse:
        asked_s = 0.0

        async def history() -> list[common.Utterance]:
            nonlocal asked_s
            self.report.received_s = now_s()
            turns = (await recalling).turns
            asked_s = now_s()
            return to_history(turns)

        parts = to_understand(self._header, self._pipeline.wheel.digest, self._media, history)
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
            self._tell(pb.RespondResponse(recalled=found.turns))
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
        with self.report.stage("reply", made=self._sentences) as timing:
            try:
                async with aclosing(self._pipeline.understanding.write_reply(order)) as parts:
                    async for part in parts:
                        if part.WhichOneof("part") == "record":
                            record = part.record
                            continue
                        sentences.append(part.sentence)
                        self._sentences.put(part.sentence)
                        self._tell(pb.RespondResponse(text=pb.TextDelta(sentence=part.sentence)))
            except ServiceError as error:
                if not sentences:
                    raise
                timing.outcome = "failed"
                self.report.degrade("reply", Loss.REPLY_REST, str(error))
            finally:
                timing.model = record.card.backend
                self._sentences.end()
        if record.degraded:
            reason = STORED_REPLIES.get(record.degraded, "the writer does not say why")
            self.report.degrade("reply", Loss.OWN_WORDS, f"{record.degraded}: {reason}")
        return " ".join(sentences), record

    async def _speak(self, identity: identities.Identity, delivery: pb.Delivery) -> None:
        if self._output < pb.OUTPUT_AUDIO:
            return
        try:
            card = self._cards["tts"]
            with self.report.stage("speech", card.backend, self._sentences, self._speech, lambda: self._audio_s):
                await self._speak_all(identity, delivery, card.digest)
        except ServiceError as error:
            self._drop("speech", error, pb.OUTPUT_TEXT)
        finally:
            self._speech.end()

    async def _speak_all(self, identity: identities.Identity, delivery: pb.Delivery, model_digest: str) -> None:
        digests = voices_of(identity)
        recordings = {digest: await self._reference(identity, digest) for digest in digests}
        fitted = await self._pipeline.memory.derived(self._header.tenant, identity, digests, model_digest)
        speaker = Speaker(identity.profile, recordings, fitted)

        def speak(sentences: AsyncIterator[str]) -> AsyncGenerator[tts.SpeakResponse]:
            return self._pipeline.tts.speak(to_speak(speaker, delivery, sentences))

        spoken = speak_on(speak, aiter(self._sentences))
        idle_s = self._pipeline.stage_idle_s
        async with aclosing(watched("tts", spoken, idle_s, lambda: self._sentences.last_s)) as parts:
            async for part in parts:
                if part.WhichOneof("part") == "chunk":
                    self._hand_on(part.chunk)
                elif part.ready.fitted:
                    self._keep_derived(identity, digests, model_digest, part.ready.fitted)

    def _hand_on(self, chunk: tts.SpeechChunk) -> None:
        self._samples += len(chunk.samples) // 2
        self._speech.put(chunk)
        self._keeper.hear(chunk.samples, chunk.sample_rate_hz)
        audio = pb.AudioChunk(samples=chunk.samples, sample_rate_hz=chunk.sample_rate_hz, phonemes=chunk.phonemes)
        self._tell(pb.RespondResponse(audio=audio))

    async def _film(self, identity: identities.Identity, delivery: pb.Delivery) -> None:
        if self._output < pb.OUTPUT_VIDEO:
            return
        try:
            card = self._cards["video"]
            with self.report.stage("video", card.backend, self._speech, media_s=lambda: self._audio_s) as timing:
                await self._film_all(identity, delivery, card.digest, timing)
        except ServiceError as error:
            self._drop("video", error, pb.OUTPUT_AUDIO)

    async def _film_all(
        self, identity: identities.Identity, delivery: pb.Delivery, model_digest: str, timing: Timing
    ) -> None:
        digest, wish = portrait_of(identity), self._header.quality
        portrait = await self._reference(identity, digest)
        rigged = await self._pipeline.memory.derived(self._header.tenant, identity, [digest], model_digest)
        lowered = Loss.WISHED_QUALITY if wish else Loss.BEST_QUALITY
        camera = Camera(
            self._pipeline.video,
            self._face,
            wish,
            self._pipeline.stage_idle_s,
            self._left_s,
            lambda why: self.report.degrade("video", lowered, why),
            lambda why: self.report.degrade("video", Loss.EVEN_MOTION, why),
            lambda face: self._keep_derived(identity, [digest], model_digest, face),
        )
        scene = Scene(delivery, portrait, digest, self._rate_hz, self._header.seed, rigged)
        async with aclosing(camera.film(scene, self._speech)) as chunks:
            async for chunk in chunks:
                if not self._samples:
                    timing.outcome = "cancelled"
                    return  # the voice failed before its first sound: there is nothing to film
                timing.first_s = self._first_video_s = self._first_video_s or now_s()
                self._keeper.see(chunk.content)
                self._tell(pb.RespondResponse(video=chunk))

    async def _reference(self, identity: identities.Identity, digest: str) -> bytes:
        return await self._pipeline.memory.reference(self._header.tenant, identity, digest)

    def _keep_derived(
        self, identity: identities.Identity, digests: Sequence[str], model_digest: str, content: bytes
    ) -> None:
        """Keeps what a model derived, beside what else runs, so that no replica derives it again."""
        keeping = self._pipeline.memory.keep_derived(self._header.tenant, identity, digests, model_digest, content)
        self._derived.append(self._start(keeping))

    def _left_s(self, farewell_s: float = FAREWELL_S) -> float:
        """Return the seconds that a stage may still take so that the turn can end in time, its loss included."""
        allowed_s = self._end_s - now_s()
        remaining_s = rpc.remaining_s()
        return max(0.0, (allowed_s if remaining_s is None else min(allowed_s, remaining_s)) - farewell_s)

    @property
    def _audio_s(self) -> float:
        """Seconds of speech so far."""
        return self._samples / self._rate_hz if self._rate_hz else 0.0

    def _start(self, coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        return task

    def _tell(self, event: pb.RespondResponse) -> None:
        self.report.tell(event)

    def _drop(self, stage: str, error: ServiceError, output: pb.Output) -> None:
        """Goes on with less output; but a service with another wheel is a fault of the deployment, not of the turn."""
        if isinstance(error, FailedPrecondition):
            raise error
        has_begun = self._first_video_s if stage == "video" else self._samples
        loss = loss_of(stage, bool(has_begun), self._output)
        self._output = min(self._output, output)
        self.report.degrade(stage, loss, str(error))
