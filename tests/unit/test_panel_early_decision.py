"""Whom the panel calls off once they cannot change the result, and whom it never does."""

import asyncio
import itertools
from collections.abc import Mapping

from emotions import Wheel
from services.understanding.domain import Status
from services.understanding.panel import CALLED_OFF
from tests.fakes import PATIENCE_S
from tests.seats import Seat, abstained, panel_of, seat, three_and_a_slow_one, vote


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


async def test_a_voter_of_which_nothing_is_known_may_be_anything(wheel: Wheel) -> None:
    seats = [seat("a", vote("a", {"lonely": 0.55, "sad": 0.45})), seat("b", vote("b", {"lonely": 0.55, "sad": 0.45}))]
    on_classes = Seat("face", vote("face", wheel.spread({"sad": 1.0}), fine=False), fine=False)
    decision = await panel_of(wheel, *seats, on_classes, early=True).decide("message")
    assert decision.votes[2].status is Status.CANCELLED
    unknown = Seat("face", vote("face", {"sad": 1.0}), is_known=False)
    deciding = asyncio.create_task(panel_of(wheel, *seats, unknown, early=True).decide("message"))
    await others_voted()
    assert not deciding.done()
    unknown.ready.set()
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
