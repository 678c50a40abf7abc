"""Nothing of one tenant, identity, person or conversation is ever told to another; who and what a call must name."""

import asyncio
import random
from collections import defaultdict
from itertools import product
from typing import Any

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2, turns_pb2
from services.common import clients
from services.memory.servicer import SERVICES
from tests.serving import refused
from tests.support.identities import (
    change_of,
    derived,
    digest_of,
    emotion,
    exported,
    file,
    get,
    listed,
    put_derived,
    put_emotion,
)
from tests.support.memory import PORTRAIT, VOICE, WAV, Stubs, each, header, joined, parts, serving
from tests.support.stacks import Stack

# Names that begin like others, and the same names at every level.
TENANTS = ("a", "a-a", "b")
IDENTITIES = ("a", "a-a")
PERSONS = ("", "a", "a-a")
CONVERSATIONS = ("a", "a-a")
TURNS = 120
NOT_FOUND = grpc.StatusCode.NOT_FOUND

Whom = tuple[str, str, str, str]
"""Tenant, identity, person, conversation."""

EVERYBODY: list[Whom] = list(product(TENANTS, IDENTITIES, PERSONS, CONVERSATIONS))


def words(whom: Whom) -> str:
    """Return a text that says whose it is; all share words, so that each is like each."""
    return "the same words of " + "/".join(whom)


def named(whom: Whom) -> dict[str, Any]:
    return dict(zip(("tenant", "identity", "person", "conversation"), whom, strict=True))


async def say(stubs: Stubs, whom: Whom, turn_id: str) -> None:
    text = words(whom)
    turn = memory_pb2.Turn(
        id=turn_id, user_text=text, user_emotion="sad", reply_text=text, reply_emotion="caring", timings_s={text: 1}
    )
    await stubs.memory.Remember(memory_pb2.RememberRequest(turn=turn, **named(whom)))
    await stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, WAV + text.encode(), turn_id, **named(whom))


async def check(stubs: Stubs, whom: Whom, turn_ids: set[str]) -> None:
    """Check that everything that is told of a conversation is what was said in it."""
    tenant, identity, *_ = whom
    recalled = await stubs.memory.Recall(memory_pb2.RecallRequest(turns_max=1000, **named(whom)))
    assert recalled.identity.profile.about == f"{tenant}/{identity}"
    listed = await stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(page_size=200, **named(whom)))
    sought = {"text": words(whom), "hits_max": 32, "similarity_min": -1}
    found = await stubs.memory.Search(memory_pb2.SearchRequest(**sought, **named(whom)))  # type: ignore[arg-type]
    for turns in (recalled.turns, listed.turns, [hit.turn for hit in found.hits]):
        assert {turn.id for turn in turns} == turn_ids
        assert {turn.user_text for turn in turns} <= {words(whom)}
    assert all(dict(turn.timings_s) == {words(whom): 1} for turn in listed.turns)
    place: dict[str, Any] = {**named(whom), "kind": memory_pb2.CLIP_KIND_SPEECH}
    for turn_id in turn_ids:
        clip = await joined(stubs.memory.GetClip(memory_pb2.GetClipRequest(turn=turn_id, **place)))
        assert clip == WAV + words(whom).encode()
    with refused(NOT_FOUND, "turn 'another' is unknown"):
        await joined(stubs.memory.GetClip(memory_pb2.GetClipRequest(turn="another", **place)))


async def test_nothing_crosses_between_tenants_identities_persons_and_conversations(stack: Stack) -> None:
    chance = random.Random(5)
    said: dict[Whom, set[str]] = defaultdict(set)
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        for tenant, identity in product(TENANTS, IDENTITIES):
            head = header(identity, tenant=tenant)
            head.profile.about = f"{tenant}/{identity}"
            await one.add(parts(head, PORTRAIT[:100] + head.profile.about.encode(), VOICE))
        for number in range(TURNS):
            said[chance.choice(EVERYBODY)].add(f"turn-{number % 40}")
        await asyncio.gather(
            *(say(chance.choice((one, other)), whom, turn_id) for whom, ids in said.items() for turn_id in ids)
        )
        for whom in EVERYBODY:
            await check(other, whom, said[whom])
        for tenant in TENANTS:
            request = turns_pb2.QueryTurnsRequest(tenant=tenant, page_size=200)
            turns = (await one.turns.QueryTurns(request)).turns
            assert len(turns) == sum(len(ids) for whom, ids in said.items() if whom[0] == tenant)
            assert all(record.turn.user_text.startswith(f"the same words of {tenant}/") for record in turns)
        await one.erasure.ErasePerson(erasure_pb2.ErasePersonRequest(tenant="a", person="a", asked_by="me"))
        await one.erasure.EraseIdentity(erasure_pb2.EraseIdentityRequest(tenant="a", identity="a-a", asked_by="me"))
        await one.erasure.EraseTenant(erasure_pb2.EraseTenantRequest(tenant="b", asked_by="me"))
        for whom in EVERYBODY:
            if whom[0] == "b" or whom[:2] == ("a", "a-a"):
                with refused(NOT_FOUND, f"identity {whom[1]!r} is unknown"):
                    await check(other, whom, set())
            else:
                await check(other, whom, set() if whom[::2] == ("a", "a") else said[whom])


