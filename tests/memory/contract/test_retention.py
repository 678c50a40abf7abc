"""Retention: a sweep deletes rows older than their tenant keeps them, and everything that belongs to them."""

from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2, turns_pb2
from tests.serving import refused
from tests.support.conversations import (
    erase_user,
    found,
    get_clip,
    listed,
    place,
    put_derived,
    remember,
    rows,
)
from tests.support.memory import MP4, TENANT, WAV, Clock, Stubs, header, parts, serving
from tests.support.stacks import Stack

SPEECH, VIDEO = memory_pb2.CLIP_KIND_SPEECH, memory_pb2.CLIP_KIND_VIDEO
NOT_FOUND = grpc.StatusCode.NOT_FOUND


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stubs(stack: Stack, clock: Clock) -> AsyncIterator[Stubs]:
    """A memory that knows `ada`."""
    async with serving(stack.settings(), clock=clock) as stubs:
        await stubs.add(parts(header()))
        yield stubs


async def keep(stubs: Stubs, **days: int) -> None:
    request = erasure_pb2.SetRetentionRequest(tenant=TENANT, retention=erasure_pb2.Retention(**days))
    await stubs.erasure.SetRetention(request)


async def kept(stubs: Stubs, tenant: str = TENANT) -> erasure_pb2.Retention:
    return (await stubs.erasure.GetRetention(erasure_pb2.GetRetentionRequest(tenant=tenant))).retention


async def pass_days(stubs: Stubs, clock: Clock, days: float) -> None:
    """Let time pass, then sweep."""
    assert stubs.upkeep
    clock.now_s += days * 86_400
    await stubs.upkeep.sweep()


async def test_everything_is_kept_for_ever_until_a_tenant_says_how_long(stubs: Stubs, clock: Clock) -> None:
    assert await kept(stubs) == await kept(stubs, "unknown") == erasure_pb2.Retention()
    await remember(stubs, 1)
    await pass_days(stubs, clock, 36_500)
    assert len(await listed(stubs)) == 1
    days = {"turns_days": 1, "clips_days": 2, "derived_days": 3, "audits_days": 36_500}
    await keep(stubs, **days)
    assert await kept(stubs) == erasure_pb2.Retention(**days)
    assert await kept(stubs, "unknown") == erasure_pb2.Retention()
    await keep(stubs)
    assert await kept(stubs) == erasure_pb2.Retention()


@pytest.mark.parametrize("field", ["turns_days", "clips_days", "derived_days", "audits_days"])
async def test_a_time_that_is_too_long_is_refused(stubs: Stubs, field: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, f"retention.{field}: 36501 days"):
        await keep(stubs, **{field: 36_501})
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "retention: missing"):
        await stubs.erasure.SetRetention(erasure_pb2.SetRetentionRequest(tenant=TENANT))
    assert await kept(stubs) == erasure_pb2.Retention()


async def test_old_turns_go_with_all_that_hangs_on_them_and_the_others_stay(
    stubs: Stubs, stack: Stack, clock: Clock
) -> None:
    await stubs.add(parts(header(tenant="other")))
    await keep(stubs, turns_days=10)
    objects = stack.objects
    for tenant in (TENANT, "other"):
        await remember(stubs, 1, "old dog", {"person": "bob", "tenant": tenant})
    await stubs.put_clip(SPEECH, WAV, person="bob")
    rating = turns_pb2.Rating(rater="r", expressiveness=1, consistency=1, naturalness=1)
    await stubs.turns.RateTurn(
        turns_pb2.RateTurnRequest(
            tenant=TENANT, identity="ada", user="bob", conversation="talk", turn="turn-1", rating=rating
        )
    )
    await pass_days(stubs, clock, 9)
    await remember(stubs, 2, "young dog", {"person": "bob"})
    await stubs.put_clip(VIDEO, MP4, "turn-2", person="bob")
    assert set(await found(stubs, "dog", "bob")) == {"turn-1", "turn-2"}
    await pass_days(stubs, clock, 2)
    assert [each.id for each in await listed(stubs, person="bob")] == ["turn-2"]
    assert await found(stubs, "dog", "bob") == ["turn-2"]
    assert await get_clip(stubs, VIDEO, "turn-2", person="bob") == MP4
    with refused(NOT_FOUND, "turn 'turn-1' is unknown"):
        await get_clip(stubs, SPEECH, person="bob")
    assert len(stack.objects) == len(objects) + 1
    left = await rows(stack)
    assert {name: left[name] for name in ("turns", "turn_embeddings", "clips")} == {
        "turns": 1,
        "turn_embeddings": 1,
        "clips": 1,
    }
    assert "ratings" not in left
    assert len(await listed(stubs, person="bob", tenant="other")) == 1
    await remember(stubs, 3, where={"person": "bob"})
    assert [each.id for each in (await stubs.recall(person="bob")).turns] == ["turn-2", "turn-3"]


async def test_an_assignment_outlives_the_turn_that_made_it(stubs: Stubs, clock: Clock) -> None:
    await keep(stubs, turns_days=3)
    await remember(stubs, 1, where={"person": "bob"}, variants={"tts": "a"}, experiment="voice-2")
    await pass_days(stubs, clock, 2)
    await remember(stubs, 2, where={"person": "bob"}, variants={"tts": "b"}, experiment="voice-2")
    await pass_days(stubs, clock, 2)
    assert [each.id for each in await listed(stubs, person="bob")] == ["turn-2"]
    request = memory_pb2.RecallRequest(experiment="voice-2", **place(person="bob"))
    assert dict((await stubs.memory.Recall(request)).assigned) == {"tts": "a"}


