"""The story of a turn: recall beside understanding, speech while the reply is written, film while it is spoken."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from e3rg.common.v1 import common_pb2 as common
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
from orchestrator.messages import Scene, to_history, to_speak, to_understand
from orchestrator.stages import Memory, Tts, Understanding, Video
from services.common import metrics, rpc
from services.common.errors import DeadlineExceeded, FailedPrecondition, ServiceError

USES = {
    pb.OUTPUT_TEXT: (),
    pb.OUTPUT_AUDIO: ("clone_voice",),
    pb.OUTPUT_VIDEO: ("clone_voice", "animate_face"),
}
"""What an identity's consent must include for each output."""

STORED_REPLIES = {
    "exemplar": "no candidate passed the gate",
    "crisis": "a message that speaks of self-harm is never left to a model",
}
"""Why a writer used a stored reply."""

FAREWELL_S = 0.5
"""What a turn needs to end well after its film is given up for lack of time."""

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
        running.add_done_callback(lambda _: turn.events.end())
        try:
            async for event in turn.events:
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
        self._received_s = time.monotonic()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sentences: Flow[str] = Flow()
        self._speech: Flow[tts.SpeechChunk] = Flow()
        self._samples = 0
        self._rate_hz = 0
        self._voice_digest = ""
        self._face = video.GetModelResponse()
        self._end_s = self._received_s + pipeline.turn_deadline_s
        self._keeping: asyncio.Task[None] | None = None
        self.events: Flow[pb.RespondResponse] = Flow()

    async def run(self) -> None:
        """Lives through the turn; whatever happens, no stage is left working."""
        try:
            async with asyncio.timeout(self._pipeline.turn_deadline_s):
                await self._story()
        except TimeoutError:
            limit_s = self._pipeline.turn_deadline_s
            raise DeadlineExceeded(f"the turn took longer than {limit_s:g} s, the orchestrator's limit") from None
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _story(self) -> None:
        recalling = self._start(self._recall())
        looking = self._start(self._capabilities())
        if self._header.quality:
            await looking  # a wish that the renderer cannot fulfil is refused before any work is done
        understood = await self._understand(recalling)
        recalled, capabilities = await recalling, await looking
        delivery = decide_delivery(self._pipeline.wheel, self._header, understood, recalled.emotion_bank, capabilities)
        self._tell(pb.RespondResponse(identity=recalled))
        self._tell(pb.RespondResponse(understood=understood))
        self._tell(pb.RespondResponse(delivery=delivery))
        speaking = self._start(self._speak(recalled.identity, delivery))
        filming = self._start(self._film(recalled.identity, delivery))
        text, record = await self._write(understood, recalled, delivery)
        remembering = self._start(self._remember(understood, text, delivery.emotion))
        await asyncio.gather(speaking, filming)
        if self._keeping:
            await self._keeping
        turn_id = await remembering
        self._time("turn", self._received_s)
        self._tell(
            pb.RespondResponse(
                done=pb.Done(
                    text=text,
                    record=record,
                    trace_id=rpc.trace_id(),
                    audio_duration_s=self._samples / self._rate_hz if self._rate_hz else 0,
                    turn=turn_id,
                )
            )
        )

    async def _recall(self) -> memory.RecallResponse:
        header, start_s = self._header, time.monotonic()
        request = memory.RecallRequest(
            identity=header.identity, conversation=header.conversation, turns_max=self._pipeline.history_turns
        )
        recalled = await self._pipeline.memory.recall(request)
        self._pipeline.check_wheel("memory", recalled.ontology_hash)
        if lacking := set(USES[self._output]) - set(recalled.identity.consent.uses):
            raise FailedPrecondition(
                f"the consent of identity {header.identity!r} does not include {' and '.join(sorted(lacking))};"
                " ask for less output, or have the consent extended"
            )
        self._time("recall", start_s)
        return recalled

    async def _capabilities(self) -> Capabilities:
        """Asks voice and face what they have; one that cannot be reached is dropped from the output."""
        styles: tuple[str, ...] = ()
        classes: tuple[str, ...] = ()
        if self._output >= pb.OUTPUT_AUDIO:
            try:
                voice = await self._pipeline.tts.model()
                self._pipeline.check_wheel("tts", voice.card.ontology_hash)
                styles, self._rate_hz = tuple(voice.styles), voice.sample_rate_hz
                self._voice_digest = voice.card.digest
            except ServiceError as error:
                self._drop("speech", "audio", error, pb.OUTPUT_TEXT)
        if self._output >= pb.OUTPUT_VIDEO:
            try:
                face = await self._pipeline.video.model()
                self._pipeline.check_wheel("video", face.card.ontology_hash)
                classes, self._face = tuple(face.face_classes), face
            except ServiceError as error:
                self._drop("video", "video", error, pb.OUTPUT_AUDIO)
        if classes and self._header.quality:
            check_quality(self._header.quality, self._face.qualities)
        return Capabilities(styles, classes)

    async def _understand(self, recalling: asyncio.Task[memory.RecallResponse]) -> understanding.UnderstandResponse:
        async def history() -> list[common.Utterance]:
            self._received_s = time.monotonic()
            return to_history((await recalling).turns)

        parts = to_understand(self._header, self._pipeline.wheel.digest, self._media, history)
        understood = await self._pipeline.understanding.understand(parts)
        start_s = self._received_s
        for stage in ("decode", "transcribe", "vote"):
            seconds = getattr(understood, f"{stage}_s")
            if seconds:
                self._time(stage, start_s, end_s=start_s + seconds)
            start_s += seconds
        return understood

    async def _write(
        self, understood: understanding.UnderstandResponse, recalled: memory.RecallResponse, delivery: pb.Delivery
    ) -> tuple[str, mllm.ReplyRecord]:
        start_s = time.monotonic()
        sentences: list[str] = []
        record = mllm.ReplyRecord()
        order = mllm.WriteReplyRequest(
            text=understood.text,
            history=to_history(recalled.turns),
            user_emotion=understood.emotion,
            reply_emotion=delivery.emotion,
            profile=recalled.identity.profile,
            seed=self._header.seed,
        )
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
            self._degrade("reply", "the rest of the reply", str(error))
        finally:
            self._sentences.end()
        if record.degraded:
            reason = STORED_REPLIES.get(record.degraded, "the writer does not say why")
            self._degrade("reply", "the model's own words", f"{record.degraded}: {reason}")
        self._time("reply", start_s, first_s=self._sentences.first_s)
        return " ".join(sentences), record

    async def _speak(self, identity: memory.Identity, delivery: pb.Delivery) -> None:
        if self._output < pb.OUTPUT_AUDIO:
            return
        try:
            store = self._pipeline.memory
            reference = await store.reference(identity, memory.REFERENCE_KIND_VOICE)
            fitted = await store.fitted_voice(identity, self._voice_digest)
            requests = to_speak(identity, delivery, fitted, reference, aiter(self._sentences))
            spoken = self._pipeline.tts.speak(requests)
            idle_s = self._pipeline.stage_idle_s
            async with aclosing(watched("tts", spoken, idle_s, lambda: self._sentences.last_s)) as parts:
                async for part in parts:
                    if part.WhichOneof("part") == "chunk":
                        self._hand_on(part.chunk)
                    elif part.ready.fitted:
                        keeping = store.keep_fitted_voice(identity, self._voice_digest, part.ready.fitted)
                        self._keeping = self._start(keeping)
            self._time("speech", self._sentences.first_s, first_s=self._speech.first_s)
        except ServiceError as error:
            self._drop("speech", "the rest of the audio" if self._samples else "audio", error, pb.OUTPUT_TEXT)
        finally:
            self._speech.end()

    def _hand_on(self, chunk: tts.SpeechChunk) -> None:
        self._samples += len(chunk.samples) // 2
        self._speech.put(chunk)
        audio = pb.AudioChunk(samples=chunk.samples, sample_rate_hz=chunk.sample_rate_hz, phonemes=chunk.phonemes)
        self._tell(pb.RespondResponse(audio=audio))

    async def _film(self, identity: memory.Identity, delivery: pb.Delivery) -> None:
        if self._output < pb.OUTPUT_VIDEO:
            return
        first_s = 0.0
        try:
            portrait = await self._pipeline.memory.reference(identity, memory.REFERENCE_KIND_PORTRAIT)
            scene, wish = Scene(identity, delivery, portrait, self._rate_hz, self._header.seed), self._header.quality
            camera = Camera(
                self._pipeline.video,
                self._face,
                wish,
                self._pipeline.stage_idle_s,
                self._left_s,
                lambda reason: self._degrade("video", "the wished quality" if wish else "the best quality", reason),
            )
            async with aclosing(camera.film(scene, self._speech)) as chunks:
                async for chunk in chunks:
                    if not self._samples:
                        return  # the voice failed before its first sound: there is nothing to film
                    first_s = first_s or time.monotonic()
                    self._tell(pb.RespondResponse(video=chunk))
            self._time("video", self._speech.first_s or time.monotonic(), first_s=first_s)
        except ServiceError as error:
            self._drop("video", "the rest of the video" if first_s else "video", error, pb.OUTPUT_AUDIO)

    async def _remember(
        self, understood: understanding.UnderstandResponse, reply: str, reply_emotion: common.Emotion
    ) -> str:
        if not self._header.conversation:
            return ""
        start_s = time.monotonic()
        turn = memory.Turn(
            id=uuid.uuid4().hex,
            user_text=understood.text,
            user_emotion=understood.emotion.label,
            reply_text=reply,
            reply_emotion=reply_emotion.label,
        )
        try:
            await self._pipeline.memory.remember(
                memory.RememberRequest(
                    identity=self._header.identity, conversation=self._header.conversation, turn=turn
                )
            )
        except ServiceError as error:
            self._degrade("remember", "the memory of this turn", str(error))
            return ""
        self._time("remember", start_s)
        return turn.id

    def _left_s(self) -> float:
        """How many seconds a stage may still take so that the turn can end in time, its loss included."""
        allowed_s = self._end_s - time.monotonic()
        remaining_s = rpc.remaining_s()
        return max(0.0, (allowed_s if remaining_s is None else min(allowed_s, remaining_s)) - FAREWELL_S)

    def _start(self, coroutine: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        return task

    def _tell(self, event: pb.RespondResponse) -> None:
        self.events.put(event)

    def _time(self, stage: str, start_s: float, first_s: float = 0.0, end_s: float = 0.0) -> None:
        end_s = end_s or time.monotonic()
        metrics.STAGE_SECONDS.labels(stage, "ok").observe(max(0.0, end_s - start_s))
        timing = pb.StageTiming(
            stage=stage,
            start_s=start_s - self._received_s,
            first_s=(first_s or end_s) - self._received_s,
            end_s=end_s - self._received_s,
        )
        self._tell(pb.RespondResponse(timing=timing))

    def _drop(self, stage: str, dropped: str, error: ServiceError, output: pb.Output) -> None:
        """Goes on with less output; but a service with another wheel is a fault of the deployment, not of the turn."""
        if isinstance(error, FailedPrecondition):
            raise error
        lost = f"{dropped} and video" if stage == "speech" and self._output == pb.OUTPUT_VIDEO else dropped
        self._output = min(self._output, output)
        metrics.STAGE_SECONDS.labels(stage, "failed").observe(time.monotonic() - self._received_s)
        self._degrade(stage, lost, str(error))

    def _degrade(self, stage: str, dropped: str, reason: str) -> None:
        metrics.DEGRADED.labels(stage, dropped).inc()
        self._tell(pb.RespondResponse(degraded=pb.Degraded(stage=stage, dropped=dropped, reason=reason)))
