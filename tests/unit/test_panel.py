"""Whom the panel asks and waits for, and what it keeps of each."""

import asyncio
import logging

import pytest

from emotions import Wheel
from services.common.errors import BackendFailed, FailedPrecondition, InvalidRequest, NotReady
from services.understanding.domain import Status, Vote
from tests.fakes import PATIENCE_S
from tests.seats import Seat, abstained, ask, panel_of, seat, vote


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


async def test_a_caller_that_leaves_stops_every_voter(wheel: Wheel) -> None:
    seats = [Seat(name, vote(name, {"sad": 1.0})) for name in "ab"]
    deciding = asyncio.create_task(panel_of(wheel, *seats).decide("message"))
    for one in seats:
        await one.asked.wait()
    deciding.cancel()
    for one in seats:
        await asyncio.wait_for(one.stopped.wait(), PATIENCE_S)


# Votes ahead


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


async def test_who_is_not_known_yet_is_asked_with_the_words(wheel: Wheel) -> None:
    late = seat("face", vote("face", {"sad": 1.0}))
    late.is_known, late.sees_only = False, True
    panel = panel_of(wheel, late, seat("text", vote("text", {"sad": 1.0})))
    ahead = panel.begin("pictures")
    late.is_known = True
    decision = await panel.decide("pictures and words", ahead)
    assert [each.status for each in decision.votes] == [Status.VOTED, Status.VOTED]
    assert late.messages == ["pictures and words"]


async def test_of_a_failed_voter_that_was_not_known_nothing_is_kept(wheel: Wheel) -> None:
    away = seat("face", NotReady("it cannot be reached"))
    away.is_known = False
    decision = await ask(wheel, away, seat("text", vote("text", {"sad": 1.0})))
    failed = decision.votes[0]
    assert (failed.status, failed.reason, failed.source) == (Status.FAILED, "it cannot be reached", None)


async def test_what_is_no_vote_counts_for_nothing_and_is_kept_as_what_it_is(wheel: Wheel) -> None:
    wrong = Vote("odd", Status.FAILED, "it neither voted nor abstained", source="card in its answer")
    decision = await ask(wheel, seat("odd", wrong), seat("text", vote("text", {"sad": 1.0})))
    assert (decision.votes[0].status, decision.votes[0].source) == (Status.FAILED, "card in its answer")
    assert decision.tally == {"sad": 1}


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
