"""Voters on probation and voters that are often late: recorded, not waited for, and observed beside the turn."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from emotions import Wheel
from services.common.metrics import VARIANT
from services.understanding.domain import Decision, Reliability, Standing, Status
from services.understanding.observing import AT_ONCE_MAX, Observer
from services.understanding.panel import CALLED_OFF, NEW, OFTEN_LATE, ON_PROBATION, Panel
from services.understanding.track_record import TrackRecords
from tests.fakes import PATIENCE_S
from tests.seats import Seat, abstained, panel_of, seat, vote
from tests.support.waiting import until
from tests.track_records import Traffic, always, right
from tests.track_records import vote as cast

OVER_S = 0.05
"""A deadline that is over soon."""


@pytest.fixture
async def observer(wheel: Wheel) -> AsyncIterator[Observer[str]]:
    """Keeps records in which a and b are proven, and liar is on probation."""
    traffic = Traffic(wheel, {"a": right(0.7), "b": right(0.7), "liar": always("happy")})
    traffic.run(100)
    assert traffic.on_probation() == {"liar"}
    observer = Observer[str](traffic.records)
    yield observer
    await observer.close()


def make_late(records: TrackRecords, name: str, messages: int = 6) -> None:
    records.reliabilities([(name, VARIANT)])
    for _ in range(messages):
        records.observe([cast(name, "", Status.LATE)], None)


def late_observer(wheel: Wheel, *names: str) -> Observer[str]:
    """Keeps records in which all count, and these voters are often late."""
    records = TrackRecords(wheel)
    for name in names:
        make_late(records, name)
    return Observer(records)


def reliability(observer: Observer[str], name: str) -> Reliability:
    return observer.records.reliabilities([(name, VARIANT)])[name]


def sad(*names: str, ready: bool = True) -> list[Seat]:
    return [seat(name, vote(name, {"sad": 1.0}), ready) for name in names]


async def decided(panel: Panel[str, str]) -> Decision[str]:
    return await asyncio.wait_for(panel.decide("message"), PATIENCE_S)


def fates(decision: Decision[str]) -> list[tuple[Status, float, str]]:
    return [(each.status, each.weight, each.reason) for each in decision.votes]


# Probation


async def test_a_vote_on_probation_is_recorded_and_not_counted(wheel: Wheel, observer: Observer[str]) -> None:
    liar = seat("liar", vote("liar", {"happy": 1.0}))
    decision = await decided(panel_of(wheel, liar, *sad("a", "b"), observer=observer))
    assert fates(decision) == [(Status.VOTED, 0, ON_PROBATION), (Status.VOTED, 1, ""), (Status.VOTED, 1, "")]
    assert (decision.tally, decision.agreement, decision.early) == ({"sad": 2}, 1, False)
    assert [each.reliability and each.reliability.standing for each in decision.votes] == [
        Standing.PROBATION,
        Standing.COUNTED,
        Standing.COUNTED,
    ]
    assert decision.votes[0].label_without == ""


async def test_without_track_records_all_votes_count(wheel: Wheel) -> None:
    decision = await decided(panel_of(wheel, *sad("liar", "a", "b")))
    assert (decision.tally, decision.votes[0].reliability) == ({"sad": 3}, None)


async def test_an_early_decision_does_not_wait_for_a_voter_on_probation_and_observes_it_all_the_same(
    wheel: Wheel, observer: Observer[str]
) -> None:
    liar = Seat("liar", vote("liar", {"happy": 1.0}))
    before = reliability(observer, "liar").messages
    decision = await decided(panel_of(wheel, liar, *sad("a", "b"), early=True, observer=observer))
    assert fates(decision)[0] == (Status.CANCELLED, 0, CALLED_OFF)
    assert decision.early
    liar.ready.set()
    await until(lambda: reliability(observer, "liar").messages == before + 1)
    assert not liar.stopped.is_set()


async def test_a_panel_that_is_told_to_waits_also_for_a_voter_on_probation_unless_it_is_often_late(
    wheel: Wheel, observer: Observer[str]
) -> None:
    liar = Seat("liar", vote("liar", {"happy": 1.0}))
    deciding = asyncio.create_task(decided(panel_of(wheel, liar, *sad("a", "b"), observer=observer)))
    await liar.asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not deciding.done()
    liar.ready.set()
    assert fates(await deciding)[0] == (Status.VOTED, 0, ON_PROBATION)
    make_late(observer.records, "liar", 12)
    liar.ready.clear()
    decision = await decided(panel_of(wheel, liar, *sad("a", "b"), observer=observer))
    assert fates(decision)[0] == (Status.LATE, 0, OFTEN_LATE)


async def test_a_voter_that_counts_is_waited_for_beside_one_on_probation(wheel: Wheel, observer: Observer[str]) -> None:
    (slow,) = sad("b", ready=False)
    liar = seat("liar", vote("liar", {"sad": 1.0}))
    # Were the liar counted, two of three would be enough.
    deciding = asyncio.create_task(decided(panel_of(wheel, *sad("a"), liar, slow, early=True, observer=observer)))
    await slow.asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not deciding.done()
    slow.ready.set()
    assert (await deciding).tally == {"sad": 2}


async def test_a_voter_on_probation_counts_where_no_other_can_read_the_message(
    wheel: Wheel, observer: Observer[str]
) -> None:
    blind = [seat(name, abstained(name)) for name in "ab"]
    liar = seat("liar", vote("liar", {"happy": 1.0}), ready=False)
    deciding = asyncio.create_task(decided(panel_of(wheel, *blind, liar, early=True, observer=observer)))
    await liar.asked.wait()
    liar.ready.set()
    decision = await deciding
    assert (decision.label, fates(decision)[2]) == ("happy", (Status.VOTED, 1, ""))


async def test_the_quorum_counts_as_many_voters_on_probation_as_it_needs(wheel: Wheel, observer: Observer[str]) -> None:
    seats = [seat("liar", vote("liar", {"happy": 1.0})), *sad("new", "a"), seat("b", abstained("b"))]
    decision = await decided(panel_of(wheel, *seats, quorum=2, observer=observer))
    counted = [each.voter for each in decision.votes if each.weight]
    assert len(counted) == 2
    assert "a" in counted


async def test_a_new_voter_says_so(wheel: Wheel, observer: Observer[str]) -> None:
    decision = await decided(panel_of(wheel, *sad("new", "a", "b"), observer=observer))
    assert fates(decision)[0] == (Status.VOTED, 0, NEW)


async def test_a_variant_that_the_caller_names_counts_at_once(wheel: Wheel, observer: Observer[str]) -> None:
    panel = replace(panel_of(wheel, *sad("new", "a", "b"), observer=observer), named=frozenset({"new"}))
    decision = await decided(panel)
    assert decision.tally == {"sad": 3}
    assert decision.votes[0].reliability == Reliability(None, 0, 0, 0, Standing.COUNTED, is_new=True)


# Often late


async def test_the_decision_does_not_wait_for_a_voter_that_is_often_late(wheel: Wheel) -> None:
    (slow,) = sad("slow", ready=False)
    decision = await decided(panel_of(wheel, slow, *sad("a"), observer=late_observer(wheel, "slow")))
    assert fates(decision) == [(Status.LATE, 0, OFTEN_LATE), (Status.VOTED, 1, "")]
    found = decision.votes[0].reliability
    assert found
    assert (found.standing, found.messages, found.late) == (Standing.NOT_WAITED_FOR, 6, 1)
    assert decision.early


async def test_its_vote_counts_if_it_is_there(wheel: Wheel) -> None:
    (last,) = sad("a", ready=False)
    observer = late_observer(wheel, "slow")
    deciding = asyncio.create_task(decided(panel_of(wheel, *sad("slow"), last, observer=observer)))
    await last.asked.wait()
    last.ready.set()
    assert (await deciding).tally == {"sad": 2}


async def test_it_is_waited_for_where_the_quorum_needs_it(wheel: Wheel) -> None:
    (slow,) = sad("slow", ready=False)
    observer = late_observer(wheel, "slow")
    deciding = asyncio.create_task(decided(panel_of(wheel, slow, *sad("a"), quorum=2, observer=observer)))
    await slow.asked.wait()
    assert not deciding.done()
    slow.ready.set()
    assert (await deciding).tally == {"sad": 2}


async def answered_after(panel: Panel[str, str], slow: Sequence[Seat], observer: Observer[str]) -> None:
    """Have the slow voters answer after a decision, and wait until that is observed."""
    before = {each.name: reliability(observer, each.name).messages for each in slow}
    for each in slow:
        each.ready.clear()
    await decided(panel)
    for each in slow:
        each.ready.set()
    await until(lambda: all(reliability(observer, name).messages > count for name, count in before.items()))


async def test_it_is_waited_for_again_once_it_is_on_time_again(wheel: Wheel) -> None:
    observer, slow = late_observer(wheel, "slow"), sad("slow")
    panel = panel_of(wheel, *slow, *sad("a"), observer=observer)
    messages = 0
    while reliability(observer, "slow").standing is Standing.NOT_WAITED_FOR:
        await answered_after(panel, slow, observer)
        messages += 1
    assert 10 < messages < 30
    slow[0].ready.clear()
    slow[0].asked.clear()
    deciding = asyncio.create_task(decided(panel))
    await slow[0].asked.wait()
    assert not deciding.done()
    slow[0].ready.set()
    assert (await deciding).tally == {"sad": 2}


async def test_who_never_answers_is_called_off_at_the_deadline_and_late_again(wheel: Wheel) -> None:
    (slow,) = sad("slow", ready=False)
    observer = late_observer(wheel, "slow")
    await decided(panel_of(wheel, slow, *sad("a"), deadline_s=OVER_S, observer=observer))
    await asyncio.wait_for(slow.stopped.wait(), PATIENCE_S)
    await until(lambda: reliability(observer, "slow").messages == 7)
    assert reliability(observer, "slow").late == 1


async def test_an_always_late_voter_costs_the_deadline_only_at_first(wheel: Wheel) -> None:
    observer = Observer[str](TrackRecords(wheel))
    statuses = []
    for _ in range(8):
        (slow,) = sad("slow", ready=False)
        decision = await decided(panel_of(wheel, slow, *sad("a"), deadline_s=OVER_S, observer=observer))
        statuses.append(decision.early)
        await asyncio.wait_for(slow.stopped.wait(), PATIENCE_S)
    assert statuses == [False] * 5 + [True] * 3


async def test_answers_that_come_after_the_decision_are_awaited_in_bounded_number(wheel: Wheel) -> None:
    observer = late_observer(wheel, "slow")
    slow = [*sad(*["slow"] * AT_ONCE_MAX, ready=False)]
    for each in slow:
        await decided(panel_of(wheel, each, *sad("a"), observer=observer))
    (one_more,) = sad("slow", ready=False)
    await decided(panel_of(wheel, one_more, *sad("a"), observer=observer))
    await asyncio.wait_for(one_more.stopped.wait(), PATIENCE_S)
    assert not any(each.stopped.is_set() for each in slow)
    assert reliability(observer, "slow").messages == 6  # what it would have done is not known
    await observer.close()
    assert all(each.stopped.is_set() for each in slow)


async def test_an_answer_asked_for_ahead_is_observed_when_the_turn_is_over(wheel: Wheel) -> None:
    (face,) = sad("face", ready=False)
    face.sees_only = True
    observer = late_observer(wheel, "face")
    panel = panel_of(wheel, face, *sad("a"), observer=observer)
    ahead = panel.begin("pictures")
    await face.asked.wait()
    await asyncio.wait_for(panel.decide("words", ahead), PATIENCE_S)
    ahead.cancel()
    face.ready.set()
    await until(lambda: reliability(observer, "face").messages == 7)
    assert not face.stopped.is_set()


async def test_of_a_turn_that_its_caller_leaves_nothing_is_observed(wheel: Wheel) -> None:
    slow = sad("slow", "a", ready=False)
    observer = late_observer(wheel, "slow")
    deciding = asyncio.create_task(panel_of(wheel, *slow, observer=observer).decide("message"))
    for each in slow:
        await each.asked.wait()
    deciding.cancel()
    for each in slow:
        await asyncio.wait_for(each.stopped.wait(), PATIENCE_S)
    assert reliability(observer, "slow").messages == 6
