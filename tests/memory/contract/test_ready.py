"""The identities that come with the project are there from the start, unless they were erased on purpose."""

import asyncio
from dataclasses import replace

import grpc

from e3rg.memory.v1 import erasure_pb2
from services.memory.domain import TENANT_READY, USES, File, Grant, NewIdentity, Profile, ReferenceKind
from services.memory.ready import file_of, ready_identities
from tests.serving import refused
from tests.support.identities import file, get, kept, listed
from tests.support.memory import PORTRAIT, VOICE, Stubs, header, parts, serving
from tests.support.memory import USES as PERMITTED
from tests.support.stacks import Stack

ADA = NewIdentity(
    "ada",
    Profile("Ada", "young", "female", "mid", "en"),
    (Grant("animate_face", "the project", "2026-01-31"),),
    (File(ReferenceKind.PORTRAIT, PORTRAIT[:100]), File(ReferenceKind.VOICE, VOICE)),
)
READY = [ADA, replace(ADA, id="bob")]


async def erase(stubs: Stubs, tenant: str = TENANT_READY) -> None:
    request = erasure_pb2.EraseIdentityRequest(tenant=tenant, identity="ada", asked_by="the test")
    await stubs.erasure.EraseIdentity(request)


async def test_the_ready_identities_are_added_once_and_a_changed_one_stays_changed(stack: Stack) -> None:
    async with serving(stack.settings(), ready=READY[:1]) as stubs:
        first = await get(stubs, tenant=TENANT_READY)
    changed = replace(ADA, profile=replace(ADA.profile, name="Augusta"))
    async with serving(stack.settings(), ready=[changed, READY[1]]) as stubs:
        assert await get(stubs, tenant=TENANT_READY) == first
        assert await listed(stubs, tenant=TENANT_READY) == (["ada", "bob"], "")
        assert await listed(stubs) == ([], "")
        assert len(stack.objects) == 4


async def test_replicas_that_start_at_once_share_the_ready_identities(stack: Stack) -> None:
    async with serving(stack.settings()):
        pass  # The schema is there.

    async def start() -> list[str]:
        async with serving(stack.settings(), ready=READY) as stubs:
            return (await listed(stubs, tenant=TENANT_READY))[0]

    assert await asyncio.gather(*(start() for _ in range(4))) == [["ada", "bob"]] * 4
    assert len(stack.objects) == 4


async def test_an_erased_ready_identity_stays_away_until_it_is_added_again(stack: Stack) -> None:
    async with serving(stack.settings(), ready=READY) as stubs:
        await erase(stubs)
    for _ in range(2):
        async with serving(stack.settings(), ready=READY) as stubs:
            assert await listed(stubs, tenant=TENANT_READY) == (["bob"], "")
            with refused(grpc.StatusCode.NOT_FOUND, "identity 'ada' is unknown"):
                await get(stubs, tenant=TENANT_READY)
    async with serving(stack.settings(), ready=READY) as stubs:
        await stubs.add(parts(header(tenant=TENANT_READY)))
        assert await file(stubs, PORTRAIT, tenant=TENANT_READY) == PORTRAIT
        await erase(stubs)
    async with serving(stack.settings(), ready=READY) as stubs:
        assert await listed(stubs, tenant=TENANT_READY) == (["bob"], "")


async def test_the_erasure_of_their_tenant_brings_all_ready_identities_back_at_the_next_start(stack: Stack) -> None:
    async with serving(stack.settings(), ready=READY) as stubs:
        await erase(stubs)
        await stubs.erasure.EraseTenant(erasure_pb2.EraseTenantRequest(tenant=TENANT_READY, asked_by="the test"))
        assert await listed(stubs, tenant=TENANT_READY) == ([], "")
    async with serving(stack.settings(), ready=READY) as stubs:
        assert await listed(stubs, tenant=TENANT_READY) == (["ada", "bob"], "")


async def test_an_identity_of_another_tenant_takes_the_place_of_no_ready_one(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(tenant="shop")))
    async with serving(stack.settings(), ready=READY) as stubs:
        assert await listed(stubs, tenant=TENANT_READY) == (["ada", "bob"], "")


async def test_nothing_stays_of_an_identity_of_another_tenant_that_is_named_like_a_ready_one(stack: Stack) -> None:
    async with serving(stack.settings(), ready=READY) as stubs:
        await stubs.add(parts(header(tenant="shop")))
        await erase(stubs, "shop")
        assert "removed_identities" not in await kept(stubs, stack)
        await erase(stubs)
        (removed,) = (await kept(stubs, stack))["removed_identities"]
        assert "shop" not in removed


async def test_the_people_who_come_with_the_project_pass_every_check_and_differ(embedded: Stack) -> None:
    people = tuple(ready_identities())
    async with serving(embedded.settings(), ready=people) as stubs:
        names, _ = await listed(stubs, tenant=TENANT_READY)
        assert names == ["amara", "anna", "ingrid", "kenji", "leila", "marcus", "walter"]
        found = [(await stubs.recall(name, tenant=TENANT_READY, uses=PERMITTED)).identity for name in names]
        assert len({reference.digest for person in found for reference in person.references}) == 14
        assert {person.profile.gender for person in found} == {"female", "male"}
        assert len({person.profile.age for person in found}) >= 3
        assert len({person.profile.speaking_style for person in found}) == 7
        for person in people:
            for kind in (ReferenceKind.PORTRAIT, ReferenceKind.VOICE):
                content = file_of(person, kind)
                assert await file(stubs, content, person.id, TENANT_READY) == content
                assert USES[kind] in {grant.use for grant in person.grants}
