"""Recall for a turn: the identity, the last turns, and how such messages were answered."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from e3rg.memory.v1 import exemplars_pb2 as exemplars
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.understanding.v1 import understanding_pb2
from orchestrator.memory import Memory
from orchestrator.report import Loss, Report
from services.common.errors import ServiceError

INFER_EMOTION, KEEP_TURNS = "infer_emotion", "keep_turns"
USES = {
    pb.OUTPUT_TEXT: (INFER_EMOTION,),
    pb.OUTPUT_AUDIO: (INFER_EMOTION, "clone_voice"),
    pb.OUTPUT_VIDEO: (INFER_EMOTION, "clone_voice", "animate_face"),
}
"""What an identity's consent must include for each output."""

SEARCH_BUDGET_S = 0.3
"""How long a reply waits for what is searched once the message is understood. Of a typed message the words are known
before the vote, so hardly any waits at all."""
TURNS_FOUND_MAX = 8
"""As many as a writer takes."""
EXAMPLES_FOUND_MAX = 4
SIMILARITY_MIN = 0.3
"""Below that a turn or an example has nothing to do with the message (the writers ask for more than that)."""
TEXT_CHARS_MAX = 4000
"""Of what is searched for: of a speech of minutes, its beginning."""


@dataclass(frozen=True)
class Found:
    """What was found for a message."""

    turns: memory.SearchResponse = field(default_factory=memory.SearchResponse)
    examples: exemplars.SearchExemplarsResponse = field(default_factory=exemplars.SearchExemplarsResponse)


class Recaller:
    """Asks the memory on behalf of one turn.

    Args:
        stage: The memory.
        header: What the turn was asked for; its tenant is filled.
        report: Is told what could not be had.
    """

    def __init__(self, stage: Memory, header: pb.RespondHeader, report: Report) -> None:
        self._stage = stage
        self._header = header
        self._report = report

    async def recall(self, output: pb.Output, turns_max: int, experiment: str) -> memory.RecallResponse:
        """Recalls the identity and the last turns; what the memory knows late only, or has damaged, is told.

        Args:
            output: How much of a reply is wanted.
            turns_max: Turns to recall.
            experiment: Id of the experiment that runs; empty for none.

        Raises:
            NotFound: The identity is unknown.
            FailedPrecondition: Its consent does not allow the output.
        """
        header = self._header
        request = memory.RecallRequest(
            tenant=header.tenant,
            identity=header.identity,
            person=header.person,
            conversation=header.conversation,
            turns_max=turns_max,
            uses=USES[output],
            experiment=experiment,
        )
        with self._report.stage("recall"):
            recalled = await self._stage.recall(request)
        if recalled.stale_s > 0:
            reason = f"the memory's store cannot be reached; this is what was known {recalled.stale_s:.0f} s ago"
            self._report.degrade("recall", Loss.RECENT_MEMORY, reason)
        if recalled.damaged:
            self._report.degrade("recall", Loss.DAMAGED_TURNS, "; ".join(recalled.damaged))
        return recalled

    async def search(
        self,
        recalling: Awaitable[memory.RecallResponse],
        understanding: Awaitable[understanding_pb2.UnderstandResponse],
        understood: asyncio.Event,
    ) -> Found:
        """Searches for what is near to the message, beside what else runs; what fails or is late is told.

        Args:
            recalling: Who the avatar is.
            understanding: What the message says, unless it was typed.
            understood: Set when the reply could be written: what is not found within the budget then is left out.
        """
        recalled = await recalling
        if recalled.stale_s > 0:
            return Found()  # what is away cannot be searched
        text = (self._header.text.strip() or (await understanding).text)[:TEXT_CHARS_MAX]
        with self._report.stage("search"):
            answer = await self._in_time(self._request(recalled, text), understood)
        return Found(
            memory.SearchResponse(hits=answer.hits, model_digest=answer.model_digest),
            exemplars.SearchExemplarsResponse(hits=answer.examples, model_digest=answer.model_digest),
        )

    def _request(self, recalled: memory.RecallResponse, text: str) -> memory.SearchRequest:
        """Returns the search for examples, and for turns where any are kept."""
        header = self._header
        is_kept = any(grant.use == KEEP_TURNS for grant in recalled.identity.grants)
        return memory.SearchRequest(
            tenant=header.tenant,
            identity=header.identity,
            person=header.person,
            here=header.conversation,
            text=text,
            hits_max=TURNS_FOUND_MAX if is_kept and (header.conversation or header.person) else 0,
            examples_max=EXAMPLES_FOUND_MAX,
            similarity_min=SIMILARITY_MIN,
            # No writer speaks of what was said just now; which of the turns before it reads, it knows itself.
            without=[turn.id for turn in recalled.turns[-1:]],
        )

    async def _in_time(self, request: memory.SearchRequest, understood: asyncio.Event) -> memory.SearchResponse:
        """Returns the answer; an empty one when it is late or the memory failed, both of which are told."""
        answering = asyncio.create_task(self._stage.search(request))
        waiting = asyncio.create_task(_budget_is_over(understood))
        try:
            await asyncio.wait({answering, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            problem = f"not found within {SEARCH_BUDGET_S:g} s; the reply does not wait longer"
        except ServiceError as error:
            problem = str(error)
        finally:
            answering.cancel()
            waiting.cancel()
            await asyncio.gather(answering, waiting, return_exceptions=True)
        for loss in (Loss.EARLIER_TURNS, Loss.EXAMPLES) if request.hits_max else (Loss.EXAMPLES,):
            self._report.degrade("search", loss, problem)
        return memory.SearchResponse()


async def _budget_is_over(understood: asyncio.Event) -> None:
    await understood.wait()
    await asyncio.sleep(SEARCH_BUDGET_S)
