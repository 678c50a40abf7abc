"""The panel on the wire."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.understanding.v1 import understanding_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2_grpc
from emotions import Wheel
from services.common.errors import FailedPrecondition, InvalidRequest, ServiceError
from services.common.media import Collector
from services.understanding.domain import RULE, Decision, Status, Vote
from services.understanding.intake import Intake, Received, Words
from services.understanding.panel import Ahead, Panel
from services.understanding.voters import Answer, Message, MllmVoter

TEXT_CHARS_MAX = 4000
FILE_BYTES_MAX = 32 << 20

_STATUSES = {
    Status.VOTED: pb.VOTE_STATUS_VOTED,
    Status.ABSTAINED: pb.VOTE_STATUS_ABSTAINED,
    Status.LATE: pb.VOTE_STATUS_LATE,
    Status.FAILED: pb.VOTE_STATUS_FAILED,
}


@dataclass(frozen=True)
class _Perceived:
    """A message before the vote."""

    received: Received
    words: Words
    ahead: Ahead[Answer]
    decode_s: float
    transcribe_s: float


class UnderstandingServicer(understanding_pb2_grpc.UnderstandingServiceServicer):
    """Serves one panel; `writer` and the intake's transcriber are two of its voters."""

    def __init__(
        self, panel: Panel[Message, Answer], voters: list[MllmVoter], intake: Intake, writer: MllmVoter, wheel: Wheel
    ) -> None:
        self._panel = panel
        self._voters = voters
        self._intake = intake
        self._writer = writer
        self._wheel = wheel

    async def GetPanel(self, request: pb.GetPanelRequest, context: Any) -> pb.GetPanelResponse:
        return pb.GetPanelResponse(
            ontology_hash=self._wheel.digest,
            seats=await asyncio.gather(*(_seat(voter) for voter in self._voters)),
            writer=self._writer.name,
            transcriber=self._intake.transcriber.name,
            quorum=self._panel.quorum,
        )

    async def Understand(
        self, request_iterator: AsyncIterator[pb.UnderstandRequest], context: Any
    ) -> pb.UnderstandResponse:
        parts = aiter(request_iterator)
        header = await self._read_header(parts)
        audio, video = await _read_media(parts, header)
        # The media are worked on while the caller still recalls what was said before.
        perceiving = asyncio.create_task(self._perceive(header.text, audio, video))
        try:
            history = await _read_context(parts)
            return await self._decide(await perceiving, history)
        finally:
            perceiving.cancel()
            perceiving.add_done_callback(_stop)

    async def _perceive(self, text: str, audio: bytes, video: bytes) -> _Perceived:
        """Decodes, then transcribes while those who need no words already vote."""
        started_s = time.monotonic()
        if not (text.strip() or audio or video):
            raise InvalidRequest("header.text", "the message is empty; send text, audio or video")
        received = await self._intake.receive(audio, video)
        decoded_s = time.monotonic()
        ahead = self._panel.begin(self._message(received)) if received.frames else Ahead[Answer]()
        try:
            words = await self._intake.words(text, received)
        except BaseException:
            ahead.cancel()
            raise
        transcribe_s = time.monotonic() - decoded_s if words.transcribed else 0.0
        return _Perceived(received, words, ahead, decoded_s - started_s, transcribe_s)

    async def _decide(self, perceived: _Perceived, history: tuple[common.Utterance, ...]) -> pb.UnderstandResponse:
        started_s = time.monotonic()
        message = self._message(perceived.received, perceived.words.text, history)
        decision = await self._panel.decide(message, perceived.ahead)
        label = self._wheel.label(decision.label)
        return pb.UnderstandResponse(
            text=perceived.words.text,
            transcribed=perceived.words.transcribed,
            emotion=common.Emotion(
                label=label.name,
                face_class=label.coarse,
                intensity=label.intensity,
                ontology_hash=self._wheel.digest,
            ),
            record=_to_record(decision),
            notes=perceived.received.notes,
            decode_s=perceived.decode_s,
            transcribe_s=perceived.transcribe_s,
            vote_s=time.monotonic() - started_s,
            crisis=any(vote.source is not None and vote.source.prediction.crisis for vote in decision.votes),
        )

    def _message(self, received: Received, text: str = "", history: tuple[common.Utterance, ...] = ()) -> Message:
        return Message(text, received.audio, received.frames, history, self._wheel.digest)

    async def WriteReply(self, request: pb.WriteReplyRequest, context: Any) -> AsyncIterator[pb.WriteReplyResponse]:
        async with aclosing(self._writer.write_reply(request.reply)) as parts:
            async for part in parts:
                if part.WhichOneof("part") == "sentence":
                    yield pb.WriteReplyResponse(sentence=part.sentence)
                else:
                    yield pb.WriteReplyResponse(record=part.record)

    async def _read_header(self, parts: AsyncIterator[pb.UnderstandRequest]) -> pb.UnderstandHeader:
        first = await anext(parts, pb.UnderstandRequest())
        if first.WhichOneof("part") != "header":
            raise InvalidRequest("header", "missing; send it first")
        header = first.header
        if difference := self._wheel.difference(header.ontology_hash):
            raise FailedPrecondition(f"header.ontology_hash: {difference}")
        if len(header.text) > TEXT_CHARS_MAX:
            raise InvalidRequest("header.text", f"{len(header.text)} characters; send at most {TEXT_CHARS_MAX}")
        for field, size in (("audio", header.audio_size_bytes), ("video", header.video_size_bytes)):
            if size > FILE_BYTES_MAX:
                raise InvalidRequest(f"header.{field}_size_bytes", f"{size}; send at most {FILE_BYTES_MAX}")
        return header


