"""Reply of a turn: written by the variant of the turn or else by the control, and handed on by the sentence."""

import time
from contextlib import aclosing

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.mllm.v1 import mllm_pb2 as mllm
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2 as understanding
from orchestrator.messages import to_examples, to_history, to_memories
from orchestrator.recalling import Found
from orchestrator.report import Loss, Timing
from orchestrator.routing import WRITER
from orchestrator.shadows import TurnShadows
from orchestrator.stages import Understanding
from orchestrator.turn import Turn
from services.common.errors import ServiceError

STORED_REPLIES = {
    "exemplar": "nothing that the writer wrote could be said",
    "risk": "a message that speaks of danger is never left to a model",
    "program": "the user asked whether a person answers",
    "help_line": "the user asked for a help line",
    "language": "the writer does not write in the user's language",
    "unsafe": "the writer wrote what may not be said",
}
"""Reasons for a stored reply, by their names in its record."""


class ReplyStage:
    """Writes one reply.

    Args:
        turn: The turn.
        panel: The panel, behind which the writers are.
        shadows: Shadows of the turn.
    """

    def __init__(self, turn: Turn, panel: Understanding, shadows: TurnShadows) -> None:
        self._turn, self._panel, self._shadows = turn, panel, shadows

    async def run(
        self,
        understood: understanding.UnderstandResponse,
        recalled: memory.RecallResponse,
        found: Found,
        reply_emotion: common.Emotion,
    ) -> tuple[str, mllm.ReplyRecord]:
        """Write the reply, and return it with the record of its writing.

        Raises:
            ServiceError: There is not one sentence.
        """
        turn = self._turn
        sentences: list[str] = []
        record = mllm.ReplyRecord()
        if found.turns.hits:
            turn.report.tell(pb.RespondResponse(recalled=found.turns))
        order = mllm.WriteReplyRequest(
            text=understood.text,
            history=to_history(recalled.turns),
            user_emotion=understood.emotion,
            reply_emotion=reply_emotion,
            profile=recalled.identity.profile,
            seed=turn.header.seed,
            memories=to_memories(found.turns.hits, time.time()),
            examples=to_examples(found.examples.hits),
        )
        with turn.report.stage("reply", made=turn.sentences) as timing:
            try:
                await self._write_all(understood, order, sentences, record, timing)
            except ServiceError as error:
                if not sentences:
                    raise
                timing.outcome = "failed"
                turn.report.degrade("reply", Loss.REPLY_REST, str(error))
            finally:
                turn.sentences.end()
        if record.degraded:
            reason = STORED_REPLIES.get(record.degraded, "the writer does not say why")
            turn.report.degrade("reply", Loss.OWN_WORDS, f"{record.degraded}: {reason}")
        return " ".join(sentences), record

    async def _write_all(
        self,
        understood: understanding.UnderstandResponse,
        order: mllm.WriteReplyRequest,
        sentences: list[str],
        record: mllm.ReplyRecord,
        timing: Timing,
    ) -> None:
        """Have the reply written; by the control when the variant of the turn fails before its first sentence."""
        turn = self._turn
        turn.chosen[WRITER] = turn.routing.choose(WRITER)
        if not understood.HasField("risk"):
            self._shadows.write(self._panel, order)
        while True:
            timing.variant = turn.chosen[WRITER].variant
            request = understanding.WriteReplyRequest(
                reply=order,
                variant=timing.variant,
                variants_version=turn.routing.table.version,
                risk=understood.risk if understood.HasField("risk") else None,
                risk_is_new=understood.risk_is_new,
                country=turn.header.country,
                language=understood.language,
            )
            try:
                async with aclosing(self._panel.write_reply(request)) as parts:
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
        self._turn.report.tell(pb.RespondResponse(text=pb.TextDelta(sentence=part.sentence)))
