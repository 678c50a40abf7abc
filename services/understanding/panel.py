"""Asks all voters at once under one deadline."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from emotions import Wheel
from services.common.errors import NotReady, ServiceError
from services.understanding.domain import Decision, Status, Vote, decide

Message_contra = TypeVar("Message_contra", contravariant=True)
Message = TypeVar("Message")
Source = TypeVar("Source")


class Voter(Protocol[Message_contra, Source]):
    """One seat of the panel."""

    name: str

    async def vote(self, message: Message_contra, timeout_s: float) -> Vote[Source]:
        """Returns its vote, or that it abstains.

        Raises:
            ServiceError: It cannot be reached, or failed.
        """


@dataclass(frozen=True)
class Panel(Generic[Message, Source]):
    """The voters and the terms under which they decide.

    Attributes:
        voters: In order of priority, the highest first.
        wheel: The emotion wheel.
        quorum: Votes that must count.
        deadline_s: Time that the voters get.
    """

    voters: Sequence[Voter[Message, Source]]
    wheel: Wheel
    quorum: int
    deadline_s: float

    async def decide(self, message: Message) -> Decision[Source]:
        """Asks every voter and decides over the votes that came in time.

        Raises:
            NotReady: Fewer votes than the quorum count; the message says what became of each voter.
        """
        votes = await asyncio.gather(*(self._ask(voter, message) for voter in self.voters))
        counted = sum(vote.status is Status.VOTED for vote in votes)
        if counted < self.quorum:
            fates = "; ".join(f"{vote.voter} {vote.status} ({vote.reason})" for vote in votes if vote.reason)
            raise NotReady(f"{counted} of the {self.quorum} votes needed: {fates}")
        return decide(votes, self.wheel)

    async def _ask(self, voter: Voter[Message, Source], message: Message) -> Vote[Source]:
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self.deadline_s):
                return await voter.vote(message, self.deadline_s)
        except TimeoutError:
            return Vote(voter.name, Status.LATE, f"no answer within {self.deadline_s:g} s", latency_s=self.deadline_s)
        except ServiceError as error:
            return Vote(voter.name, Status.FAILED, str(error), latency_s=time.monotonic() - started_s)