def _stop(perceiving: asyncio.Task[_Perceived]) -> None:
    """Stops the votes that were asked for ahead and that nobody will count any more."""
    if not perceiving.cancelled() and perceiving.exception() is None:
        perceiving.result().ahead.cancel()


async def _seat(voter: MllmVoter) -> pb.Seat:
    try:
        return pb.Seat(voter=voter.name, model=await voter.model())
    except ServiceError as error:
        return pb.Seat(voter=voter.name, problem=str(error))


async def _read_media(parts: AsyncIterator[pb.UnderstandRequest], header: pb.UnderstandHeader) -> tuple[bytes, bytes]:
    audio = Collector("audio", header.audio_size_bytes)
    video = Collector("video", header.video_size_bytes)
    while audio.size < header.audio_size_bytes or video.size < header.video_size_bytes:
        part = await anext(parts, pb.UnderstandRequest())
        match part.WhichOneof("part"):
            case "audio":
                audio.add(part.audio)
            case "video":
                video.add(part.video)
            case _ if audio.size < header.audio_size_bytes:
                problem = f"{audio.size} of {header.audio_size_bytes} bytes came; send the whole file"
                raise InvalidRequest("audio", problem)
            case _:
                problem = f"{video.size} of {header.video_size_bytes} bytes came; send the whole file"
                raise InvalidRequest("video", problem)
    return audio.content, video.content


async def _read_context(parts: AsyncIterator[pb.UnderstandRequest]) -> tuple[common.Utterance, ...]:
    last = await anext(parts, pb.UnderstandRequest())
    if last.WhichOneof("part") != "context":
        found = last.WhichOneof("part") or "nothing"
        raise InvalidRequest("context", f"{found} came instead; send it last, empty when nothing was said before")
    return tuple(last.context.history)


def _to_record(decision: Decision[Answer]) -> pb.VoteRecord:
    return pb.VoteRecord(
        label=decision.label,
        face_class=decision.face_class,
        rule=RULE,
        margin=decision.margin,
        tie_break=decision.tie_break,
        votes=[_to_vote(vote) for vote in decision.votes],
        distribution=decision.distribution,
        tally=decision.tally,
    )


def _to_vote(vote: Vote[Answer]) -> pb.Vote:
    return pb.Vote(
        voter=vote.voter,
        status=_STATUSES[vote.status],
        reason=vote.reason,
        prediction=vote.source.prediction if vote.source else None,
        card=vote.source.card if vote.source else None,
        latency_s=vote.latency_s,
    )
