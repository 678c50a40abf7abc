"""Whom the panel waits for, whom it calls off, and what it keeps of each."""

import asyncio
import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from prometheus_client import REGISTRY

from emotions import Wheel
from services.common.errors import BackendFailed, FailedPrecondition, InvalidRequest, NotReady
from services.understanding.domain import Decision, Status, Vote
from services.understanding.metrics import observe_votes
from services.understanding.panel import CALLED_OFF, Introduction, Panel
from services.understanding.rules import rule_of
from tests.fakes import PATIENCE_S


def vote(voter: str, distribution: Mapping[str, float], fine: bool = True) -> Vote[str]:
    return Vote(voter, Status.VOTED, distribution=distribution, fine=fine, source=f"answer of {voter}")


def abstained(voter: str) -> Vote[str]:
    return Vote(voter, Status.ABSTAINED, "no face in any frame")


@dataclass
class Seat:
    """A voter that says what it is once `known` is set, and answers, or fails, once `ready` is; `sees_only` may be a
    failure too.

    It is `stopped` when its call is cancelled.
    """

    name: str
    answer: Vote[str] | Exception
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    known: asyncio.Event = field(default_factory=asyncio.Event)
    sees_only: bool | Exception = False
    fine: bool = True
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known.set()

    async def introduce(self) -> Introduction[str]:
        await self.known.wait()
        if isinstance(self.sees_only, Exception):
            raise self.sees_only
        return Introduction(self.sees_only, self.fine, f"card of {self.name}")

    async def vote(self, message: str, introduction: Introduction[str], timeout_s: float) -> Vote[str]:
        self.messages.append(message)
        self.asked.set()
        try:
            await self.ready.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def seat(name: str, answer: Vote[str] | Exception, ready: bool = True) -> Seat:
    made = Seat(name, answer)
    if ready:
        made.ready.set()
    return made


def panel_of(
    wheel: Wheel,
    *seats: Seat,
    quorum: int = 1,
    deadline_s: float = 3600,
    early: bool = False,
    awaited: tuple[str, ...] = (),
) -> Panel[str, str]:
    return Panel(seats, wheel, rule_of("majority", wheel), quorum, deadline_s, early, frozenset(awaited))


async def ask(wheel: Wheel, *seats: Seat, quorum: int = 1, deadline_s: float = 0.05) -> Decision[str]:
    deciding = panel_of(wheel, *seats, quorum=quorum, deadline_s=deadline_s).decide("message")
    return await asyncio.wait_for(deciding, PATIENCE_S)


async def test_all_voters_are_asked_at_once(wheel: Wheel) -> None:
    seats = [seat(name, vote(name, {"sad": 1.0}), ready=False) for name in "abc"]
    deciding = asyncio.create_task(ask(wheel, *seats, deadline_s=20))
    for one in seats:
        await one.asked.wait()  # none has answered yet
    for one in seats:
        one.ready.set()
    assert (await deciding).tally == {"sad": 3}


async def test_a_late_voter_is_recorded_and_not_waited_for(wheel: Wheel) -> None:
    decision = await ask(
        wheel, seat("slow", vote("slow", {"furious": 1.0}), ready=False), seat("a", vote("a", {"sad": 1.0}))
    )
    late, counted = decision.votes
    assert (late.voter, late.status, late.reason) == ("slow", Status.LATE, "no answer within 0.05 s")
    assert late.latency_s >= 0.05
    assert late.source == "card of slow"
    assert (counted.voter, decision.label) == ("a", "sad")


async def test_a_failed_voter_is_recorded_with_its_error(wheel: Wheel) -> None:
    decision = await ask(wheel, seat("broken", BackendFailed("out of paper")), seat("a", vote("a", {"sad": 1.0})))
    failed = decision.votes[0]
    assert (failed.voter, failed.status, failed.reason) == ("broken", Status.FAILED, "out of paper")
    assert decision.tally == {"sad": 1}


