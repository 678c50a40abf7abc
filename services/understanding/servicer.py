"""The panel on the wire."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from e3rg.common.v1 import common_pb2 as common
from e3rg.understanding.v1 import understanding_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2_grpc
from emotions import Emotion, Wheel
from services.common.errors import FailedPrecondition, InvalidRequest, ServiceError
from services.common.media import Collector
from services.understanding import metrics
from services.understanding.checking import VariantCheck
from services.understanding.intake import Intake, Received, Words
from services.understanding.languages import UNKNOWN, Languages
from services.understanding.orders import OrderFinder, Told
from services.understanding.panel import Ahead, Panel
from services.understanding.records import to_record
from services.understanding.replying import Replies
from services.understanding.risk.care import Care
from services.understanding.risk.domain import Risk, Source
from services.understanding.risk.messages import to_earlier, to_message
from services.understanding.risk.state import faded, heeded
from services.understanding.screening import Screening, of_voters
from services.understanding.shadows import Shadows
from services.understanding.tones.offers import Offers, said_before
from services.understanding.variants import Named, Variants, stage_of
from services.understanding.voters import Answer, Message, MllmVoter

TEXT_CHARS_MAX = 4000
FILE_BYTES_MAX = 32 << 20
NEUTRAL = Emotion("neutral", 0.0)
ORDERS_CHARS_MAX = 200
"""Of what the voters did not get, for the note."""


@dataclass(frozen=True)
class _Perceived:
    """A message before the vote, and who votes on it."""

    panel: Panel[Message, Answer]
    named: Named
    received: Received
    words: Words
    ahead: Ahead[Answer]
    decode_s: float
    transcribe_s: float


class UnderstandingServicer(understanding_pb2_grpc.UnderstandingServiceServicer):
    """Serves one panel.

    Args:
        panel: Terms of the vote, with the default variant of each voter.
        variants: Variants that vote and write in their place.
        intake: Decodes and transcribes.
        wheel: The emotion wheel.
        history_turns_max: Turns before the message that the voters get.
        screening: The risk screen.
        care: Replies to a risk.
        offers: Replies to how a message sounds.
        languages: Replies to messages in other languages.
    """

    def __init__(
        self,
        panel: Panel[Message, Answer],
        variants: Variants,
        intake: Intake,
        wheel: Wheel,
        history_turns_max: int,
        screening: Screening,
        care: Care,
        offers: Offers,
        languages: Languages,
    ) -> None:
        self._panel = panel
        self._variants = variants
        self._check = VariantCheck(variants.clients)
        self._shadows = Shadows[Message, Answer](panel.deadline_s, stage_of)
        self._intake = intake
        self._wheel = wheel
        self._history_turns_max = history_turns_max
        self._orders = OrderFinder(wheel)
        self._screening = screening
        self._languages, self._care = languages, care
        self._replies = Replies(variants.writer, screening, care, offers, languages)

    async def GetPanel(self, request: pb.GetPanelRequest, context: Any) -> pb.GetPanelResponse:
        clients, table = self._variants.clients, self._variants.table
        seats, writers = clients.seats(table), clients.writers(table)
        told = await asyncio.gather(*(_seat(voter) for voter in (*seats, *writers)))
        return pb.GetPanelResponse(
            ontology_hash=self._wheel.digest,
            seats=told[: len(seats)],
            writers=told[len(seats) :],
            writer=clients.writer_name,
            transcriber=self._intake.transcriber.name,
            quorum=self._panel.quorum,
            rule=self._panel.rule.name,
            weights_version=self._panel.rule.weights.version,
            deadline_s=self._panel.deadline_s,
            early=self._panel.early,
        )

    async def Understand(
        self, request_iterator: AsyncIterator[pb.UnderstandRequest], context: Any
    ) -> pb.UnderstandResponse:
        parts = aiter(request_iterator)
        header = await self._read_header(parts)
        audio, video = await _read_media(parts, header)
        # The media are worked on while the caller still recalls what was said before.
        perceiving = asyncio.create_task(self._perceive(header, audio, video))
        try:
            context_sent = await _read_context(parts)
            return await self._answer(await perceiving, context_sent, header.seed)
        finally:
            perceiving.cancel()
            perceiving.add_done_callback(_stop)

    async def _perceive(self, header: pb.UnderstandHeader, audio: bytes, video: bytes) -> _Perceived:
        """Decodes, then transcribes while those who need no words already vote."""
        started_s = time.monotonic()
        if not (header.text.strip() or audio or video):
            raise InvalidRequest("header.text", "the message is empty; send text, audio or video")
        naming = self._variants.named(header.variants, header.variants_version)
        received, named = await asyncio.gather(self._intake.receive(audio, video), naming)
        decoded_s = time.monotonic()
        panel = replace(self._panel, voters=named.voters, named=named.by_caller)
        wordless = Message("", received.audio, received.frames, (), header.seed)
        ahead = panel.begin(wordless) if received.frames else Ahead[Answer]()
        try:
            words = await self._intake.words(header.text, received)
        except BaseException:
            ahead.cancel()
            raise
        transcribe_s = time.monotonic() - decoded_s if words.transcribed else 0.0
        return _Perceived(panel, named, received, words, ahead, decoded_s - started_s, transcribe_s)

    async def _answer(self, perceived: _Perceived, told: pb.UnderstandContext, seed: int) -> pb.UnderstandResponse:
        """Decides, and tells risk and language; who has either is answered also when the panel cannot decide."""
        earlier, before = to_earlier(told.risks), said_before(told.history)
        finding = asyncio.create_task(self._screening.find(perceived.words.text, any(map(faded, earlier)), before))
        undecided: ServiceError | None = None
        found: Risk | None = None
        try:
            response, found = await self._decide(perceived, tuple(told.history), seed)
        except ServiceError as error:
            undecided = error
        except BaseException:
            finding.cancel()
            raise
        screened = await finding
        gravest = max(filter(None, (screened, found)), key=lambda each: each.severity, default=None)
        risk = heeded(gravest, perceived.words.text, earlier)
        language = self._language_of(perceived.words, screened)
        if undecided:
            if not (risk or language):
                raise undecided
            response = self._undecided(perceived, str(undecided), is_danger=bool(risk))
        response.language = language
        if risk:
            response.risk.CopyFrom(to_message(risk.risk))
            response.risk_is_new = risk.is_new
            if risk.is_new:
                metrics.RISKS.labels(risk.risk.kind, risk.risk.severity.name.lower(), risk.risk.source).inc()
        return response

    def _language_of(self, words: Words, screened: Risk | None) -> str:
        """Returns the language of a message that is not English and has a reply; "und" for other speech."""
        if words.language:
            return words.language if words.language in self._languages.known else UNKNOWN
        # Words alone tell of a danger in the languages that have replies to it.
        in_words = screened and screened.source is Source.WORDS
        return self._languages.language_of(words.text, self._care.others if in_words else ())

    def _undecided(self, perceived: _Perceived, reason: str, is_danger: bool) -> pb.UnderstandResponse:
        feeling, words = self._wheel.crisis if is_danger else NEUTRAL, perceived.words
        label = self._wheel.label(feeling.label)
        emotion = common.Emotion(
            label=label.name,
            face_class=label.coarse,
            intensity=feeling.intensity,
            ontology_hash=self._wheel.digest,
        )
        return pb.UnderstandResponse(
            text=words.text,
            transcribed=words.transcribed,
            emotion=emotion,
            undecided=reason,
            notes=perceived.received.notes,
        )

    async def _decide(
        self, perceived: _Perceived, history: tuple[common.Utterance, ...], seed: int
    ) -> tuple[pb.UnderstandResponse, Risk | None]:
        """Returns the decision, and the risk that voters tell of."""
        started_s = time.monotonic()
        received, words = perceived.received, perceived.words
        kept = history[-self._history_turns_max :]
        told = self._orders.without_orders(words.text)
        message = Message(told.text, received.audio, received.frames, kept, seed)
        for skipped in perceived.named.skipped:
            self._shadows.skip(*skipped)
        with self._shadows.voting(perceived.named.shadows, message) as shadow_votes:
            decision = await perceived.panel.decide(message, perceived.ahead)
            record = to_record(decision, shadow_votes())
        label = self._wheel.label(decision.label)
        response = pb.UnderstandResponse(
            text=words.text,
            transcribed=words.transcribed,
            emotion=common.Emotion(
                label=label.name,
                face_class=label.coarse,
                intensity=label.intensity,
                ontology_hash=self._wheel.digest,
            ),
            record=record,
            notes=[*received.notes, *perceived.named.notes, *_notes(told, len(history), len(kept))],
            decode_s=perceived.decode_s,
            transcribe_s=perceived.transcribe_s,
            vote_s=time.monotonic() - started_s,
        )
        return response, of_voters(decision)

    async def WriteReply(self, request: pb.WriteReplyRequest, context: Any) -> AsyncIterator[pb.WriteReplyResponse]:
        async with aclosing(self._replies.write(request)) as parts:
            async for part in parts:
                yield part

    async def CheckVariants(self, request: pb.CheckVariantsRequest, context: Any) -> pb.CheckVariantsResponse:
        return await self._check.check(request.variants)

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
        return pb.Seat(voter=voter.name, variant=voter.variant, model=await voter.model())
    except ServiceError as error:
        return pb.Seat(voter=voter.name, variant=voter.variant, problem=str(error))


def _notes(told: Told, turns: int, turns_kept: int) -> list[str]:
    """Returns what of the words are orders, and what the voters did not get of what was said before."""
    notes = []
    if told.orders:
        fate = (
            "it only orders the voters what to say, and they got it as it is"
            if told.nothing_else
            else "the voters did not get what orders them what to say"
        )
        notes.append(f"text: {fate}: {', '.join(map(repr, told.orders))[:ORDERS_CHARS_MAX]}")
    if turns > turns_kept:
        notes.append(f"context: the first {turns - turns_kept} of {turns} turns were left out")
    return notes


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


async def _read_context(parts: AsyncIterator[pb.UnderstandRequest]) -> pb.UnderstandContext:
    last = await anext(parts, pb.UnderstandRequest())
    if last.WhichOneof("part") != "context":
        found = last.WhichOneof("part") or "nothing"
        raise InvalidRequest("context", f"{found} came instead; send it last, empty when nothing was said before")
    return last.context
