"""Shadow votes: variants that get a copy of a message. They count for nothing, and nobody waits for them."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic

from services.common.errors import DeadlineExceeded, ServiceError
from services.common.metrics import SHADOW_SECONDS, SHADOW_SKIPPED
from services.understanding.domain import Source, Status, Vote
from services.understanding.panel import Message, Voter

log = logging.getLogger(__name__)

AT_ONCE_MAX = 8
"""Shadow votes of all messages together that this process has at work; more are skipped."""


class Shadows(Generic[Message, Source]):
    """Asks shadows within a budget.

    Args:
        deadline_s: Time that each gets.
        stage_of: Returns the stage of a voter, for the metrics.
    """

    def __init__(self, deadline_s: float, stage_of: Callable[[str], str]) -> None:
        self._deadline_s, self._stage_of = deadline_s, stage_of
        self._at_work: set[asyncio.Task[Vote[Source]]] = set()

    @contextmanager
    def voting(
        self, voters: Sequence[Voter[Message, Source]], message: Message
    ) -> Iterator[Callable[[], list[Vote[Source]]]]:
        """Have shadows vote while the block runs; it gets a function that returns the votes that are in."""
        tasks = [task for voter in voters if (task := self._begin(voter, message))]
        try:
            yield lambda: [task.result() for task in tasks if _is_in(task)]
        finally:
            for task in tasks:
                task.cancel()

    def skip(self, voter: str, variant: str) -> None:
        """Count a copy that a shadow does not get."""
        SHADOW_SKIPPED.labels(self._stage_of(voter), variant).inc()

    def _begin(self, voter: Voter[Message, Source], message: Message) -> asyncio.Task[Vote[Source]] | None:
        if len(self._at_work) >= AT_ONCE_MAX:
            self.skip(voter.name, voter.variant)
            return None
        task = asyncio.create_task(self._vote(voter, message))
        self._at_work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Vote[Source]]) -> None:
        # By the task, not in it: one that is cancelled before its first step never runs.
        self._at_work.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a shadow vote broke", exc_info=error)

    async def _vote(self, voter: Voter[Message, Source], message: Message) -> Vote[Source]:
        started_s, outcome = time.monotonic(), "cancelled"
        try:
            async with asyncio.timeout(self._deadline_s):
                vote = await voter.vote(message, self._deadline_s)
            outcome = "failed" if vote.status is Status.FAILED else "ok"
        except (TimeoutError, ServiceError) as error:
            outcome = "failed"
            is_late = isinstance(error, TimeoutError | DeadlineExceeded)
            reason = str(error) or f"no answer within {self._deadline_s:g} s"
            latency_s = time.monotonic() - started_s
            vote = Vote(voter.name, Status.LATE if is_late else Status.FAILED, reason, latency_s=latency_s)
        finally:
            seconds = time.monotonic() - started_s
            SHADOW_SECONDS.labels(self._stage_of(voter.name), voter.variant, outcome).observe(seconds)
        return replace(vote, variant=voter.variant)


def _is_in(task: asyncio.Task[Vote[Source]]) -> bool:
    return task.done() and not task.cancelled() and not task.exception()
