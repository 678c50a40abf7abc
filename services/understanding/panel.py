"""Asks all voters at once under one deadline."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from emotions import Wheel
from services.common.errors import DeadlineExceeded, InvalidRequest, NotReady, ServiceError
from services.understanding.domain import Decision, Status, Vote, decide

AHEAD_TIMEOUT_S = 60.0
"""Only bounds a vote whose turn is given up: the panel's deadline counts from the moment that the words are there."""

Message_contra = TypeVar("Message_contra", contravariant=True)
Message = TypeVar("Message")
Source = TypeVar("Source")


class Voter(Protocol[Message_contra, Source]):
    """One seat of the panel."""

    name: str

    async def wordless(self) -> bool:
        """Tells whether it votes without the words of a message, so that it need not wait for a transcript.

        Raises:
            ServiceError: It cannot be reached.
        """

    async def vote(self, message: Message_contra, timeout_s: float) -> Vote[Source]:
        """Returns its vote, or that it abstains.

        Raises:
            ServiceError: It cannot be reached, or failed.
        """


@dataclass(frozen=True)
class Ahead(Generic[Source]):
    """Votes that were asked for ahead of the words, by the voter's name; None from those who need the words."""

    votes: Mapping[str, asyncio.Future[Vote[Source] | None]] = field(default_factory=dict)

    def cancel(self) -> None:
        """Stops those that still work."""
        for vote in self.votes.values():
            if not vote.cancel() and not vote.cancelled():
                vote.exception()  # nobody else will look at it


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

    def begin(self, message: Message) -> Ahead[Source]:
        """Asks those who need no words, while the words of `message` are still being transcribed."""
        return Ahead({voter.name: asyncio.ensure_future(_vote_ahead(voter, message)) for voter in self.voters})

    async def decide(self, message: Message, ahead: Ahead[Source] | None = None) -> Decision[Source]:
        """Asks every voter that was not asked ahead, and decides over the votes that come in time.

        Raises:
            InvalidRequest: Every voter abstains, so asking again would not help.
            NotReady: Fewer votes than the quorum count; the message says what became of each voter.
        """
        votes = await asyncio.gather(*(self._ask(voter, message, ahead or Ahead()) for voter in self.voters))
        counted = sum(vote.status is Status.VOTED for vote in votes)
        if counted < self.quorum:
            fates = "; ".join(f"{vote.voter} {vote.status} ({vote.reason})" for vote in votes if vote.reason)
            if all(vote.status is Status.ABSTAINED for vote in votes):
                raise InvalidRequest("message", f"no voter can read it: {fates}")
            raise NotReady(f"{counted} of the {self.quorum} votes needed: {fates}")
        return decide(votes, self.wheel)

    async def _ask(self, voter: Voter[Message, Source], message: Message, ahead: Ahead[Source]) -> Vote[Source]:
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self.deadline_s):
                asked = ahead.votes.get(voter.name)
                return (await asked if asked else None) or await voter.vote(message, self.deadline_s)
        except TimeoutError:
            return Vote(voter.name, Status.LATE, f"no answer within {self.deadline_s:g} s", latency_s=self.deadline_s)
        except DeadlineExceeded as error:
            return Vote(voter.name, Status.LATE, str(error), latency_s=time.monotonic() - started_s)
        except ServiceError as error:
            return Vote(voter.name, Status.FAILED, str(error), latency_s=time.monotonic() - started_s)


async def _vote_ahead(voter: Voter[Message, Source], message: Message) -> Vote[Source] | None:
    return await voter.vote(message, AHEAD_TIMEOUT_S) if await voter.wordless() else None
