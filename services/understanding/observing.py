"""Observes what became of the voters, also of those whose answers come after the decision."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from services.understanding.domain import Decision, Source, Status, Vote
from services.understanding.track_record import TrackRecords

log = logging.getLogger(__name__)

AT_ONCE_MAX = 8
"""Messages of which this process awaits answers after the decision; of more the answers are called off."""


class Observer(Generic[Source]):
    """Enters each message into the track records, once all its answers are in.

    Args:
        records: Track records of the voters.
    """

    def __init__(self, records: TrackRecords) -> None:
        self.records = records
        self._at_work: set[asyncio.Task[None]] = set()

    def observe(
        self,
        votes: Sequence[Vote[Source]],
        rest: "Mapping[str, asyncio.Future[Vote[Source]]]",
        decision: Decision[Source] | None,
    ) -> None:
        """Enter a message; the caller does not wait for the rest of it.

        Args:
            votes: One of each voter, as they were decided over.
            rest: Answers that are still to come, by the voter's name; each has a deadline of its own.
            decision: What was decided; None without a quorum.
        """
        if not rest:
            self.records.observe(votes, decision)
        elif len(self._at_work) < AT_ONCE_MAX:
            task = asyncio.create_task(self._await(votes, rest, decision))
            self._at_work.add(task)
            task.add_done_callback(lambda task: self._ended(task, rest))
        else:
            stop(rest.values())
            unknown = [replace(vote, status=Status.CANCELLED) if vote.voter in rest else vote for vote in votes]
            self.records.observe(unknown, decision)

    async def close(self) -> None:
        """Call off all answers that are still to come."""
        tasks = list(self._at_work)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _await(
        self,
        votes: Sequence[Vote[Source]],
        rest: "Mapping[str, asyncio.Future[Vote[Source]]]",
        decision: Decision[Source] | None,
    ) -> None:
        await asyncio.wait(rest.values())
        come = {name: task.result() for name, task in rest.items()}
        final = [replace(come.get(vote.voter, vote), variant=vote.variant) for vote in votes]
        self.records.observe(final, decision)

    def _ended(self, task: "asyncio.Task[None]", rest: "Mapping[str, asyncio.Future[Vote[Source]]]") -> None:
        # By the task, not in it: one that is cancelled before its first step never runs.
        self._at_work.discard(task)
        stop(rest.values())
        if not task.cancelled() and (error := task.exception()):
            log.error("observing a voter broke", exc_info=error)


def stop(tasks: "Iterable[asyncio.Future[Vote[Source]]]") -> None:
    """Cancel votes, and take note of the errors of those that have ended: nobody else will look at them."""
    for task in tasks:
        if not task.cancel() and not task.cancelled():
            task.exception()
