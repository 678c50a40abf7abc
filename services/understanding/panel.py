"""Asks all voters at once under one deadline, and decides as soon as no missing vote can change the result.

Voters that are often late are asked too, but not waited for, nor does an early decision wait for voters on probation:
their answers are observed beside the turn.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from emotions import Wheel
from services.common.errors import DeadlineExceeded, ServiceError
from services.understanding import absences, metrics
from services.understanding.decision import Missing, decide, settled
from services.understanding.domain import Decision, Reliability, Standing, Status, Vote
from services.understanding.observing import Observer, stop
from services.understanding.rules import Rule

AHEAD_TIMEOUT_S = 60.0
"""Only bounds a vote whose turn is given up: the panel's deadline counts from the moment that the words are there."""
CALLED_OFF = "no answer of it could have changed the result"
OFTEN_LATE = "no answer by the decision, which does not wait for a voter that is often late"
ON_PROBATION = "on probation: it agrees with the other voters no better than chance"
NEW = "on probation: it is new to the panel"

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

    votes: "dict[str, asyncio.Future[Vote[Source]]]" = field(default_factory=dict)
    introductions: dict[str, Introduction[Source]] = field(default_factory=dict)

    def cancel(self) -> None:
        """Stops those that still work, unless a decision has taken them over."""
        stop(self.votes.values())


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
        observer: Keeps the track records of the voters; None where all count and are waited for.
        named: Voters whose variant the caller of the turn names: their votes count whatever their track record.
    """

    voters: Sequence[Voter[Message, Source]]
    wheel: Wheel
    rule: Rule
    quorum: int
    deadline_s: float
    early: bool
    observer: Observer[Source] | None = None
    named: frozenset[str] = frozenset()

    def begin(self, message: Message) -> Ahead[Source]:
        """Asks those who need no words, while the words of `message` are still being transcribed."""
        ahead = Ahead[Source]()
        for voter in self.voters:
            introduction = voter.introduce()
            if introduction and introduction.wordless:
                ahead.introductions[voter.name] = introduction
                ahead.votes[voter.name] = asyncio.ensure_future(voter.vote(message, AHEAD_TIMEOUT_S))
        return ahead

    async def decide(self, message: Message, ahead: Ahead[Source] | None = None) -> Decision[Source]:
        """Asks every voter that was not asked ahead, and decides over the votes that come in time.

        Raises:
            InvalidRequest: Every voter abstains, so asking again would not help.
            FailedPrecondition: Fewer votes than the quorum count, since all other voters abstain, as they would again.
            NotReady: Fewer votes than the quorum count, and some voter was late or failed. The messages of all three
                say what became of each voter.
        """
        ahead = ahead or Ahead()
        asked = _Asked(time.monotonic(), ahead.introductions, self._reliabilities())
        for voter in self.voters:
            # Taken over: whoever gives up what was asked ahead leaves it to this decision.
            begun = ahead.votes.pop(voter.name, None)
            asked.tasks[voter.name] = asyncio.ensure_future(self._ask(voter, message, begun, asked))
        rest: dict[str, asyncio.Future[Vote[Source]]] = {}
        try:
            early = await self._wait(asked)
            votes = self._with_quorum([self._vote(voter, asked) for voter in self.voters])
            rest = {
                name: task for name, task in asked.tasks.items() if not (task.done() or self._waits_for(name, asked))
            }
        finally:
            stop(task for name, task in asked.tasks.items() if name not in rest)
        metrics.observe_votes(votes, asked.answered_s)
        absences.warn(votes)
        decision = None
        if sum(vote.status is Status.VOTED for vote in votes) >= self.quorum:
            decision = replace(decide(votes, self.rule, self.wheel), early=early)
            metrics.observe_decision(decision)
        if self.observer:
            self.observer.observe(votes, rest, decision)
        if not decision:
            raise absences.undecided(votes, self.quorum)
        return decision

    def _reliabilities(self) -> dict[str, Reliability]:
        if not self.observer:
            return {}
        found = self.observer.records.reliabilities([(voter.name, voter.variant) for voter in self.voters])
        for name in self.named & found.keys():
            if found[name].standing is Standing.PROBATION:
                standing = Standing.NOT_WAITED_FOR if found[name].is_late else Standing.COUNTED
                found[name] = replace(found[name], standing=standing)
        return found

    async def _wait(self, asked: "_Asked[Source]") -> bool:
        """Waits for the votes; returns whether some were not waited for."""
        pending = set(asked.tasks.values())
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a mistake of the panel's own is raised at once
            if pending and self._is_enough(asked):
                return True
        return False

    def _is_enough(self, asked: "_Asked[Source]") -> bool:
        """Tells whether the panel can decide over the votes that are in."""
        votes = [self._vote(voter, asked) for voter in self.voters if asked.tasks[voter.name].done()]
        missing = [name for name, task in asked.tasks.items() if not task.done() and self._waits_for(name, asked)]
        if not missing:
            return (
                sum(vote.status is Status.VOTED and vote.is_counted for vote in self._with_quorum(votes)) >= self.quorum
            )
        # A voter that has not said what it is may be anything.
        known = asked.introductions
        return self.early and settled(
            votes,
            [Missing(name, fine=name not in known or known[name].fine) for name in missing],
            self.quorum,
            self.rule,
            self.wheel,
        )

    def _waits_for(self, name: str, asked: "_Asked[Source]") -> bool:
        reliability = asked.reliabilities.get(name)
        if not reliability:
            return True
        return not reliability.is_late and (reliability.standing is Standing.COUNTED or not self.early)

    def _vote(self, voter: Voter[Message, Source], asked: "_Asked[Source]") -> Vote[Source]:
        """Returns a voter's part in the decision, as far as it is known now."""
        task, reliability = asked.tasks[voter.name], asked.reliabilities.get(voter.name)
        if task.done():
            vote = task.result()
        elif reliability and reliability.is_late:
            vote = asked.lost(voter.name, Status.LATE, OFTEN_LATE)
        else:
            vote = asked.lost(voter.name, Status.CANCELLED, CALLED_OFF)
        vote = replace(vote, variant=voter.variant, reliability=reliability)
        if vote.status is not Status.VOTED or not reliability or reliability.standing is not Standing.PROBATION:
            return vote
        return replace(vote, is_counted=False, reason=NEW if reliability.is_new else ON_PROBATION)

    def _with_quorum(self, votes: Sequence[Vote[Source]]) -> list[Vote[Source]]:
        """Lets votes of voters on probation count where the quorum needs them: first of those that agree most."""
        lacking = self.quorum - sum(vote.status is Status.VOTED and vote.is_counted for vote in votes)
        spare = sorted((vote for vote in votes if not vote.is_counted), key=_agreement, reverse=True)
        let = {vote.voter for vote in spare[: max(0, lacking)]}
        return [replace(vote, is_counted=True, reason="") if vote.voter in let else vote for vote in votes]

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
    reliabilities: Mapping[str, Reliability]
    tasks: "dict[str, asyncio.Future[Vote[Source]]]" = field(default_factory=dict)
    answered_s: dict[str, float] = field(default_factory=dict)

    def lost(self, name: str, status: Status, reason: str) -> Vote[Source]:
        """Returns the part of a voter that gave no vote."""
        known = self.introductions.get(name)
        return Vote(
            name, status, reason, latency_s=time.monotonic() - self.started_s, source=known.source if known else None
        )


def _agreement(vote: Vote[Source]) -> float:
    return (vote.reliability and vote.reliability.agreement) or 0.0
