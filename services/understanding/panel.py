"""Asks all voters at once under one deadline, and decides as soon as no missing vote can change the result."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from emotions import Wheel
from services.common.errors import DeadlineExceeded, FailedPrecondition, InvalidRequest, NotReady, ServiceError
from services.understanding import metrics
from services.understanding.decision import Missing, decide, settled
from services.understanding.domain import Decision, Status, Vote
from services.understanding.rules import Rule

log = logging.getLogger(__name__)

AHEAD_TIMEOUT_S = 60.0
"""Only bounds a vote whose turn is given up: the panel's deadline counts from the moment that the words are there."""
CALLED_OFF = "no answer of it could have changed the result"

Message_contra = TypeVar("Message_contra", contravariant=True)
Message = TypeVar("Message")
Source = TypeVar("Source")


@dataclass(frozen=True)
class Introduction(Generic[Source]):
    """Properties of a voter that are known before it votes.

    Attributes:
        wordless: Whether it votes without the words of a message, so that it need not wait for a transcript.
        fine: Whether it may tell labels apart; false binds it.
        source: What is kept for the record when no vote comes; None when its models are several.
    """

    wordless: bool
    fine: bool
    source: Source | None


class Voter(Protocol[Message_contra, Source]):
    """One seat of the panel: a variant of a voter."""

    name: str
    variant: str

    def introduce(self) -> Introduction[Source] | None:
        """Return its properties, without a call; None while none are known."""

    async def vote(self, message: Message_contra, timeout_s: float) -> Vote[Source]:
        """Return its vote, that it abstains, or that what it answered is no vote (FAILED).

        Raises:
            ServiceError: It cannot be reached, or failed.
        """


@dataclass(frozen=True)
class Ahead(Generic[Source]):
    """Votes that were asked for ahead of the words, and who gives them, by the voter's name."""

    votes: "Mapping[str, asyncio.Future[Vote[Source]]]" = field(default_factory=dict)
    introductions: dict[str, Introduction[Source]] = field(default_factory=dict)

    def cancel(self) -> None:
        """Stops those that still work."""
        _stop(self.votes.values())


