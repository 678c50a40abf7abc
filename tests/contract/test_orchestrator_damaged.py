"""Turns over a memory in whose store something is damaged: what can go on goes on, and whoever asks is told."""

from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.memory.v1 import memory_pb2 as memory
from services.memory import keys
from tests.door import TALK, TENANT, Door, opened
from tests.memory_service import memory_over, serving
from tests.serving import refused
from tests.turns import header, lost, respond


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


def damage(door: Door, part: str) -> list[str]:
    """Flips a bit of each object of such a key; returns how what is told of each begins."""
    damaged = [key for key in door.store.objects if part in key]
    for key in damaged:
        content = door.store.objects[key]
        door.store.objects[key] = content[:-1] + bytes([content[-1] ^ 1])
    return [f"stored object {key!r} is damaged: its SHA-256 does not match" for key in damaged]


async def test_a_damaged_earlier_turn_costs_a_turn_that_one_only_and_is_told(door: Door) -> None:
    async with serving(memory_over(door.store)) as other:  # the door's memory has no copy of what this one keeps
        for number in (1, 2):
            await other.say(number, person="bob")
    (wrong,) = damage(door, "-turn-1")
    turns = [await door.say("My dog is better.") for _ in range(2)]
    for turn in turns:
        assert lost(turn) == [("recall", "damaged turns")]
        assert turn.degraded[0].reason.startswith(wrong)
        assert turn.identity.turns[0].id == "turn-2"
    assert door.cast.lead.orders[-1].message.history
    listed = await door.memory.memory.ListTurns(memory.ListTurnsRequest(**TALK))
    assert [each.id for each in listed.turns] == [turns[1].done.turn, turns[0].done.turn, "turn-2"]
    assert [problem.startswith(wrong) for problem in listed.damaged] == [True]


async def test_where_a_turn_cannot_go_on_its_error_names_the_damaged_object(door: Door) -> None:
    (wrong,) = damage(door, keys.head(TENANT, "ada"))
    with refused(grpc.StatusCode.INTERNAL, f"memory: {wrong}"):
        await door.say("Hello.")


async def test_what_was_derived_and_is_damaged_is_warned_of_and_costs_a_turn_nothing(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    await respond(door.stub, header(**TALK))
    wrong = damage(door, "/derived/")
    caplog.clear()
    turn = await respond(door.stub, header(**TALK))
    assert (turn.degraded, turn.frames) == ([], 25)
    said = [record for record in caplog.records if record.name == "orchestrator.memory"]
    assert [record.levelname for record in said] == ["WARNING"] * 2
    assert {record.message for record in said} == {"what was derived is damaged, and derived again where it is needed"}
    whys = sorted(record.why.partition("; ")[0] for record in said)  # type: ignore[attr-defined]
    assert whys == [f"memory: {problem}" for problem in sorted(wrong)]
