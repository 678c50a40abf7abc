"""Stages of a turn that do nothing but take their time, by the clock of the event loop."""

import asyncio
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import emotions
from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.tts.v1 import tts_pb2 as tts
from e3rg.understanding.v1 import understanding_pb2 as understanding
from e3rg.video.v1 import video_pb2 as video
from orchestrator.pipeline import Pipeline
from orchestrator.risks import Risks
from services.common.variants.live import LiveTable

WHEEL = emotions.load()
RATE_HZ = 16000
PORTRAIT = identities_pb2.Reference(kind=identities_pb2.REFERENCE_KIND_PORTRAIT, digest="p", size_bytes=1)
VOICE = identities_pb2.Reference(kind=identities_pb2.REFERENCE_KIND_VOICE, digest="v", size_bytes=1)


@dataclass
class Stages:
    """All stages of a pipeline.

    Attributes:
        seconds: What each takes; 0.01 unless it is named. `sentence`, `sound` and `picture` are those of one item.
        sentences: Sentences of the reply, a second of speech each.
    """

    seconds: dict[str, float]
    sentences: int = 2
    kept: list[str] = field(default_factory=list)

    def pipeline(self) -> Pipeline:
        """Return a pipeline of these."""
        stages = {name: cast("Any", self) for name in ("understanding", "memory")}
        return Pipeline(
            **stages,
            channels=cast("Any", _Channels()),
            variants=LiveTable(None, cast("Any", None)),
            to_voice=lambda _: cast("Any", _Voice(self)),
            to_face=lambda _: cast("Any", _Face(self)),
            wheel=WHEEL,
            turn_deadline_s=600,
            turn_deadline_max_s=600,
            history_turns=10,
            risks=Risks(cast("Any", self)),
        )

    async def take(self, what: str) -> None:
        """Take the time of a stage."""
        await asyncio.sleep(self.seconds.get(what, 0.01))

    async def understand(
        self, parts: AsyncIterator[understanding.UnderstandRequest]
    ) -> understanding.UnderstandResponse:
        """Understand a message: decoded and transcribed when it has come, voted on when the context has."""
        hearing: asyncio.Task[None] | None = None
        async for part in parts:
            if part.WhichOneof("part") == "header":
                hearing = asyncio.create_task(self._hear())
        assert hearing
        await hearing
        await self.take("vote")
        emotion = common.Emotion(label="sad", face_class="sad", intensity=0.5, ontology_hash=WHEEL.digest)
        decode_s, transcribe_s, vote_s = (self.seconds.get(stage, 0.01) for stage in ("decode", "transcribe", "vote"))
        return understanding.UnderstandResponse(
            text="I lost my job.", emotion=emotion, decode_s=decode_s, transcribe_s=transcribe_s, vote_s=vote_s
        )

    async def _hear(self) -> None:
        await self.take("decode")
        await self.take("transcribe")

    async def write_reply(
        self, request: understanding.WriteReplyRequest
    ) -> AsyncGenerator[understanding.WriteReplyResponse]:
        """Write sentences one after the other."""
        for number in range(self.sentences):
            await self.take("sentence")
            card = None if number else common.ModelCard(backend="writer")
            yield understanding.WriteReplyResponse(sentence=f"Sentence {number}.", card=card)
        yield understanding.WriteReplyResponse(record=mllm.ReplyRecord())

    async def recall(self, request: memory.RecallRequest) -> memory.RecallResponse:
        """Recall an identity."""
        await self.take("recall")
        identity = identities_pb2.Identity(id="ada", references=[PORTRAIT, VOICE])
        bank = identities_pb2.EmotionBank(name="bank", voice_styles=["default"], face_classes=["sad"])
        return memory.RecallResponse(identity=identity, ontology_hash=WHEEL.digest, emotion_bank=bank)

    async def search(self, request: memory.SearchRequest) -> memory.SearchResponse:
        """Search, and find nothing."""
        await self.take("search")
        return memory.SearchResponse()

    async def reference(self, tenant: str, identity: Any, digest: str) -> bytes:
        """Return a file of the identity."""
        await self.take("reference")
        return b"file"

    async def derived(self, tenant: str, identity: Any, digests: Sequence[str], model_digest: str) -> bytes:
        """Return that nothing was derived yet."""
        await self.take("reference")
        return b""

    async def keep_derived(
        self, tenant: str, identity: Any, digests: Sequence[str], model_digest: str, content: bytes
    ) -> None:
        """Keep what was derived."""
        await self.take("keep_derived")

    async def remember(self, request: memory.RememberRequest, timeout_s: float) -> None:
        """Keep a turn."""
        await self.take("remember")

    async def keep_clip(self, header: memory.PutClipHeader, content: bytes, timeout_s: float) -> None:
        """Keep a clip."""
        await self.take("keep_clips")

    async def keep_timings(self, request: memory.PutTimingsRequest, timeout_s: float) -> None:
        """Keep the timings, at once."""
        self.kept += request.timings_s


class _Channels:
    """Channels to replicas that take calls, and say nothing of their models."""

    ready = (object(),)

    def of(self, *_: Any) -> "_Channels":
        return self

    @property
    def replicas(self) -> "_Channels":
        return self

    def models(self, kind: Any) -> list[Any]:
        return []

    async def wait_ready(self) -> None:
        """Return at once."""


class _Voice:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def model(self) -> tts.GetModelResponse:
        card = common.ModelCard(backend="voice", ontology_hash=WHEEL.digest)
        return tts.GetModelResponse(card=card, styles=["default"], sample_rate_hz=RATE_HZ)

    async def speak(self, parts: AsyncIterator[tts.SpeakRequest]) -> AsyncGenerator[tts.SpeakResponse]:
        yield tts.SpeakResponse(ready=tts.VoiceReady(fitted=b"fitted"))
        async for part in parts:
            if part.WhichOneof("part") == "sentence":
                await self._stages.take("sound")
                yield tts.SpeakResponse(chunk=tts.SpeechChunk(samples=bytes(2 * RATE_HZ), sample_rate_hz=RATE_HZ))
                yield tts.SpeakResponse(sentence_end=tts.SentenceEnd(duration_s=1))


class _Face:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def model(self) -> video.GetModelResponse:
        card = common.ModelCard(backend="face", ontology_hash=WHEEL.digest)
        return video.GetModelResponse(card=card, face_classes=["sad"], fps=25, qualities=["full"])

    async def animate(
        self, parts: AsyncIterator[video.AnimateRequest], timeout_s: float = 600, choice: Any = None
    ) -> AsyncGenerator[video.AnimateResponse]:
        yield video.AnimateResponse(ready=video.FaceReady(mime_type="video/mp4", quality="full"))
        async for part in parts:
            if part.WhichOneof("part") == "speech":
                await self._stages.take("picture")
                yield video.AnimateResponse(chunk=struct.pack(">I4s", 8, b"mdat"))
