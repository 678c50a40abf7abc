"""Finds the replica of the renderer that can begin a segment soonest."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass

from e3rg.video.v1 import video_pb2 as video
from services.common.errors import BackendFailed, NotReady, ServiceError

FREE_S = 0.25
"""A replica that owes no more rendering than this is as good as free: asking another takes as long."""
SILENT_S = 5.0
"""A replica answers a question at once, whatever it has to do; one that has not by then hangs."""
ASKED_MAX = 8
"""How many calls are made to find one for a segment."""

Answers = AsyncGenerator[video.AnimateResponse]


@dataclass(frozen=True)
class Place:
    """A call that was accepted: what its replica said, and what it will answer."""

    ready: video.FaceReady
    answers: Answers


async def accepted(answers: Answers) -> Place:
    """Waits until a call is accepted.

    Raises:
        ServiceError: It is not.
    """
    async for answer in answers:
        if answer.HasField("ready"):
            return Place(answer.ready, answers)
    raise BackendFailed("video: the call ended before it was accepted")


class Replicas:
    """What one reply has learned of the replicas. Each tells with `ready` who it is and what it has to do before.

    Args:
        silent_s: How long one may take to answer a question.
    """

    def __init__(self, silent_s: float = SILENT_S) -> None:
        self._silent_s = silent_s
        self._met: set[str] = set()
        self._failed: set[str] = set()
        self._went_round = False
        """Whether one was met again in one round of asking: all are likely to be known."""

    @asynccontextmanager
    async def place(self, ask: Callable[[], Answers]) -> AsyncIterator[Place]:
        """Gives the place that begins soonest; one that fails within is chosen last from then on.

        Args:
            ask: Makes the segment's call once more. The channel goes round the replicas, so it reaches the next one.

        Raises:
            ServiceError: The first that answers refuses, or none answers.
        """
        async with AsyncExitStack() as stack:
            places = await self._asked(ask, stack)
            best = min(places, key=lambda place: (place.ready.replica in self._failed, place.ready.backlog_s))
            for place in places:
                if place is not best:
                    await place.answers.aclose()
            try:
                yield best
            except NotReady:
                self._met.discard(best.ready.replica)
                raise
            except ServiceError:
                self._failed.add(best.ready.replica)
                raise

    async def _asked(self, ask: Callable[[], Answers], stack: AsyncExitStack) -> list[Place]:
        """Asks one replica after the other until one is free or all were asked; each holds its place meanwhile."""
        places: list[Place] = []
        refused = again = 0
        for _ in range(ASKED_MAX):
            answers = await stack.enter_async_context(aclosing(ask()))
            waits_s = [place.ready.backlog_s for place in places if place.ready.replica not in self._failed]
            try:
                # Who is silent for longer than the best so far has to do before cannot be the better one.
                async with asyncio.timeout(min([self._silent_s, *waits_s])):
                    found = await accepted(answers)
            except (TimeoutError, ServiceError) as error:
                if not places and isinstance(error, ServiceError):
                    raise
                await answers.aclose()
                refused += 1
                if places and refused > len(self._met):
                    break
                continue
            asked = {place.ready.replica for place in places}
            name = found.ready.replica
            if name in asked:
                self._went_round = True
                again += 1
                await answers.aclose()
            else:
                places.append(found)
                asked.add(name)
                self._met.add(name)
                if found.ready.backlog_s <= FREE_S and name not in self._failed:
                    break
            # In more than a whole round those that are missing were not met. (Other segments ask in between, so a
            # round may skip one: as long as only one that fails was found, the search goes on.)
            if again > len(places) and not asked <= self._failed:
                self._met &= asked
            if self._went_round and self._met <= asked:
                break
        if not places:
            raise BackendFailed(f"video: asked {ASKED_MAX} times, no replica answered within {self._silent_s:g} s")
        return places