@dataclass(frozen=True)
class Panel(Generic[Message, Source]):
    """The voters and the terms under which they decide.

    Attributes:
        voters: In order of priority, the highest first.
        wheel: The emotion wheel.
        rule: How votes are counted.
        quorum: Votes that must count.
        deadline_s: Time that the voters get.
        early: Whether to decide, and call off who has not answered, once no missing vote can change the result.
    """

    voters: Sequence[Voter[Message, Source]]
    wheel: Wheel
    rule: Rule
    quorum: int
    deadline_s: float
    early: bool

    def begin(self, message: Message) -> Ahead[Source]:
        """Asks those who need no words, while the words of `message` are still being transcribed."""
        known, votes = {}, {}
        for voter in self.voters:
            introduction = voter.introduce()
            if introduction and introduction.wordless:
                known[voter.name] = introduction
                votes[voter.name] = asyncio.ensure_future(voter.vote(message, AHEAD_TIMEOUT_S))
        return Ahead(votes, known)

    async def decide(self, message: Message, ahead: Ahead[Source] | None = None) -> Decision[Source]:
        """Asks every voter that was not asked ahead, and decides over the votes that come in time.

        Raises:
            InvalidRequest: Every voter abstains, so asking again would not help.
            FailedPrecondition: Fewer votes than the quorum count, since all other voters abstain, as they would again.
            NotReady: Fewer votes than the quorum count, and some voter was late or failed. The messages of all three
                say what became of each voter.
        """
        ahead = ahead or Ahead()
        asked = _Asked(time.monotonic(), ahead.introductions)
        for voter in self.voters:
            asked.tasks[voter.name] = asyncio.ensure_future(
                self._ask(voter, message, ahead.votes.get(voter.name), asked)
            )
        try:
            early = await self._wait(asked)
            votes = [replace(self._vote(voter.name, asked), variant=voter.variant) for voter in self.voters]
        finally:
            _stop(asked.tasks.values())
        metrics.observe_votes(votes, asked.answered_s)
        _warn(votes)
        if sum(vote.status is Status.VOTED for vote in votes) < self.quorum:
            raise _undecided(votes, self.quorum)
        decision = replace(decide(votes, self.rule, self.wheel), early=early)
        metrics.observe_decision(decision)
        return decision

    async def _wait(self, asked: "_Asked[Source]") -> bool:
        """Waits for the votes; returns whether some were not waited for."""
        pending = set(asked.tasks.values())
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a mistake of the panel's own is raised at once
            if pending and self.early and self._settled(asked):
                return True
        return False

    def _settled(self, asked: "_Asked[Source]") -> bool:
        votes = [asked.tasks[voter.name].result() for voter in self.voters if asked.tasks[voter.name].done()]
        missing = [name for name, task in asked.tasks.items() if not task.done()]
        # A voter that has not said what it is may be anything.
        known = asked.introductions
        return settled(
            votes,
            [Missing(name, fine=name not in known or known[name].fine) for name in missing],
            self.quorum,
            self.rule,
            self.wheel,
        )

    def _vote(self, name: str, asked: "_Asked[Source]") -> Vote[Source]:
        task = asked.tasks[name]
        return task.result() if task.done() else asked.lost(name, Status.CANCELLED, CALLED_OFF)

    async def _ask(
        self,
        voter: Voter[Message, Source],
        message: Message,
        ahead: "asyncio.Future[Vote[Source]] | None",
        asked: "_Asked[Source]",
    ) -> Vote[Source]:
        try:
            async with asyncio.timeout(self.deadline_s):
                if not ahead and (introduction := voter.introduce()):
                    asked.introductions[voter.name] = introduction
                vote = await (ahead or voter.vote(message, self.deadline_s))
                if vote.status is not Status.FAILED:
                    asked.answered_s[voter.name] = time.monotonic() - asked.started_s
                return vote
        except TimeoutError:
            return asked.lost(voter.name, Status.LATE, f"no answer within {self.deadline_s:g} s")
        except DeadlineExceeded as error:
            return asked.lost(voter.name, Status.LATE, str(error))
        except ServiceError as error:
            return asked.lost(voter.name, Status.FAILED, str(error))


@dataclass(frozen=True)
class _Asked(Generic[Source]):
    """The voters at work: since when, who they are, and when each answered, in seconds after that."""

    started_s: float
    introductions: dict[str, Introduction[Source]]
    tasks: "dict[str, asyncio.Future[Vote[Source]]]" = field(default_factory=dict)
    answered_s: dict[str, float] = field(default_factory=dict)

    def lost(self, name: str, status: Status, reason: str) -> Vote[Source]:
        """Returns the part of a voter that gave no vote."""
        known = self.introductions.get(name)
        return Vote(
            name, status, reason, latency_s=time.monotonic() - self.started_s, source=known.source if known else None
        )


def _warn(votes: Iterable[Vote[Source]]) -> None:
    """Tells the operator of every voter that should have answered and did not."""
    for vote in votes:
        if vote.status in (Status.LATE, Status.FAILED):
            extra = {
                "voter": vote.voter,
                "variant": vote.variant,
                "seconds": round(vote.latency_s, 4),
                "why": vote.reason,
            }
            log.warning("voter %s", vote.status, extra=extra)


def _undecided(votes: Sequence[Vote[Source]], quorum: int) -> ServiceError:
    """Returns the error that fewer votes than the quorum are: by it the caller knows whether to ask again."""
    absent = [vote for vote in votes if vote.status is not Status.VOTED]
    fates = "; ".join(f"{vote.voter} {vote.status} ({vote.reason})" for vote in absent)
    counted = f"{len(votes) - len(absent)} of the {quorum} votes needed"
    if any(vote.status is not Status.ABSTAINED for vote in absent):
        return NotReady(f"{counted}: {fates}")
    if len(absent) == len(votes):
        return InvalidRequest("message", f"no voter can read it: {fates}")
    return FailedPrecondition(f"{counted}, and asking again does not help, since the other voters abstain: {fates}")


def _stop(tasks: Iterable[asyncio.Future[Vote[Source]]]) -> None:
    for task in tasks:
        if not task.cancel() and not task.cancelled():
            task.exception()  # nobody else will look at it