async def test_with_fewer_votes_than_the_quorum_there_is_no_decision_and_every_fate_is_named(wheel: Wheel) -> None:
    seats = [
        seat("a", vote("a", {"sad": 1.0})),
        seat("slow", vote("slow", {"sad": 1.0}), ready=False),
        seat("broken", BackendFailed("out of paper")),
        seat("shy", abstained("shy")),
    ]
    with pytest.raises(NotReady) as refused:
        await ask(wheel, *seats, quorum=2)
    assert str(refused.value) == (
        "1 of the 2 votes needed: slow late (no answer within 0.05 s); broken failed (out of paper);"
        " shy abstained (no face in any frame)"
    )


async def test_those_who_abstain_do_not_make_a_quorum(wheel: Wheel) -> None:
    with pytest.raises(NotReady, match="0 of the 1 votes needed: shy abstained"):
        await ask(wheel, seat("shy", abstained("shy")), seat("broken", BackendFailed("out of paper")))


async def test_a_quorum_that_only_abstentions_prevent_is_not_to_be_asked_for_again(wheel: Wheel) -> None:
    seats = [seat("a", vote("a", {"sad": 1.0})), seat("shy", abstained("shy"))]
    with pytest.raises(FailedPrecondition) as refused:
        await ask(wheel, *seats, quorum=2)
    assert str(refused.value) == (
        "1 of the 2 votes needed, and asking again does not help, since the other voters abstain:"
        " shy abstained (no face in any frame)"
    )


async def test_the_operator_is_told_of_every_voter_that_was_late_or_failed(
    wheel: Wheel, caplog: pytest.LogCaptureFixture
) -> None:
    seats = [
        seat("a", vote("a", {"sad": 1.0})),
        seat("slow", vote("slow", {"sad": 1.0}), ready=False),
        seat("broken", BackendFailed("out of paper")),
        seat("shy", abstained("shy")),
    ]
    with caplog.at_level(logging.WARNING, "services.understanding.panel"):
        await ask(wheel, *seats)
    found = [(each.getMessage(), vars(each)["voter"], vars(each)["why"]) for each in caplog.records]
    assert found == [("voter late", "slow", "no answer within 0.05 s"), ("voter failed", "broken", "out of paper")]


async def test_a_message_that_no_voter_can_read_is_the_senders_fault(wheel: Wheel) -> None:
    with pytest.raises(InvalidRequest, match="message: no voter can read it: shy abstained"):
        await ask(wheel, seat("shy", abstained("shy")))


async def test_a_fault_of_the_panel_itself_is_not_taken_for_a_failed_voter(wheel: Wheel) -> None:
    with pytest.raises(TypeError, match="a mistake in the code"):
        await ask(wheel, seat("a", TypeError("a mistake in the code")), seat("b", vote("b", {"sad": 1.0})))


async def test_who_needs_no_words_is_asked_ahead_and_only_once(wheel: Wheel) -> None:
    eyes = Seat("eyes", vote("eyes", {"sad": 1.0}), sees_only=True)
    ears = seat("ears", vote("ears", {"sad": 1.0}))
    panel = panel_of(wheel, eyes, ears, quorum=2)
    ahead = panel.begin("no words yet")
    await eyes.asked.wait()
    assert not ears.asked.is_set()
    eyes.asked.clear()
    eyes.ready.set()
    assert (await panel.decide("the words", ahead)).tally == {"sad": 2}
    assert not eyes.asked.is_set()


async def test_votes_asked_ahead_can_be_stopped(wheel: Wheel) -> None:
    eyes = Seat("eyes", vote("eyes", {"sad": 1.0}), sees_only=True)
    ahead = panel_of(wheel, eyes).begin("no words yet")
    await eyes.asked.wait()
    ahead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ahead.votes["eyes"]