async def test_a_person_whom_another_tenant_knows_is_not_known_and_becomes_another(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for tenant in ("a", "b"):
            await stubs.add(parts(header(tenant=tenant)))
        await stubs.say(1, person="bob", tenant="b")
        there = (await stubs.recall(person="bob", tenant="b")).person_generation
        assert there
        assert (await stubs.recall(person="bob", tenant="a")).person_generation == ""
        await stubs.say(2, person="bob", tenant="a")
        here = await stubs.recall(person="bob", tenant="a")
        assert here.person_generation not in ("", there)
        assert [turn.id for turn in here.turns] == ["turn-2"]


async def test_emotional_references_are_listed_for_their_tenant_only(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for tenant in ("a", "b"):
            await stubs.add(parts(header(tenant=tenant)))
        for identity, name in (("", "sad"), ("ada", "angry")):
            await put_emotion(stubs, WAV, tenant="b", identity=identity, name=name)
        names: dict[tuple[str, str], list[str]] = {}
        for tenant, identity in product(("a", "b"), ("", "ada")):
            request = identities_pb2.ListEmotionReferencesRequest(tenant=tenant, identity=identity)
            found = (await stubs.identities.ListEmotionReferences(request)).references
            names[tenant, identity] = [reference.name for reference in found]
        assert names == {("a", ""): [], ("a", "ada"): [], ("b", ""): ["sad"], ("b", "ada"): ["angry", "sad"]}


async def test_records_of_erasures_are_listed_for_their_tenant_only(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        records: dict[str, str] = {}
        for tenant in ("a", "b"):
            await stubs.add(parts(header(tenant=tenant)))
            await stubs.say(1, person="bob", tenant=tenant)
            request = erasure_pb2.ErasePersonRequest(tenant=tenant, person="bob", asked_by="me")
            records[tenant] = (await stubs.erasure.ErasePerson(request)).audit.id
        for tenant, record in records.items():
            listing = erasure_pb2.ListAuditsRequest(tenant=tenant)
            assert [audit.id for audit in (await stubs.erasure.ListAudits(listing)).audits] == [record]
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "page_token: "):
            await stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant="a", page_token=records["b"]))


