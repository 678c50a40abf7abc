"""Scores of kept turns: whether words, voice and face show what was asked for, and whether a known label was hit."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import emotions
from benchmarks.expressiveness import voices
from benchmarks.expressiveness.judges import CLASSES
from benchmarks.scoring.readers import Numbers, Readers, Unreadable
from benchmarks.scoring.store import Store
from e3rg.memory.v1 import memory_pb2, turns_pb2
from orchestrator.comparison.scores import SCORES
from services.common.errors import Damaged, FailedPrecondition, NotFound

HIT, TEXT, VOICE, FACE = SCORES
"""A reader that is replaced takes a new name, such as "agrees-face-2": scores of two readers are never one metric."""
PLAIN_STYLE, PLAIN_CLASS = "default", "neutral"
PLAIN_MIN, PLAIN_MAX = 3, 12
"""Plainly spoken clips of a voice that it is compared with."""
GONE = (NotFound, FailedPrecondition, Damaged)
"""Errors of one turn: erased meanwhile, not allowed any more, or damaged in the store."""


@dataclass
class Outcome:
    """What a run did.

    Attributes:
        kept: Scores that were kept, by name; in a dry run, those that would have been.
        skipped: Turns and clips without a score, by the reason.
        records: All turns that were looked at, with old and new scores.
    """

    kept: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    records: list[turns_pb2.TurnRecord] = field(default_factory=list)


class Job:
    """Scores the turns of a tenant; those that have a score keep it, so that a run goes on where one ended.

    Args:
        store: The memory.
        readers: Read replies.
        labels: Known label of what the user felt, by the turn's id.
        is_dry: Whether nothing is kept.
        tell: Called with each turn that was scored.
    """

    def __init__(
        self,
        store: Store,
        readers: Readers,
        labels: Mapping[str, str],
        is_dry: bool = False,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._store, self._readers, self._labels, self._is_dry, self._tell = store, readers, labels, is_dry, tell
        self._wheel = emotions.load()
        self._plain: dict[tuple[str, str], Numbers | None] = {}
        self._portraits: dict[str, bytes] = {}

    async def run(self, wanted: turns_pb2.TurnFilter, experiment: str = "") -> Outcome:
        """Score the turns that match.

        Args:
            wanted: Which turns.
            experiment: Only those of this experiment; empty for all.

        Raises:
            ServiceError: The memory does not answer.
        """
        outcome = Outcome()
        async for record in self._store.turns(wanted):
            if experiment in ("", record.turn.experiment):
                outcome.records.append(record)
        for record in outcome.records:
            scores = await self._scores(record, outcome)
            if not scores:
                continue
            try:
                if not self._is_dry:
                    await self._store.put(record, scores)
            except GONE as error:
                outcome.skipped[_reason(error)] += 1
                continue
            record.scores.update(scores)
            outcome.kept.update(scores.keys())
            self._tell(f"{record.turn.id} {', '.join(f'{name} {value:g}' for name, value in sorted(scores.items()))}")
        return outcome

    async def _scores(self, record: turns_pb2.TurnRecord, outcome: Outcome) -> dict[str, float]:
        """Return the scores that a turn lacks and that can be told."""
        found: dict[str, float] = {}
        for name, score in ((HIT, self._hit), (TEXT, self._text), (VOICE, self._voice), (FACE, self._face)):
            if name in record.scores:
                continue
            try:
                if (is_right := await score(record, outcome.records)) is not None:
                    found[name] = float(is_right)
            except (*GONE, Unreadable) as error:
                outcome.skipped[_reason(error)] += 1
        return found

    async def _hit(self, record: turns_pb2.TurnRecord, _: Sequence[turns_pb2.TurnRecord]) -> bool | None:
        label = self._labels.get(record.turn.id)
        return None if label is None else record.turn.user_emotion == label

    async def _text(self, record: turns_pb2.TurnRecord, _: Sequence[turns_pb2.TurnRecord]) -> bool | None:
        turn = record.turn
        return self._readers.words(turn.reply_text) == self._wheel.label(turn.reply_emotion).coarse

    async def _voice(self, record: turns_pb2.TurnRecord, records: Sequence[turns_pb2.TurnRecord]) -> bool | None:
        style = record.turn.delivery.voice_style
        # A plain clip is among those that the others are compared with, so it cannot be wrong.
        if style in ("", PLAIN_STYLE) or style not in voices.EXPECTED or not _has(record, memory_pb2.CLIP_KIND_SPEECH):
            return None
        plain = await self._plain_cues(record, records)
        if plain is None:
            raise Unreadable(f"speech: fewer than {PLAIN_MIN} plain clips of the same voice")
        heard = self._readers.voice(await self._store.clip(record, memory_pb2.CLIP_KIND_SPEECH))
        return voices.guess((heard.cues - plain) / voices.STEP, heard.voiced_fraction) in voices.EXPECTED[style]

    async def _face(self, record: turns_pb2.TurnRecord, _: Sequence[turns_pb2.TurnRecord]) -> bool | None:
        asked = record.turn.delivery.face_class
        if asked == PLAIN_CLASS or asked not in CLASSES or not _has(record, memory_pb2.CLIP_KIND_VIDEO):
            return None
        if record.identity not in self._portraits:
            self._portraits[record.identity] = await self._store.portrait(record.identity)
        film = await self._store.clip(record, memory_pb2.CLIP_KIND_VIDEO)
        return self._readers.face(film, self._portraits[record.identity]) == asked

    async def _plain_cues(
        self, record: turns_pb2.TurnRecord, records: Sequence[turns_pb2.TurnRecord]
    ) -> Numbers | None:
        """Return how an identity's voice sounds plainly, by the same model; None where too little is kept of that."""
        key = _speaker(record)
        if key not in self._plain:
            cues: list[Numbers] = []
            for other in records:
                is_plain = other.turn.delivery.voice_style == PLAIN_STYLE and _has(other, memory_pb2.CLIP_KIND_SPEECH)
                if not is_plain or _speaker(other) != key or len(cues) == PLAIN_MAX:
                    continue
                try:
                    heard = self._readers.voice(await self._store.clip(other, memory_pb2.CLIP_KIND_SPEECH))
                except (*GONE, Unreadable):
                    continue
                cues.append(heard.cues)
            self._plain[key] = np.mean(cues, axis=0) if len(cues) >= PLAIN_MIN else None
        return self._plain[key]


def by_variant(records: Sequence[turns_pb2.TurnRecord], stage: str) -> dict[str, list[turns_pb2.TurnRecord]]:
    """Return turns by the variant that served a stage; those that it did not serve are left out."""
    found: dict[str, list[turns_pb2.TurnRecord]] = defaultdict(list)
    for record in records:
        if stage in record.turn.variants:
            found[record.turn.variants[stage]].append(record)
    return dict(sorted(found.items()))


def _has(record: turns_pb2.TurnRecord, kind: memory_pb2.ClipKind) -> bool:
    return any(clip.kind == kind for clip in record.turn.clips)


def _speaker(record: turns_pb2.TurnRecord) -> tuple[str, str]:
    """Return what tells one voice from another: the identity, and the model that speaks for it."""
    return record.identity, record.turn.models.get("tts", "")


def _reason(error: Exception) -> str:
    return "erased, damaged or not allowed any more" if isinstance(error, GONE) else str(error)