async def test_an_old_turn_takes_no_place_among_the_hits_of_a_search(stubs: Stubs, clock: Clock) -> None:
    await keep(stubs, turns_days=1)
    for number, text in ((1, "a dog barks"), (2, "my dog")):
        await remember(stubs, number, text, {"person": "bob"})
    await pass_days(stubs, clock, 0.9)
    await remember(stubs, 3, "the dog sleeps", {"person": "bob"})
    assert await found(stubs, "my dog", "bob", hits_max=1) == ["turn-2"]
    await pass_days(stubs, clock, 0.2)
    assert await found(stubs, "my dog", "bob", hits_max=1) == ["turn-3"]
    await remember(stubs, 4, "another dog", {"person": "bob"})
    assert set(await found(stubs, "my dog", "bob", hits_max=2)) == {"turn-3", "turn-4"}


async def test_more_old_turns_than_are_deleted_at_once_go_with_one_sweep(
    stubs: Stubs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.repositories.retention.EXPIRED_AT_ONCE", 2)
    await keep(stubs, turns_days=1)
    for number in range(5):
        await remember(stubs, number)
    await pass_days(stubs, clock, 2)
    assert await listed(stubs) == []


async def test_of_users_whose_turns_are_gone_nothing_is_left(stubs: Stubs, stack: Stack, clock: Clock) -> None:
    await stubs.add(parts(header("eve")))
    await keep(stubs, turns_days=1)
    before = await rows(stack)
    for where in ({"person": "bob"}, {"person": "bob", "identity": "eve"}, {}):
        await remember(stubs, 1, where=where)
    await pass_days(stubs, clock, 0.9)
    await remember(stubs, 2, where={"person": "bob", "identity": "eve"})
    await pass_days(stubs, clock, 0.2)
    assert (await rows(stack))["users"] == 1  # Bob still talks with one of them.
    assert (await stubs.recall("eve", person="bob")).person_generation
    await pass_days(stubs, clock, 1)
    assert await rows(stack) == before
    await remember(stubs, 1, where={"person": "bob"})
    assert [each.id for each in await listed(stubs, person="bob")] == ["turn-1"]


async def test_clips_and_what_was_derived_may_go_earlier(stubs: Stubs, stack: Stack, clock: Clock) -> None:
    objects = stack.objects
    identity = (await stubs.recall()).identity
    await keep(stubs, clips_days=1, derived_days=2)
    await remember(stubs, 1)
    await stubs.put_clip(SPEECH, WAV)
    await put_derived(stubs, identity, b"embedding")
    wanted = identities_pb2.GetDerivedRequest(
        tenant=TENANT, identity="ada", reference_digests=[identity.references[0].digest], model_digest="d" * 64
    )
    await pass_days(stubs, clock, 1.1)
    (left,) = await listed(stubs)
    assert (left.id, len(left.clips), len(stack.objects)) == ("turn-1", 0, len(objects) + 1)
    assert b"".join([each.content async for each in stubs.identities.GetDerived(wanted)]) == b"embedding"
    await pass_days(stubs, clock, 1)
    with refused(NOT_FOUND):
        await anext(aiter(stubs.identities.GetDerived(wanted)))
    assert stack.objects == objects
    await put_derived(stubs, identity, b"derived again")
    assert len(await listed(stubs)) == 1


async def test_a_clip_is_kept_as_long_as_its_tenant_says_however_old_its_turn_is(
    stubs: Stubs, stack: Stack, clock: Clock
) -> None:
    objects = stack.objects
    await keep(stubs, clips_days=2)
    await remember(stubs, 1)
    await pass_days(stubs, clock, 3)
    await stubs.put_clip(SPEECH, WAV)
    await pass_days(stubs, clock, 1.9)
    assert await get_clip(stubs, SPEECH) == WAV
    await pass_days(stubs, clock, 0.2)
    with refused(NOT_FOUND, "there is no speech of that turn"):
        await get_clip(stubs, SPEECH)
    assert stack.objects == objects


async def test_records_of_erasures_go_when_they_are_old(stubs: Stubs, clock: Clock) -> None:
    await keep(stubs, audits_days=30)
    for person in ("bob", "ann"):
        await remember(stubs, 1, where={"person": person})
        await erase_user(stubs, person)
        await pass_days(stubs, clock, 20)
    audits = (await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT))).audits
    assert [each.what for each in audits] == ["person ann"]


async def test_an_imported_turn_is_kept_as_long_as_one_that_was_said(stubs: Stubs, clock: Clock) -> None:
    await remember(stubs, 1)
    export = stubs.identities.ExportIdentity(identities_pb2.ExportIdentityRequest(tenant=TENANT, identity="ada"))
    archive = b"".join([each.content async for each in export])
    await keep(stubs, turns_days=10)
    clock.now_s += 8 * 86_400
    call = stubs.identities.ImportIdentity()
    head = identities_pb2.ImportIdentityHeader(tenant=TENANT, identity="ida")
    await call.write(identities_pb2.ImportIdentityRequest(header=head))
    for start in range(0, len(archive), 2**20):
        await call.write(identities_pb2.ImportIdentityRequest(content=archive[start : start + 2**20]))
    await call.done_writing()
    await call
    await pass_days(stubs, clock, 3)
    assert (len(await listed(stubs)), len(await listed(stubs, identity="ida"))) == (0, 1)
    await pass_days(stubs, clock, 8)
    assert not await listed(stubs, identity="ida")
