"""Keep a turn in the memory: its texts, its decisions, and the reply's speech and video."""

import asyncio
import io
import math
import uuid
import wave
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from orchestrator.memory import Memory
from orchestrator.report import Loss, Report
from orchestrator.routing import VOTER, Routing
from services.common.clock import now_s
from services.common.errors import DeadlineExceeded, NotReady, Overloaded, ServiceError
from services.common.metrics import VARIANT
from services.common.variants.choosing import Chosen

RETRY_S_MIN, RETRY_S_MAX = 0.1, 1.0
"""Pauses before a memory that cannot keep something now is asked again."""
TRY_S_MIN = 0.25
"""Nobody tries again who would get less: the answer would not come, and the reason be lost."""
TIMINGS_S_MAX = 2.0
"""Time limit for keeping the timings of a turn: the reply was heard by then, and `done` waits."""
VOTE_RECORD_BYTES_MAX = 64 << 10
CLIP_BYTES_MAX = 64 << 20
WAV_HEADER_BYTES = 44
DIGEST_CHARS = 12
"""Of a model's digest, which tells one variant from the other."""


class Clip:
    """The reply's speech or film as it is made, up to what the memory keeps of one."""

    def __init__(self, kind: memory.ClipKind, bytes_max: int = CLIP_BYTES_MAX) -> None:
        self.kind = kind
        self.is_too_large = False
        self._bytes_max = bytes_max
        self._content = bytearray()

    def add(self, piece: bytes) -> None:
        """Takes the next piece; from the one on that does not fit, nothing is held any more."""
        self.is_too_large = self.is_too_large or len(self._content) + len(piece) > self._bytes_max
        if self.is_too_large:
            self._content.clear()
        else:
            self._content += piece

    @property
    def content(self) -> bytes:
        """All that came."""
        return bytes(self._content)


class Keeper:
    """Keeps one turn.

    A memory that is away, full or silent is asked again until the turn's time is over; for the same turn, so that one
    whose answer was lost is not kept twice. What is not kept then, the caller is told.

    Args:
        stage: The memory.
        header: What the turn was asked for; its tenant is filled.
        report: Is told what could not be kept.
        left_s: Tells how many seconds the turn may still take.
    """

    def __init__(self, stage: Memory, header: pb.RespondHeader, report: Report, left_s: Callable[[], float]) -> None:
        self._stage = stage
        self._header = header
        self._report = report
        self._left_s = left_s
        self._rate_hz = 0
        self._speech = Clip(memory.CLIP_KIND_SPEECH, CLIP_BYTES_MAX - WAV_HEADER_BYTES)
        self._film = Clip(memory.CLIP_KIND_VIDEO)

    def hear(self, samples: bytes, sample_rate_hz: int) -> None:
        """Takes the next stretch of the reply's speech."""
        if self._header.keep_clips:
            self._rate_hz = sample_rate_hz
            self._speech.add(samples)

    def see(self, piece: bytes) -> None:
        """Takes the next bytes of the reply's film."""
        if self._header.keep_clips:
            self._film.add(piece)

    async def remember(
        self,
        recalled: memory.RecallResponse,
        understood: understanding.UnderstandResponse,
        reply: str,
        delivery: pb.Delivery,
        served: "ServedBy",
    ) -> str:
        """Keeps what was said; returns the turn's id, empty when it is not kept."""
        header = self._header
        if not header.conversation:
            return ""
        turn = memory.Turn(
            id=uuid.uuid4().hex,
            user_text=understood.text,
            user_emotion=understood.emotion.label,
            user_intensity=understood.emotion.intensity,
            reply_text=reply,
            reply_emotion=delivery.emotion.label,
            vote_record=vote_record(understood),
            models=served.models,
            variants=served.variants,
            experiment=served.experiment,
            phase=served.phase,
            degraded=self._report.losses,
            votes=votes_of(understood),
            delivery=memory.TurnDelivery(
                decided_by=delivery.decided_by,
                intensity=delivery.emotion.intensity,
                voice_style=delivery.voice_style,
                face_class=delivery.face_class,
            ),
            timings_s=self._report.took_s,
        )
        request = memory.RememberRequest(
            tenant=header.tenant,
            identity=header.identity,
            person=header.person,
            conversation=header.conversation,
            turn=turn,
            # Erased since, they are not to find these words again, nor anybody else of that name.
            identity_generation=recalled.identity.generation,
            person_generation=recalled.person_generation,
        )
        try:
            with self._report.stage("remember"):
                await self._until_kept(lambda timeout_s: self._stage.remember(request, timeout_s))
        except ServiceError as error:
            self._report.degrade("remember", Loss.TURN, str(error))
            return ""
        return turn.id

    async def _until_kept(self, keep: Callable[[float], Awaitable[None]], seconds_max: float = math.inf) -> None:
        """Calls `keep` with the seconds that it has, until it succeeds or they, or the turn's time, are over."""
        pause_s, end_s = RETRY_S_MIN, now_s() + seconds_max
        while True:
            try:
                return await keep(min(self._left_s(), end_s - now_s()))
            except (DeadlineExceeded, NotReady, Overloaded):
                if min(self._left_s(), end_s - now_s()) <= pause_s + TRY_S_MIN:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)

    async def keep_clips(self, turn: str) -> None:
        """Keeps the reply's speech and film with the turn."""
        if not any(clip.content or clip.is_too_large for clip in (self._speech, self._film)):
            return
        with self._report.stage("keep_clips") as timing:
            if not await self._keep_all(turn):
                timing.outcome = "failed"

    async def _keep_all(self, turn: str) -> bool:
        """Return whether both were kept that there are."""
        lost = False
        for clip, loss in ((self._speech, Loss.SPEECH_RECORDING), (self._film, Loss.VIDEO_RECORDING)):
            if clip.is_too_large:
                self._report.degrade("keep_clips", loss, f"it has more than {CLIP_BYTES_MAX} bytes; it is not kept")
                lost = True
            if not (content := clip.content):
                continue
            try:
                is_speech = clip is self._speech
                await self._keep(clip.kind, turn, _wav(content, self._rate_hz) if is_speech else content)
            except ServiceError as error:
                self._report.degrade("keep_clips", loss, str(error))
                lost = True
        return not lost

    async def _keep(self, kind: memory.ClipKind, turn: str, content: bytes) -> None:
        header = self._header
        where = memory.PutClipHeader(
            tenant=header.tenant,
            identity=header.identity,
            person=header.person,
            conversation=header.conversation,
            turn=turn,
            kind=kind,
            size_bytes=len(content),
        )
        await self._until_kept(lambda timeout_s: self._stage.keep_clip(where, content, timeout_s))

    async def keep_outcome(self, turn: str, served: "ServedBy") -> None:
        """Keep what the turn, which is over, took, and what it went on without; and who served it in the end."""
        header = self._header
        request = memory.PutTimingsRequest(
            tenant=header.tenant,
            identity=header.identity,
            person=header.person,
            conversation=header.conversation,
            turn=turn,
            timings_s=self._report.took_s,
            models=served.models,
            variants=served.variants,
            degraded=self._report.losses,
        )
        try:
            await self._until_kept(lambda timeout_s: self._stage.keep_timings(request, timeout_s), TIMINGS_S_MAX)
        except ServiceError as error:
            self._report.degrade("remember", Loss.LAST_TIMINGS, str(error))


