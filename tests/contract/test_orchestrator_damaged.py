"""Turns over a memory whose object storage holds something that is damaged: the object is named."""

from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.memory.v1 import memory_pb2 as memory
from services.memory.schema import clips, derived_data, reference_files
from tests.door import TALK, Door, opened
from tests.serving import refused
from tests.turns import header, lost, respond


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as door:
        yield door


async def test_damaged_references_are_named_and_the_turn_is_answered_in_words(door: Door) -> None:
    keys = await door.damage(reference_files)
    turn = await respond(door.stub, header(**TALK))
    assert {stage for stage, _ in lost(turn)} == {"speech", "video"}
    for degraded in turn.degraded:
        assert any(f"stored object {key!r} is damaged" in degraded.reason for key in keys)
    assert turn.sentences
    assert turn.done.turn


async def test_derived_data_that_is_damaged_is_warned_of_and_costs_a_turn_nothing(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    await respond(door.stub, header(**TALK))
    keys = await door.damage(derived_data)
    # The gateway forgets what it holds of an identity that is changed.
    profile = common.Profile(name="Ada", age="young", gender="female", timbre="mid", language="en", about="Sings.")
    await door.memory.change(
        identities.ChangeIdentityHeader(tenant=TALK["tenant"], id="ada", if_version=1, profile=profile)
    )
    caplog.clear()
    turn = await respond(door.stub, header(**TALK))
    assert (turn.degraded, turn.frames) == ([], 25)
    said = [record for record in caplog.records if record.name == "orchestrator.memory"]
    assert [record.levelname for record in said] == ["WARNING"] * 2
    assert {record.message for record in said} == {"what was derived is damaged, and derived again where it is needed"}
    whys = sorted(record.why.partition(":")[2].partition("; ")[0] for record in said)  # type: ignore[attr-defined]
    assert [why.partition(" is damaged")[0] for why in whys] == [f" stored object {key!r}" for key in sorted(keys)]


async def test_a_damaged_clip_is_refused_and_named(door: Door) -> None:
    turn = await respond(door.stub, header(**TALK, keep_clips=True))
    await door.damage(clips)
    (key,) = [row["key"] for row in await door.rows(clips) if row["kind"] == "video"]
    request = memory.GetClipRequest(**TALK, turn=turn.done.turn, kind=memory.CLIP_KIND_VIDEO)
    with refused(grpc.StatusCode.INTERNAL, f"memory: stored object {key!r} is damaged"):
        assert [part async for part in door.memory.memory.GetClip(request)]
