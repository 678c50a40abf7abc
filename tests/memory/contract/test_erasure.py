"""Users, identities and tenants are erased with all that was kept of them, and the record says what went."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sized
from typing import Any

import grpc
import pytest
from sqlalchemy import select

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2, turns_pb2
from services.memory.memory import Memory
from services.memory.schema import requests
from tests.fakes import PATIENCE_S
from tests.serving import refused
from tests.support.conversations import (
    allow,
    counts,
    erase_identity,
    erase_tenant,
    erase_user,
    found,
    get_clip,
    media_away,
    place,
    put_derived,
    remember,
    rows,
)
from tests.support.memory import MP4, TENANT, WAV, Clock, Stubs, header, parts, serving
from tests.support.object_store import ObjectStore
from tests.support.stacks import Stack
from tests.support.tcp_proxy import TcpProxy

NOT_FOUND, INVALID = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT
SPEECH, VIDEO = memory_pb2.CLIP_KIND_SPEECH, memory_pb2.CLIP_KIND_VIDEO


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stubs(stack: Stack, clock: Clock) -> AsyncIterator[Stubs]:
    """A memory that knows `ada` and `eve`."""
    async with serving(stack.settings(), clock=clock) as stubs:
        await stubs.add(parts(header("eve")))
        await stubs.add(parts(header()))
        yield stubs


async def talk(stubs: Stubs, person: str, identity: str = "ada") -> None:
    """Two turns of a person; the first has everything that a turn can have."""
    where = {"person": person, "identity": identity}
    for number in (1, 2):
        await remember(stubs, number, f"dog {number}", where, experiment="voice-2")
    await stubs.put_clip(SPEECH, WAV, **where)
    await stubs.put_clip(VIDEO, MP4, **where)
    await stubs.memory.PutTimings(memory_pb2.PutTimingsRequest(turn="turn-1", timings_s={"vote": 1}, **place(**where)))
    await rate(stubs, identity, person)
    scores = {"identity": identity, "user": person, "conversation": "talk", "turn": "turn-1"}
    await stubs.turns.PutScores(turns_pb2.PutScoresRequest(tenant=TENANT, scores={"hit": 1, "dist-1": 2}, **scores))


async def rate(stubs: Stubs, identity: str, person: str) -> None:
    rating = turns_pb2.Rating(rater="r1", expressiveness=1, consistency=2, naturalness=3)
    where = {"tenant": TENANT, "identity": identity, "conversation": "talk"}
    await stubs.turns.RateTurn(turns_pb2.RateTurnRequest(user=person, turn="turn-1", rating=rating, **where))


async def audits(stubs: Stubs, tenant: str = TENANT) -> list[erasure_pb2.Audit]:
    return list((await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=tenant))).audits)


OF_USER = {"users": 1, "assignments": 1}
TALKED = {**OF_USER, "conversations": 1, "turns": 2, "embeddings": 2, "ratings": 1, "scores": 2, "clips": 2}


@pytest.mark.parametrize("person", ["bob", ""])
async def test_after_the_erasure_of_a_user_there_is_what_was_there_before_and_the_record(
    stubs: Stubs, stack: Stack, clock: Clock, person: str
) -> None:
    await talk(stubs, "ann")
    await remember(stubs, 1, where={"person": "talk"})  # Named as the conversation.
    before, objects = await rows(stack), stack.objects
    await talk(stubs, person)
    audit = await erase_user(stubs, person, "" if person else "talk")
    assert (await rows(stack), stack.objects) == (before, objects)
    assert audit.what == ("person bob" if person else "conversation talk")
    assert (audit.asked_by, audit.begun_at_s, audit.done_at_s) == ("the test", clock.now_s, clock.now_s)
    assert audit.caches_gone_by_s >= clock.now_s + stack.settings().cache_keep_s + 60  # A minute for other services.
    assert counts(audit) == TALKED
    assert {each.kind: each.size_bytes for each in audit.counts if each.size_bytes} == {"clips": len(WAV) + len(MP4)}
    assert await audits(stubs) == [audit]
    assert not (await stubs.recall(person=person)).turns
    with refused(NOT_FOUND, "turn 'turn-1' is unknown"):
        await get_clip(stubs, SPEECH, person=person)


async def test_a_user_is_erased_with_every_identity(stubs: Stubs, stack: Stack) -> None:
    before = await rows(stack)
    await talk(stubs, "bob")
    await talk(stubs, "bob", "eve")
    audit = await erase_user(stubs, "bob")
    assert counts(audit) == {kind: number * 2 for kind, number in TALKED.items()} | OF_USER
    assert await rows(stack) == before


async def test_after_the_erasure_of_an_identity_there_is_what_was_there_before_and_the_record(
    stubs: Stubs, stack: Stack
) -> None:
    await erase_identity(stubs)
    await remember(stubs, 1, where={"person": "ann", "identity": "eve"}, experiment="voice-2")
    before, objects = await rows(stack), stack.objects
    identity = await stubs.add(parts(header()))
    await put_derived(stubs, identity, b"embedding")
    for person in ("bob", "ann", ""):
        await talk(stubs, person)
    await allow(stubs, ("animate_face", "clone_voice", "keep_turns"))
    audit = await erase_identity(stubs)
    assert (await rows(stack), stack.objects) == (before, objects)
    talked = {kind: 3 * number for kind, number in TALKED.items()} | {
        "users": 2,
        "assignments": 2,
    }  # Ann is known by eve.
    assert counts(audit) == talked | {"identities": 1, "versions": 2, "references": 2, "derived": 1}
    assert audit.what == "identity ada"
    assert not [each for each in audit.counts if each.kind in ("references", "derived") and not each.size_bytes]
    with refused(NOT_FOUND, "'ada'"):
        await stubs.recall()
    assert await found(stubs, "question", "ann", identity="eve") == ["turn-1"]


async def test_of_an_erased_tenant_nothing_is_left_but_the_record(stubs: Stubs, stack: Stack) -> None:
    await stubs.add(parts(header(tenant="other")))
    await remember(stubs, 1, where={"tenant": "other", "person": "bob"})
    theirs, objects = await rows(stack, "other"), stack.objects
    bank = identities_pb2.EmotionBank(name="calm", face_classes=["neutral"], voice_styles=["default"])
    await stubs.identities.PutEmotionBank(identities_pb2.PutEmotionBankRequest(tenant=TENANT, bank=bank))
    for person in ("bob", ""):
        await talk(stubs, person)
    await erase_user(stubs, "bob")
    audit = await erase_tenant(stubs)
    assert audit.what == "tenant acme"
    assert counts(audit) == TALKED | {"identities": 2, "versions": 2, "references": 4, "banks": 1}
    assert await rows(stack) == {}
    assert [key for key in stack.objects if "/acme/" in f"/{key}"] == []
    assert (await rows(stack, "other"), set(stack.objects) <= set(objects)) == (theirs, True)
    assert {each.what for each in await audits(stubs)} == {"tenant acme", "person bob"}
    with refused(NOT_FOUND, "'ada'"):
        await stubs.recall()
    await stubs.add(parts(header()))
    await remember(stubs, 1, where={"person": "bob"})
    assert len((await stubs.recall(person="bob")).turns) == 1


async def test_of_an_erased_tenant_no_outcome_of_an_earlier_write_is_left(stubs: Stubs) -> None:
    assert stubs.inside
    await talk(stubs, "bob")
    await erase_user(stubs, "bob")
    audit = await erase_tenant(stubs)
    found = await stubs.inside.storage.rows("", select(requests.c.tenant, requests.c.outcome))
    assert [(row[0], row[1]["outcome"]) for row in found] == [(TENANT, audit.id)]


async def test_who_comes_back_is_another_and_is_told_nothing(stubs: Stubs) -> None:
    await talk(stubs, "bob")
    earlier = await stubs.recall(person="bob")
    await erase_user(stubs, "bob")
    await remember(stubs, 3, "cat", {"person": "bob"})
    now = await stubs.recall(person="bob")
    assert [each.id for each in now.turns] == ["turn-3"]
    assert now.person_generation not in ("", earlier.person_generation)
    assert await found(stubs, "dog cat", "bob", similarity_min=-1) == ["turn-3"]
    await erase_identity(stubs)
    await stubs.add(parts(header()))
    again = await stubs.recall(person="bob")
    assert (again.person_generation, len(again.turns)) == ("", 0)
    assert again.identity.generation != now.identity.generation


@pytest.mark.parametrize(
    ("request_of", "code", "text"),
    [
        ({"person": "eve"}, NOT_FOUND, "person eve: nothing is there"),
        ({"conversation": "walk"}, NOT_FOUND, "conversation walk: nothing is there"),
        ({"conversation": "bob"}, NOT_FOUND, "conversation bob: nothing is there"),
        ({"person": "bob", "tenant": "other"}, NOT_FOUND, "person bob: nothing is there"),
        ({"identity": "max"}, NOT_FOUND, "identity max: nothing is there"),
        ({"identity": "ada", "tenant": "other"}, NOT_FOUND, "identity ada: nothing is there"),
        ({"tenant": "other"}, NOT_FOUND, "tenant other: nothing is there"),
        ({"person": "bob", "conversation": "talk"}, INVALID, "person: "),
        ({"person": "", "conversation": ""}, INVALID, "person: "),
        ({"person": "a/b"}, INVALID, "person: "),
        ({"identity": "Ada"}, INVALID, "identity: "),
        ({"tenant": ""}, INVALID, "tenant: "),
        ({"person": "bob", "asked_by": ""}, INVALID, "asked_by: "),
        ({"identity": "ada", "asked_by": "x" * 101}, INVALID, "asked_by: "),
        ({"asked_by": "two\nlines"}, INVALID, "asked_by: "),
    ],
)
async def test_an_erasure_of_nothing_or_nobody_is_refused_and_leaves_no_record(
    stubs: Stubs, stack: Stack, request_of: dict[str, str], code: grpc.StatusCode, text: str
) -> None:
    await remember(stubs, 1, where={"person": "bob"})
    before = await rows(stack)
    values: dict[str, Any] = {"tenant": TENANT, "asked_by": "the test"} | request_of
    with refused(code, text):
        if "identity" in request_of:
            await stubs.erasure.EraseIdentity(erasure_pb2.EraseIdentityRequest(**values))
        elif {"person", "conversation"} & request_of.keys():
            await stubs.erasure.ErasePerson(erasure_pb2.ErasePersonRequest(**values))
        else:
            await stubs.erasure.EraseTenant(erasure_pb2.EraseTenantRequest(**values))
    assert await rows(stack) == before
    assert await audits(stubs) + await audits(stubs, "other") == []


async def test_records_are_listed_in_pages_the_newest_first(stubs: Stubs, clock: Clock) -> None:
    for number in range(5):
        await remember(stubs, 1, where={"person": f"user-{number}"})
        clock.now_s += number > 2  # The first three at the same moment: a page ends between them.
        await erase_user(stubs, f"user-{number}")
    request = erasure_pb2.ListAuditsRequest(tenant=TENANT, page_size=2)
    pages: list[list[str]] = []
    while not pages or request.page_token:
        page = await stubs.erasure.ListAudits(request)
        pages.append([each.what for each in page.audits])
        request.page_token = page.next_page_token
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(what for page in pages for what in page) == [f"person user-{number}" for number in range(5)]
    assert pages[0] == ["person user-4", "person user-3"]
    with refused(INVALID, "page_token: "):
        await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT, page_token="x"))
    with refused(INVALID, "page_size: 201"):
        await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT, page_size=201))


@pytest.mark.parametrize("what", ["user", "identity", "tenant"])
async def test_servers_that_erase_at_once_make_one_record(stubs: Stubs, stack: Stack, what: str) -> None:
    await talk(stubs, "bob")
    async with serving(stack.settings()) as other:

        def erasing(at: Stubs) -> Coroutine[Any, Any, erasure_pb2.Audit]:
            if what == "user":
                return erase_user(at, "bob")
            return erase_identity(at) if what == "identity" else erase_tenant(at)

        outcomes = await asyncio.gather(*map(erasing, (stubs, other) * 3), return_exceptions=True)
    (done,) = [each for each in outcomes if isinstance(each, erasure_pb2.Audit)]
    assert counts(done)["turns"] == 2
    refusals = [each.code() for each in outcomes if isinstance(each, grpc.aio.AioRpcError)]
    assert refusals == [NOT_FOUND] * 5
    assert [each.id for each in await audits(stubs)] == [done.id]


async def test_an_erasure_while_the_media_are_away_ends_when_they_are_back(
    stubs: Stubs, stack: Stack, clock: Clock, request: pytest.FixtureRequest
) -> None:
    assert stubs.upkeep
    before, objects = await rows(stack), stack.objects
    await talk(stubs, "bob")
    store: ObjectStore | None = request.getfixturevalue("s3") if stack.bucket else None
    async with media_away(stack, store):
        audit = await erase_user(stubs, "bob")
        assert (audit.done_at_s, audit.caches_gone_by_s, counts(audit)) == (0, 0, TALKED)
        assert not await found(stubs, "dog", "bob")
        assert not (await stubs.recall(person="bob")).turns
        assert await rows(stack) == before | {"outbox": 2}
        assert (await audits(stubs))[0].done_at_s == 0
    assert len(stack.objects) == len(objects) + 2
    clock.now_s += 100
    await stubs.upkeep.sweep()
    assert (await rows(stack), stack.objects) == (before, objects)
    (ended,) = await audits(stubs)
    assert (ended.id, ended.done_at_s, counts(ended)) == (audit.id, clock.now_s, TALKED)
    assert ended.caches_gone_by_s > clock.now_s


async def test_an_erasure_of_more_objects_than_are_deleted_at_once_ends(
    stubs: Stubs, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.repositories.erasure.LISTED_AT_ONCE", 1)
    before, objects = await rows(stack), stack.objects
    await talk(stubs, "bob")
    assert (await erase_user(stubs, "bob")).done_at_s
    assert (await rows(stack), stack.objects) == (before, objects)


async def test_the_record_of_an_erasure_that_is_under_way_is_kept_however_old_it_is(
    stubs: Stubs, stack: Stack, clock: Clock, request: pytest.FixtureRequest
) -> None:
    assert stubs.inside
    retention = erasure_pb2.Retention(audits_days=1)
    await stubs.erasure.SetRetention(erasure_pb2.SetRetentionRequest(tenant=TENANT, retention=retention))
    await talk(stubs, "bob")
    async with media_away(stack, request.getfixturevalue("s3") if stack.bucket else None):
        audit = await erase_user(stubs, "bob")
        clock.now_s += 2 * 86_400
        await stubs.inside.retentions.expire()
        assert [each.id for each in await audits(stubs)] == [audit.id]
    await stubs.inside.erasure.drain()
    await stubs.inside.retentions.expire()
    assert [each.done_at_s for each in await audits(stubs)] == [clock.now_s]


@pytest.mark.parametrize("what", ["user", "identity"])
async def test_what_was_erased_does_not_stand_in_for_a_database_that_is_away(clustered: Stack, what: str) -> None:
    assert clustered.urls
    host, _, port = clustered.urls.service.split("@")[1].split("/")[0].partition(":")
    async with TcpProxy(host, int(port)) as proxy:
        settings = clustered.settings(database_url=proxy.url(clustered.urls.service), database_timeout_s=2)
        async with serving(settings) as stubs:
            await stubs.add(parts(header()))
            for person in ("bob", "ann"):
                await remember(stubs, 1, where={"person": person})
                await stubs.recall(person=person)
            await (erase_user(stubs, "bob") if what == "user" else erase_identity(stubs))
            await proxy.refuse()
            if what == "identity":
                with refused(grpc.StatusCode.UNAVAILABLE):
                    await stubs.recall(person="bob")
                return
            stale = await stubs.recall(person="bob")
            assert (stale.stale_s > 0, len(stale.turns), stale.person_generation) == (True, 0, "")
            assert len((await stubs.recall(person="ann")).turns) == 1


def _cached(memory: Memory) -> int:
    caches: list[Sized] = [memory.searcher.cache, memory.embedding.cache, memory.identities.cache]
    caches += [memory.references.cache, memory.recaller.identities, memory.recaller.turns]
    return sum(map(len, caches))


async def test_a_server_beside_caches_nothing_of_the_erased_after_the_time_that_it_may(stack: Stack) -> None:
    settings = stack.settings(cache_keep_s=0.5)
    async with serving(settings) as near, serving(settings) as far:
        assert near.inside
        assert far.inside
        await far.add(parts(header()))
        for stubs in (near, far):
            await remember(stubs, 1, where={"person": "bob"})
            await stubs.recall(person="bob")
            await found(stubs, "question", "bob")
        await erase_identity(far)
        assert _cached(far.inside) == 0
        async with asyncio.timeout(PATIENCE_S):
            while _cached(near.inside):  # Nobody asks it for anything.
                near.inside.tidy()
                await asyncio.sleep(0.05)