async def test_who_cannot_be_reached_ahead_is_recorded_as_failed(wheel: Wheel) -> None:
    away = seat("face", vote("face", {"sad": 1.0}))
    away.sees_only = NotReady("it cannot be reached")
    panel = panel_of(wheel, away, seat("text", vote("text", {"sad": 1.0})))
    decision = await panel.decide("pictures and words", panel.begin("pictures"))
    assert (decision.votes[0].status, decision.votes[0].reason) == (Status.FAILED, "it cannot be reached")
    assert away.messages == []


async def test_who_hangs_when_asked_ahead_keeps_nobody_waiting_for_the_words(wheel: Wheel) -> None:
    face, text = seat("face", vote("face", {"sad": 1.0}), ready=False), seat("text", vote("text", {"sad": 1.0}))
    face.sees_only = True
    panel = panel_of(wheel, face, text, deadline_s=0.05)
    ahead = panel.begin("pictures")  # returns at once
    decision = await panel.decide("words", ahead)
    assert [one.status for one in decision.votes] == [Status.LATE, Status.VOTED]


async def test_who_was_asked_ahead_and_failed_is_recorded(wheel: Wheel) -> None:
    face, text = seat("face", BackendFailed("no paint")), seat("text", vote("text", {"sad": 1.0}))
    face.sees_only = True
    panel = panel_of(wheel, face, text)
    decision = await panel.decide("words", panel.begin("pictures"))
    assert (decision.votes[0].status, decision.votes[0].reason) == (Status.FAILED, "no paint")


# Early decision


def three_and_a_slow_one(fine: bool = True) -> tuple[list[Seat], Seat]:
    """Three that agree, and one that does not answer by itself."""
    slow = Seat("slow", vote("slow", {"furious": 1.0}, fine), fine=fine)
    return [seat(name, vote(name, {"sad": 0.9, "lonely": 0.1})) for name in "abc"], slow


