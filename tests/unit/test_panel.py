"""How the panel decides, and whom it waits for."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from emotions import Wheel
from services.common.errors import BackendFailed, InvalidRequest, NotReady
from services.understanding.domain import Decision, Status, Vote, decide
from services.understanding.panel import Panel


def vote(voter: str, distribution: Mapping[str, float], fine: bool = True) -> Vote[str]:
    return Vote(voter, Status.VOTED, distribution=distribution, fine=fine)


def abstained(voter: str) -> Vote[str]:
    return Vote(voter, Status.ABSTAINED, "no face in any frame")


def test_the_class_with_most_votes_wins_over_the_surest_voter(wheel: Wheel) -> None:
    votes = [
        vote("a", {"joyful": 1.0}),
        vote("b", {"sad": 0.6, "happy": 0.4}),
        vote("c", {"lonely": 0.6, "happy": 0.4}),
    ]
    decision = decide(votes, wheel)
    assert (decision.face_class, decision.margin, decision.tie_break) == ("sad", 1, "none")
    assert decision.tally == {"happy": 1, "sad": 2}
    assert decision.votes == tuple(votes)


def test_a_vote_counts_for_the_class_that_holds_most_of_its_mass_not_for_its_first_label(wheel: Wheel) -> None:
    spread = {"furious": 0.34, "sad": 0.22, "lonely": 0.22, "guilty": 0.22}
    assert decide([vote("a", spread)], wheel).face_class == "sad"


def test_the_distribution_is_the_mean_of_the_counted_votes(wheel: Wheel) -> None:
    decision = decide([vote("a", {"sad": 1.0}), abstained("b"), vote("c", {"sad": 0.5, "furious": 0.5})], wheel)
    assert decision.distribution["sad"] == pytest.approx(0.75)
    assert decision.distribution["furious"] == pytest.approx(0.25)
    assert sum(decision.distribution.values()) == pytest.approx(1)


def test_a_tie_goes_to_the_class_with_the_higher_mean_probability(wheel: Wheel) -> None:
    decision = decide([vote("a", {"sad": 0.6, "neutral": 0.4}), vote("b", {"furious": 0.9, "neutral": 0.1})], wheel)
    assert (decision.label, decision.margin, decision.tie_break) == ("furious", 0, "probability")


def test_the_mean_probability_is_over_all_votes_not_only_over_those_for_the_class(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.55, "furious": 0.45}), vote("b", {"furious": 0.5, "sad": 0.2, "neutral": 0.3})]
    decision = decide(votes, wheel)  # sad 0.375, angry 0.475
    assert (decision.face_class, decision.tie_break) == ("angry", "probability")


@pytest.mark.parametrize(("first", "second"), [("sad", "furious"), ("furious", "sad")])
def test_a_tie_of_probability_too_goes_to_the_voter_of_higher_priority(wheel: Wheel, first: str, second: str) -> None:
    decision = decide([vote("a", {first: 0.7, second: 0.3}), vote("b", {second: 0.7, first: 0.3})], wheel)
    assert (decision.label, decision.margin, decision.tie_break) == (first, 0, "priority")


def test_equal_probability_is_not_decided_by_rounding_noise(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.7, "furious": 0.3}), vote("b", {"furious": 0.7 + 1e-9, "sad": 0.3 - 1e-9})]
    assert decide(votes, wheel).tie_break == "priority"


def test_a_tie_behind_the_winner_breaks_nothing(wheel: Wheel) -> None:
    votes = [vote(name, {label: 1.0}) for name, label in zip("abcd", ("sad", "sad", "furious", "happy"), strict=True)]
    decision = decide(votes, wheel)
    assert (decision.face_class, decision.margin, decision.tie_break) == ("sad", 1, "none")


def test_those_who_abstain_fail_or_are_late_do_not_count(wheel: Wheel) -> None:
    silent: list[Vote[str]] = [
        Vote(status.value, status, "why", {"furious": 1.0}) for status in Status if status is not Status.VOTED
    ]
    decision = decide([*silent, vote("a", {"sad": 1.0})], wheel)
    assert decision.tally == {"sad": 1}
    assert (decision.margin, len(decision.votes)) == (1, 4)


def test_the_label_is_chosen_by_those_who_tell_labels_apart(wheel: Wheel) -> None:
    votes = [
        vote("face", {"sad": 1.0}, fine=False),
        vote("voice", {"sad": 1.0}, fine=False),
        vote("text", {"lonely": 0.6, "sad": 0.4}),
    ]
    decision = decide(votes, wheel)
    assert (decision.label, decision.face_class) == ("lonely", "sad")


def test_the_label_is_not_chosen_by_those_who_voted_for_another_class(wheel: Wheel) -> None:
    votes = [
        vote("a", {"sad": 0.6, "lonely": 0.4}),
        vote("b", {"sad": 1.0}),
        vote("c", {"furious": 0.51, "lonely": 0.49}),
    ]
    assert decide(votes, wheel).label == "sad"


def test_without_fine_voters_the_label_is_the_most_probable_of_the_class(wheel: Wheel) -> None:
    assert decide([vote("face", wheel.spread({"fear": 0.8, "sad": 0.2}), fine=False)], wheel).label == "fear"


def test_where_no_vote_counts_there_is_nothing_to_decide(wheel: Wheel) -> None:
    with pytest.raises(ValueError, match="no vote counts"):
        decide([abstained("a")], wheel)


@dataclass
class Seat:
    """A voter that answers, or fails, once `ready` is set; `sees_only` may be a failure too."""

    name: str
    answer: Vote[str] | Exception
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    sees_only: bool | Exception = False
    messages: list[str] = field(default_factory=list)

    async def wordless(self) -> bool:
        if isinstance(self.sees_only, Exception):
            raise self.sees_only
        return self.sees_only

    async def vote(self, message: str, timeout_s: float) -> Vote[str]:
        self.messages.append(message)
        self.asked.set()
        await self.ready.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def seat(name: str, answer: Vote[str] | Exception, ready: bool = True) -> Seat:
    made = Seat(name, answer)
    if ready:
        made.ready.set()
    return made


async def ask(wheel: Wheel, *seats: Seat, quorum: int = 1, deadline_s: float = 0.05) -> Decision[str]:
    return await Panel[str, str](seats, wheel, quorum, deadline_s).decide("message")


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
    assert late.latency_s == pytest.approx(0.05)
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


async def test_a_message_that_no_voter_can_read_is_the_senders_fault(wheel: Wheel) -> None:
    with pytest.raises(InvalidRequest, match="message: no voter can read it: shy abstained"):
        await ask(wheel, seat("shy", abstained("shy")))


async def test_a_fault_of_the_panel_itself_is_not_taken_for_a_failed_voter(wheel: Wheel) -> None:
    with pytest.raises(TypeError, match="a mistake in the code"):
        await ask(wheel, seat("a", TypeError("a mistake in the code")), seat("b", vote("b", {"sad": 1.0})))


async def test_who_needs_no_words_is_asked_ahead_and_only_once(wheel: Wheel) -> None:
    eyes = Seat("eyes", vote("eyes", {"sad": 1.0}), sees_only=True)
    ears = seat("ears", vote("ears", {"sad": 1.0}))
    panel = Panel[str, str]((eyes, ears), wheel, 2, 20)
    ahead = panel.begin("no words yet")
    await eyes.asked.wait()
    assert not ears.asked.is_set()
    eyes.asked.clear()
    eyes.ready.set()
    assert (await panel.decide("the words", ahead)).tally == {"sad": 2}
    assert not eyes.asked.is_set()


async def test_votes_asked_ahead_can_be_stopped(wheel: Wheel) -> None:
    eyes = Seat("eyes", vote("eyes", {"sad": 1.0}), sees_only=True)
    ahead = Panel[str, str]((eyes,), wheel, 1, 20).begin("no words yet")
    await eyes.asked.wait()
    ahead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ahead.votes["eyes"]


async def test_who_cannot_be_reached_ahead_is_recorded_as_failed(wheel: Wheel) -> None:
    away = seat("face", vote("face", {"sad": 1.0}))
    away.sees_only = NotReady("it cannot be reached")
    panel = Panel[str, str]([away, seat("text", vote("text", {"sad": 1.0}))], wheel, 1, 20)
    decision = await panel.decide("pictures and words", panel.begin("pictures"))
    assert (decision.votes[0].status, decision.votes[0].reason) == (Status.FAILED, "it cannot be reached")
    assert away.messages == []


async def test_who_hangs_when_asked_ahead_keeps_nobody_waiting_for_the_words(wheel: Wheel) -> None:
    face, text = seat("face", vote("face", {"sad": 1.0}), ready=False), seat("text", vote("text", {"sad": 1.0}))
    face.sees_only = True
    panel = Panel[str, str]([face, text], wheel, 1, 0.05)
    ahead = panel.begin("pictures")  # returns at once
    decision = await panel.decide("words", ahead)
    assert [one.status for one in decision.votes] == [Status.LATE, Status.VOTED]


async def test_who_was_asked_ahead_and_failed_is_recorded(wheel: Wheel) -> None:
    face, text = seat("face", BackendFailed("no paint")), seat("text", vote("text", {"sad": 1.0}))
    face.sees_only = True
    panel = Panel[str, str]([face, text], wheel, 1, 20)
    decision = await panel.decide("words", panel.begin("pictures"))
    assert (decision.votes[0].status, decision.votes[0].reason) == (Status.FAILED, "no paint")