async def test_media_of_an_identity_are_those_of_its_tenant_only(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        for tenant in ("acme", "shop"):
            await stubs.add(parts(header(tenant=tenant), PORTRAIT[:100] + tenant.encode(), VOICE))
        await stubs.add(parts(header("bob", tenant="shop")))
        await put_derived(stubs, b"a voice")
        await put_emotion(stubs, b"of all")
        await put_emotion(stubs, b"her own", identity="ada")
        assert await listed(stubs) == (["ada"], "")
        assert await listed(stubs, tenant="shop") == (["ada", "bob"], "")
        assert await listed(stubs, tenant="sho") == ([], "")
        assert (await get(stubs)).generation != (await get(stubs, tenant="shop")).generation
        with refused(NOT_FOUND, "has no file"):
            await file(stubs, digest_of(PORTRAIT[:100] + b"acme"), tenant="shop")
        for call in (
            derived(stubs, tenant="shop"),
            emotion(stubs, tenant="shop"),
            emotion(stubs, tenant="shop", identity="ada"),
            get(stubs, "bob"),
            exported(stubs, "bob"),
            stubs.change(change_of(1, id="bob")),
            put_emotion(stubs, b"x", identity="bob"),
        ):
            with refused(NOT_FOUND):
                await call
        await put_derived(stubs, b"another", tenant="shop")
        assert await derived(stubs) == b"a voice"
        await stubs.change(change_of(1, [], tenant="shop"))
        assert [(await get(stubs, tenant=tenant)).version for tenant in ("acme", "shop")] == [1, 2]


async def test_every_rpc_refuses_a_call_without_a_tenant_and_says_what_to_send(embedded: Stack) -> None:
    asked = 0
    async with serving(embedded.settings()) as stubs:
        of_service = {
            "MemoryService": stubs.memory,
            "IdentityService": stubs.identities,
            "ErasureService": stubs.erasure,
            "ExemplarService": stubs.exemplars,
            "TurnService": stubs.turns,
        }
        for module in (memory_pb2, identities_pb2, erasure_pb2, exemplars_pb2, turns_pb2):
            for service in module.DESCRIPTOR.services_by_name.values():
                assert service.full_name in SERVICES
                for method in service.methods:
                    if method.name in ("GetStore", "SummarizeUsers"):
                        continue
                    request = getattr(module, method.input_type.name)()
                    if method.client_streaming:
                        request.header.SetInParent()
                    asking = getattr(of_service[service.name], method.name)
                    field = "header.tenant" if method.client_streaming else "tenant"
                    text = f"{field}: '' is not a name; use 1 to 63 lower-case letters a-z, digits, hyphens, first"
                    with refused(grpc.StatusCode.INVALID_ARGUMENT, text):
                        if method.client_streaming:
                            await clients.ask(asking(), each([request]))
                        elif method.server_streaming:
                            await asking(request).read()
                        else:
                            await asking(request)
                    asked += 1
    assert asked >= 34


@pytest.mark.parametrize(
    "name",
    ["bob", "A/..", "../ada", "/etc/passwd", "ada\n", "ada\x00", "1ada", "a" * 64, "\u0430da", "ad\u200ba", "%2e%2e"],
)
async def test_every_rpc_refuses_an_unknown_identity_and_a_name_that_is_not_allowed(embedded: Stack, name: str) -> None:
    place: dict[str, Any] = {"tenant": "acme", "identity": name}
    talk = {**place, "conversation": "talk"}
    turn = memory_pb2.Turn(id="t", user_text="hi", user_emotion="sad", reply_text="hi", reply_emotion="sad")
    async with serving(embedded.settings()) as stubs:
        await stubs.add(parts(header("ada")))
        for call in (
            stubs.recall(name),
            stubs.memory.Search(memory_pb2.SearchRequest(**place, person="bob", text="hello")),
            stubs.memory.Remember(memory_pb2.RememberRequest(**talk, turn=turn)),
            stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(**talk)),
            stubs.memory.PutTimings(memory_pb2.PutTimingsRequest(**talk, turn="t", timings_s={"vote": 1})),
            stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, WAV, identity=name),
            joined(stubs.memory.GetClip(memory_pb2.GetClipRequest(**talk, turn="t", kind=memory_pb2.CLIP_KIND_SPEECH))),
            get(stubs, name),
            file(stubs, VOICE, name),
            derived(stubs, identity=name),
            put_derived(stubs, b"x", identity=name),
            put_emotion(stubs, b"x", identity=name),
            emotion(stubs, identity=name),
            stubs.identities.ListEmotionReferences(identities_pb2.ListEmotionReferencesRequest(**place)),
            exported(stubs, name),
            stubs.change(change_of(1, id=name)),
            stubs.erasure.EraseIdentity(erasure_pb2.EraseIdentityRequest(**place, asked_by="me")),
            stubs.exemplars.ListExemplars(exemplars_pb2.ListExemplarsRequest(**place)),
            stubs.exemplars.SearchExemplars(exemplars_pb2.SearchExemplarsRequest(**place, text="hello")),
            stubs.turns.ListUsers(turns_pb2.ListUsersRequest(**place)),
            stubs.turns.ListConversations(turns_pb2.ListConversationsRequest(**place)),
            stubs.turns.QueryTurns(
                turns_pb2.QueryTurnsRequest(tenant="acme", filter=turns_pb2.TurnFilter(identity=name))
            ),
        ):
            if name == "bob":
                with refused(NOT_FOUND, "bob"):
                    await call
            else:
                with refused(grpc.StatusCode.INVALID_ARGUMENT, f"{name!a} is not a name") as refusal:
                    await call
                assert (refusal.value.details() or "").isascii()