def votes_of(understood: understanding.UnderstandResponse) -> list[memory.TurnVote]:
    """Return the votes that counted, in order of priority."""
    return [
        memory.TurnVote(voter=vote.voter, label=vote.prediction.label, weight=vote.weight, latency_s=vote.latency_s)
        for vote in understood.record.votes
        if vote.weight > 0 and vote.prediction.label
    ]


@dataclass(frozen=True)
class ServedBy:
    """Models and variants of a turn, by stage.

    Attributes:
        models: "<back-end> <begin of the digest>" of each that has told its card.
        variants: Those that were chosen, and in the end those that served.
        experiment: Id of the experiment; empty for none.
        phase: Phase of the experiment.
    """

    models: Mapping[str, str]
    variants: Mapping[str, str]
    experiment: str = ""
    phase: int = 0


def served_by(
    routing: Routing,
    understood: understanding.UnderstandResponse,
    chosen: Mapping[str, Chosen],
    served: Mapping[str, pb.Served],
) -> ServedBy:
    """Return who serves a turn, as far as that is known.

    Args:
        routing: Choices of the turn.
        understood: Names the voters, and the card of each.
        chosen: Variants that were chosen.
        served: Those that have told their card.
    """
    votes = {f"{VOTER}{vote.voter}": vote for vote in understood.record.votes if vote.HasField("card")}
    cards = {stage: vote.card for stage, vote in votes.items()} | {stage: each.card for stage, each in served.items()}
    variants = {stage: vote.variant or VARIANT for stage, vote in votes.items()}
    variants |= {stage: each.variant for stage, each in chosen.items()}
    trial = routing.trial(chosen, variants)
    return ServedBy(
        models={stage: f"{card.backend} {card.digest[:DIGEST_CHARS]}" for stage, card in cards.items()},
        variants=variants,
        experiment=trial.id if trial else "",
        phase=trial.phase if trial else 0,
    )


def vote_record(understood: understanding.UnderstandResponse) -> bytes:
    """Returns how the panel decided, serialised, with at most 64 KiB.

    Of a larger one the parts are left out that are large and mean least, one after the other until it fits: what the
    voters wrote, measured and were shown; their distributions; the notes; the words, which the turn has; the votes.
    The last note names them.
    """
    record = understanding.UnderstandResponse()
    record.CopyFrom(understood)
    if record.ByteSize() <= VOTE_RECORD_BYTES_MAX:
        return record.SerializeToString()
    left_out: list[str] = []
    for part, leave_out in _PARTS.items():
        leave_out(record)
        left_out.append(part)
        kept = understanding.UnderstandResponse()
        kept.CopyFrom(record)
        kept.notes.append(f"vote record: left out {', '.join(left_out)}")
        if kept.ByteSize() <= VOTE_RECORD_BYTES_MAX:
            return kept.SerializeToString()
    return b""


def _clear_predictions(record: understanding.UnderstandResponse, *fields: str) -> None:
    for vote in (*record.record.votes, *record.record.shadow_votes):
        for field in fields:
            vote.prediction.ClearField(field)


def _clear_votes(record: understanding.UnderstandResponse) -> None:
    record.record.ClearField("votes")
    record.record.ClearField("shadow_votes")


_PARTS: dict[str, Callable[[understanding.UnderstandResponse], None]] = {
    "evidence": lambda record: _clear_predictions(record, "evidence", "shots", "answer"),
    "distributions": lambda record: _clear_predictions(record, "distribution"),
    "notes": lambda record: record.ClearField("notes"),
    "text": lambda record: record.ClearField("text"),
    "votes": _clear_votes,
}
"""Parts to leave out of a vote record that is too large, in this order."""


def _wav(samples: bytes, sample_rate_hz: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate_hz)
        writer.writeframes(samples)
    return file.getvalue()
