"""Many tenants, identities and persons at once, over the wire: nothing of one is ever told to another."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import product

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from services.memory import keys
from services.memory.domain import Identity
from services.memory.records import Codec
from tests.fake_store import FakeStore
from tests.memory_service import PORTRAIT, VOICE, Stubs, header, joined, memory_over, parts, serving
from tests.serving import refused
from tests.talking import new

# Names that begin like others, and the same names at every level: what a join of keys could mix up.
TENANTS = ("a", "a-a", "b", "b-a", "p-a", "c-a")
IDENTITIES = ("a", "a-a", "b")
PERSONS = ("", "a", "a-a", "b")
CONVERSATIONS = ("a", "b")
STEPS = 500
COUNT = 10_000

Whom = tuple[str, str, str, str]
"""Tenant, identity, person, conversation."""


@pytest.fixture
async def replicas() -> AsyncIterator[list[Stubs]]:
    store = FakeStore()
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving(memory_over(store))) for _ in range(2)]


def secret(whom: Whom) -> str:
    """Words that say whose they are; all share some, so that each is like each."""
    return "the same words of " + "/".join(whom)


async def say(stubs: Stubs, whom: Whom, number: int) -> None:
    tenant, identity, person, conversation = whom
    turn = memory_pb2.Turn(
        id=f"turn-{number}",
        user_text=secret(whom),
        user_emotion="sad",
        reply_text=secret(whom),
        reply_emotion="caring",
    )
    await stubs.memory.Remember(
        memory_pb2.RememberRequest(
            tenant=tenant, identity=identity, person=person, conversation=conversation, turn=turn
        )
    )


async def told(stubs: Stubs, whom: Whom) -> list[memory_pb2.Turn]:
    """All that anybody would be told who asks for this."""
    tenant, identity, person, conversation = whom
    named = {"tenant": tenant, "identity": identity, "person": person, "conversation": conversation}
    recalled = await stubs.memory.Recall(memory_pb2.RecallRequest(turns_max=1000, **named))
    assert recalled.identity.profile.about == f"{tenant}/{identity}"
    listed = await stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(page_size=200, **named))
    search = memory_pb2.SearchRequest(text=secret(whom), hits_max=32, similarity_min=-1, **named)  # type: ignore[arg-type]
    found = await stubs.memory.Search(search)
    return [*recalled.turns, *listed.turns, *(hit.turn for hit in found.hits)]


async def test_nothing_crosses_between_tenants_identities_and_persons(replicas: list[Stubs]) -> None:
    chance = random.Random(5)
    for tenant, identity in product(TENANTS, IDENTITIES):
        head = header(identity, tenant=tenant)
        head.profile.about = f"{tenant}/{identity}"
        await replicas[0].add(parts(head, PORTRAIT[:100] + secret((tenant, identity, "", "")).encode(), VOICE))
    everybody = list(product(TENANTS, IDENTITIES, PERSONS, CONVERSATIONS))
    said: dict[Whom, set[str]] = defaultdict(set)
    checked = 0

    async def work(worker: int) -> None:
        nonlocal checked
        for number in range(worker, STEPS, 6):
            whom = chance.choice(everybody)
            if chance.random() < 0.6:
                await say(chance.choice(replicas), whom, number)
                said[whom].add(f"turn-{number}")
            else:
                before = set(said[whom])
                turns = await told(chance.choice(replicas), whom)
                assert {turn.user_text for turn in turns} <= {secret(whom)}
                assert before <= {turn.id for turn in turns}
                checked += len(turns)

    await asyncio.gather(*(work(worker) for worker in range(6)))
    assert checked > 100
    for whom in everybody:
        turns = await told(replicas[1], whom)
        assert {turn.id for turn in turns} == said[whom]
        assert {turn.user_text for turn in turns} <= {secret(whom)}
    await check_files(replicas[1])
    await check_erasures(replicas, everybody, said)


async def check_files(stubs: Stubs) -> None:
    for tenant, identity in product(TENANTS, IDENTITIES):
        wanted = identities_pb2.GetIdentityRequest(tenant=tenant, identity=identity)
        found = (await stubs.identities.GetIdentity(wanted)).identity
        portrait = found.references[0].digest
        for other in TENANTS:
            request = identities_pb2.GetReferenceRequest(tenant=other, identity=identity, digest=portrait)
            if other == tenant:
                assert secret((tenant, identity, "", "")).encode() in await joined(
                    stubs.identities.GetReference(request)
                )
            else:
                with refused(grpc.StatusCode.NOT_FOUND):
                    await joined(stubs.identities.GetReference(request))


async def check_erasures(replicas: list[Stubs], everybody: list[Whom], said: dict[Whom, set[str]]) -> None:
    """What is erased of one is there of all others."""
    gone = ("a", "a-a")
    for erase in (
        replicas[0].erasure.ErasePerson(erasure_pb2.ErasePersonRequest(tenant="a", person="a", asked_by="me")),
        replicas[0].erasure.EraseIdentity(erasure_pb2.EraseIdentityRequest(tenant="a", identity="a-a", asked_by="me")),
    ):
        await erase
    for whom in everybody:
        if whom[:2] == gone:
            with refused(grpc.StatusCode.NOT_FOUND):
                await told(replicas[1], whom)
        else:
            erased = whom[0] == "a" and whom[2] == "a"
            assert {turn.id for turn in await told(replicas[1], whom)} == (set() if erased else said[whom])


async def test_ten_thousand_identities_are_listed_by_pages_and_one_more_costs_no_more() -> None:
    store = FakeStore()
    memory = memory_over(store)
    first = memory.registry.add("acme", new("seed"))
    alone = operations(store, lambda: memory.registry.add("acme", new("before")))
    codec = Codec(Identity)
    for number in range(COUNT - 2):
        name = f"n-{number:05d}"
        store.objects[keys.head("acme", name)] = codec.encode(replace(first, id=name))
        store.objects[f"{keys.Scope('acme', name, 'f' * 32).folder}references/x"] = b""
    async with serving(memory) as stubs:
        request = identities_pb2.ListIdentitiesRequest(tenant="acme", page_size=200)
        names: list[str] = []
        pages = 0
        while not names or request.page_token:
            page = await stubs.identities.ListIdentities(request)
            names += [identity.id for identity in page.identities]
            request.page_token = page.next_page_token
            pages += 1
        assert (len(names), names, len(set(names))) == (COUNT, sorted(names), COUNT)
        assert pages in {COUNT // 200, COUNT // 200 + 1}
    assert operations(store, lambda: memory.registry.add("acme", new("after"))) == alone


def operations(store: FakeStore, work: Callable[[], object]) -> list[str]:
    """What the store is asked for."""
    asked: list[str] = []
    store.before = lambda operation, key: asked.append(operation)
    work()
    store.before = lambda operation, key: None
    return asked