async def others_voted() -> None:
    """Lets go by as many steps of the loop as those who are ready need, and more."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_cannot_change_the_result_is_called_off_and_recorded(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one()
    decision = await panel_of(wheel, slow, *quick, early=True).decide("message")
    assert (decision.label, decision.early, decision.tally) == ("sad", True, {"sad": 3})
    called_off = decision.votes[0]
    assert (called_off.voter, called_off.status, called_off.reason) == ("slow", Status.CANCELLED, CALLED_OFF)
    assert (called_off.source, called_off.weight, called_off.label_without) == ("card of slow", 0, "")
    assert 0 < called_off.latency_s < PATIENCE_S
    assert [each.status for each in decision.votes[1:]] == [Status.VOTED] * 3
    await asyncio.wait_for(slow.stopped.wait(), PATIENCE_S)


async def test_when_every_vote_is_in_nothing_was_early(wheel: Wheel) -> None:
    quick, _ = three_and_a_slow_one()
    assert not (await panel_of(wheel, *quick, early=True).decide("message")).early


async def test_a_panel_that_is_told_to_waits_for_all(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one()
    deciding = asyncio.create_task(panel_of(wheel, slow, *quick).decide("message"))
    await slow.asked.wait()
    assert not deciding.done()
    slow.ready.set()
    decision = await deciding
    assert (decision.early, decision.votes[0].status) == (False, Status.VOTED)


async def test_who_can_change_the_result_is_waited_for(wheel: Wheel) -> None:
    seats = [seat("a", vote("a", {"sad": 1.0})), seat("b", vote("b", {"sad": 1.0})), seat("c", abstained("c"))]
    slow = [Seat(name, vote(name, {"furious": 1.0})) for name in ("d", "e")]
    deciding = asyncio.create_task(panel_of(wheel, *slow, *seats, early=True).decide("message"))
    for one in slow:
        await one.asked.wait()
        one.ready.set()
    assert (await deciding).label == "furious"


async def test_a_voter_that_has_not_said_what_it_is_may_be_anything(wheel: Wheel) -> None:
    seats = [seat("a", vote("a", {"lonely": 0.55, "sad": 0.45})), seat("b", vote("b", {"lonely": 0.55, "sad": 0.45}))]
    on_classes = Seat("face", vote("face", wheel.spread({"sad": 1.0}), fine=False), fine=False)
    decision = await panel_of(wheel, *seats, on_classes, early=True).decide("message")
    assert decision.votes[2].status is Status.CANCELLED
    unknown = seat("face", vote("face", {"sad": 1.0}))
    unknown.known.clear()
    deciding = asyncio.create_task(panel_of(wheel, *seats, unknown, early=True).decide("message"))
    await others_voted()
    assert not deciding.done()
    unknown.known.set()
    decision = await deciding
    assert (decision.label, decision.votes[2].status) == ("sad", Status.VOTED)


async def test_a_vote_asked_ahead_takes_part_in_an_early_decision(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one()
    quick[0].sees_only = True
    panel = panel_of(wheel, *quick, slow, early=True)
    ahead = panel.begin("pictures")
    await ahead.votes["a"]
    assert (await panel.decide("words", ahead)).early
    assert quick[0].messages == ["pictures"]


async def test_a_vote_asked_ahead_may_be_called_off(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one(fine=False)
    slow.sees_only = True
    panel = panel_of(wheel, *quick, slow, early=True)
    ahead = panel.begin("pictures")
    await slow.asked.wait()
    decision = await panel.decide("words", ahead)
    assert (decision.early, decision.votes[3].status) == (True, Status.CANCELLED)
    await asyncio.wait_for(slow.stopped.wait(), PATIENCE_S)


async def test_who_looks_for_cries_for_help_is_never_called_off(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one()
    deciding = asyncio.create_task(panel_of(wheel, *quick, slow, early=True, awaited=("slow",)).decide("message"))
    await slow.asked.wait()
    await others_voted()
    assert not deciding.done()
    slow.ready.set()
    decision = await deciding
    assert (decision.early, decision.votes[3].status) == (False, Status.VOTED)


async def test_when_who_looks_for_cries_for_help_fails_all_others_are_heard(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one()
    guard = seat("guard", BackendFailed("out of paper"))
    deciding = asyncio.create_task(
        panel_of(wheel, guard, *quick, slow, early=True, awaited=("guard",)).decide("message")
    )
    await slow.asked.wait()
    await others_voted()
    assert not deciding.done()
    slow.ready.set()
    assert not (await deciding).early


async def test_without_a_quorum_nothing_is_decided_early(wheel: Wheel) -> None:
    quick, slow = three_and_a_slow_one()
    deciding = asyncio.create_task(panel_of(wheel, *quick, slow, quorum=4, early=True).decide("message"))
    await slow.asked.wait()
    slow.ready.set()
    assert len((await deciding).votes) == 4


async def test_the_order_in_which_votes_come_changes_nothing(wheel: Wheel) -> None:
    said: dict[str, Mapping[str, float]] = {
        "a": {"sad": 0.7, "furious": 0.3},
        "b": {"furious": 0.7, "sad": 0.3},
        "c": {"lonely": 0.3, "annoyed": 0.7},
        "d": {"lonely": 0.7, "annoyed": 0.3},
    }
    for order in itertools.permutations(said):
        seats = {name: seat(name, vote(name, each), ready=False) for name, each in said.items()}
        deciding = asyncio.create_task(panel_of(wheel, *seats.values(), early=True).decide("message"))
        for name in order:
            await seats[name].asked.wait()
            seats[name].ready.set()
            await asyncio.sleep(0)
        decision = await deciding
        assert (decision.label, decision.tie_break) == ("sad", "priority")
        assert [each.voter for each in decision.votes] == list(said)


async def test_a_caller_that_leaves_stops_every_voter(wheel: Wheel) -> None:
    seats = [Seat(name, vote(name, {"sad": 1.0})) for name in "ab"]
    deciding = asyncio.create_task(panel_of(wheel, *seats).decide("message"))
    for one in seats:
        await one.asked.wait()
    deciding.cancel()
    for one in seats:
        await asyncio.wait_for(one.stopped.wait(), PATIENCE_S)


# Metrics


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"e3rg_panel_{name}", labels) or 0.0


class Counted:
    """How much a metric grows within the block."""

    def __init__(self, name: str, **labels: str) -> None:
        self._name, self._labels = name, labels
        self._before = metric(name, **labels)

    @property
    def grown(self) -> float:
        return metric(self._name, **self._labels) - self._before


async def test_a_decision_is_measured(wheel: Wheel) -> None:
    early = Counted("decisions_total", rule="majority", early="true", tie_break="none")
    sums = {name: Counted(f"{name}_sum", rule="majority") for name in ("agreement", "margin", "entropy_bits")}
    _, slow = three_and_a_slow_one()
    quick = [seat(name, vote(name, {"sad": 0.9, "happy": 0.1})) for name in "abc"]
    decision = await panel_of(wheel, *quick, slow, early=True).decide("message")
    assert decision.entropy_bits > 0.4
    assert early.grown == 1
    assert sums["agreement"].grown == pytest.approx(1)
    assert sums["margin"].grown == pytest.approx(3)
    assert sums["entropy_bits"].grown == pytest.approx(decision.entropy_bits)


async def test_a_broken_tie_is_measured(wheel: Wheel) -> None:
    counted = Counted("decisions_total", rule="majority", early="false", tie_break="probability")
    await ask(wheel, seat("a", vote("a", {"sad": 0.6, "happy": 0.4})), seat("b", vote("b", {"furious": 1.0})))
    assert counted.grown == 1


async def test_what_becomes_of_a_voter_is_counted_even_when_nothing_is_decided(wheel: Wheel) -> None:
    seats = [
        seat("m-voted", vote("m-voted", {"sad": 1.0})),
        seat("m-late", vote("m-late", {"sad": 1.0}), ready=False),
        seat("m-failed", BackendFailed("out of paper")),
        seat("m-abstained", abstained("m-abstained")),
    ]
    with pytest.raises(NotReady):
        await ask(wheel, *seats, quorum=2)
    for status in ("voted", "late", "failed", "abstained"):
        assert metric("votes_total", voter=f"m-{status}", status=status) == 1
        assert metric("vote_seconds_count", voter=f"m-{status}", status=status) == 1


def test_lateness_counts_from_the_first_answer_and_failures_have_none() -> None:
    fates = {"first": Status.VOTED, "next": Status.ABSTAINED, "lost": Status.LATE, "broken": Status.FAILED}
    votes: list[Vote[str]] = [
        Vote(f"l-{name}", status, latency_s=latency_s)
        for (name, status), latency_s in zip(fates.items(), (1.0, 2.0, 5.0, 4.0), strict=True)
    ]
    observe_votes(votes, {"l-first": 1.5, "l-next": 3.5})
    found = [
        [metric(f"lateness_seconds_{each}", voter=f"l-{name}", status=status) for each in ("count", "sum")]
        for name, status in fates.items()
    ]
    assert found == [[1, 0], [1, 2], [1, 3.5], [0, 0]]


async def test_a_voter_is_pivotal_when_the_others_would_have_decided_otherwise(wheel: Wheel) -> None:
    said = {"p-a": {"sad": 1.0}, "p-b": {"sad": 0.6, "happy": 0.4}, "p-c": {"furious": 0.9, "sad": 0.1}}
    await ask(wheel, *(seat(name, vote(name, each)) for name, each in said.items()), seat("p-d", abstained("p-d")))
    found = [metric("pivotal_total", voter=name) for name in (*said, "p-d")]
    assert found == [1, 0, 0, 0]  # without a it would be furious
