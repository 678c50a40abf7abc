"""The service in processes of its own, when its store is away, slow, damaged or set wrongly, and beside another one."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from services.common import backends, server
from services.common.errors import NotReady
from services.memory.backends.s3 import S3Backend
from services.memory.opening import Opening
from services.memory.registry.ready import ready_identities
from tests.fake_store import FakeStore
from tests.fakes import Gate, fail, go_on
from tests.memory_service import (
    TENANT,
    VOICE,
    Stubs,
    green,
    header,
    held,
    joined,
    memory_over,
    parts,
    process_of,
    queues,
    serving,
)
from tests.s3_proxy import S3Proxy, Stalling
from tests.s3_server import S3Server
from tests.s3_server import environment as s3_environment
from tests.serving import refused
from tests.talking import new

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def until_not_ready(process: asyncio.subprocess.Process) -> str:
    """Returns the first reason that the log tells for not being ready."""
    assert process.stderr
    while b'"not ready"' not in (line := await process.stderr.readline()):
        assert line, "the process ended"
    return str(json.loads(line)["why"])


def listing(tenant: str = "default") -> identities_pb2.ListIdentitiesRequest:
    return identities_pb2.ListIdentitiesRequest(tenant=tenant)


@pytest.mark.parametrize("backend", backends.names("services.memory.backends"))
async def test_the_process_seeds_its_store_serves_and_ends_on_sigterm(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str
) -> None:
    variables = {"E3RG_MEMORY_BACKEND": backend, "E3RG_MEMORY_FOLDER": str(tmp_path / "memory")}
    if backend == "s3":
        request.getfixturevalue("s3_store")
        variables |= s3_environment(request.getfixturevalue("s3_server").endpoint)
    async with process_of(variables) as (stubs, _):
        await green(stubs)
        card = (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).card
        assert (card.backend, card.model, len(card.digest)) == (backend, "all-MiniLM-L6-v2, 8-bit", 64)
        listed = (await stubs.identities.ListIdentities(listing())).identities
        assert [identity.id for identity in listed] == [each.id for each in ready_identities()]
        assert not (await stubs.identities.ListIdentities(listing("other"))).identities


async def test_a_process_whose_store_is_away_starts_red_says_why_and_becomes_green_by_itself(
    s3_server: S3Server, s3_store: S3Backend
) -> None:
    async with through_a_proxy(s3_server, down=True) as (proxy, stubs, process):
        assert f"{proxy.endpoint} cannot be reached" in await until_not_ready(process)
        lights = health_pb2_grpc.HealthStub(stubs.channel)
        light = await lights.Check(health_pb2.HealthCheckRequest(service=server.READINESS))
        assert light.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with refused(UNAVAILABLE, f"{proxy.endpoint} cannot be reached"):
            await stubs.memory.GetStore(memory_pb2.GetStoreRequest())
        proxy.up()
        await green(stubs)
        assert len((await stubs.identities.ListIdentities(listing())).identities) == len(list(ready_identities()))


@asynccontextmanager
async def through_a_proxy(
    s3_server: S3Server, down: bool = False
) -> AsyncIterator[tuple[S3Proxy, Stubs, asyncio.subprocess.Process]]:
    proxy = S3Proxy(s3_server.port)
    if down:
        proxy.down()
    try:
        variables = {"E3RG_MEMORY_BACKEND": "s3", **s3_environment(proxy.endpoint)}
        async with process_of(variables) as (stubs, process):
            yield proxy, stubs, process
    finally:
        proxy.close()


async def test_while_the_store_is_away_or_slow_what_was_recalled_serves_and_writes_are_refused(
    s3_server: S3Server, s3_store: S3Backend
) -> None:
    elsewhere = memory_over(s3_store)
    elsewhere.prepare()
    elsewhere.registry.add(TENANT, new("eve"))
    async with through_a_proxy(s3_server) as (proxy, stubs, _):
        await green(stubs)
        ada = await stubs.add(parts(header()))
        await stubs.say(1, person="bob")
        voice = identities_pb2.GetReferenceRequest(tenant=TENANT, identity="ada", digest=ada.references[1].digest)
        fresh = await stubs.recall(person="bob")
        with refused(grpc.StatusCode.NOT_FOUND, "'zoe'"):
            await stubs.recall("zoe")
        assert await joined(stubs.identities.GetReference(voice)) == VOICE

        async def still_served() -> None:
            stale = await stubs.recall(person="bob")
            assert stale.stale_s > 0 == fresh.stale_s
            assert (stale.identity, list(stale.turns)) == (ada, list(fresh.turns))
            assert await joined(stubs.identities.GetReference(voice)) == VOICE
            # Somebody whom nobody has heard of yet is greeted by the same avatar.
            unknown = await stubs.recall(person="nobody")
            assert (unknown.identity, len(unknown.turns)) == (ada, 0)

        proxy.down()
        await still_served()
        for call in (stubs.say(2, person="bob"), stubs.recall("eve")):
            with refused(UNAVAILABLE, f"{proxy.endpoint} cannot be reached"):
                await call
        # That she was unknown a moment ago is no answer: another replica may have added her since.
        with refused(UNAVAILABLE, "cannot be reached, and a moment ago identity 'zoe' is unknown"):
            await stubs.recall("zoe")
        proxy.up()
        relayed, proxy.answers = proxy.answers, (stalling := Stalling())
        await still_served()
        for request in (stubs.identities.ListIdentities(listing(), timeout=0.5), stubs.recall("eve", timeout=0.5)):
            with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
                await request
        proxy.answers = relayed
        stalling.end()
        await stubs.say(2, person="bob")
        again = await stubs.recall(person="bob")
        assert ([turn.id for turn in again.turns], again.stale_s) == (["turn-1", "turn-2"], 0)


async def test_a_process_told_to_stop_while_its_store_is_away_stops() -> None:
    variables = {"E3RG_MEMORY_BACKEND": "s3", **s3_environment("127.0.0.1:1")}
    async with process_of(variables) as (_, process):
        await until_not_ready(process)


async def test_a_process_with_wrong_credentials_says_so_and_stays_red(s3_server: S3Server, s3_store: S3Backend) -> None:
    variables = {"E3RG_MEMORY_BACKEND": "s3", **s3_environment(s3_server.endpoint, secret_key="wrong")}
    async with process_of(variables) as (stubs, process):
        assert "refuses the credentials; set E3RG_MEMORY_S3_ACCESS_KEY" in await until_not_ready(process)
        with refused(UNAVAILABLE, "refuses the credentials"):
            await stubs.recall()
    assert held(s3_store) == {}


async def test_a_process_on_a_store_of_another_layout_says_so_and_touches_nothing(tmp_path: Path) -> None:
    objects = tmp_path / "memory" / "objects"
    (objects / "identities").mkdir(parents=True)
    (objects / "identities" / "anna").write_bytes(b"as an earlier version wrote it")
    variables = {"E3RG_MEMORY_BACKEND": "filesystem", "E3RG_MEMORY_FOLDER": str(tmp_path / "memory")}
    async with process_of(variables) as (stubs, process):
        assert "an earlier version wrote them" in await until_not_ready(process)
        with refused(UNAVAILABLE, "an earlier version wrote them"):
            await stubs.recall()
    assert [path.name for path in objects.rglob("*") if path.is_file()] == ["anna"]


async def test_what_one_process_changes_or_erases_the_other_sees_at_the_next_call(
    s3_server: S3Server, s3_store: S3Backend
) -> None:
    variables = {"E3RG_MEMORY_BACKEND": "s3", **s3_environment(s3_server.endpoint)}
    async with AsyncExitStack() as stack:
        one, other = [
            started[0]
            for started in await asyncio.gather(*(stack.enter_async_context(process_of(variables)) for _ in range(2)))
        ]
        await asyncio.gather(green(one), green(other))
        await one.add(parts(header()))
        await one.say(1, person="bob")
        for number in range(2, 5):
            recalled = await other.recall(person="bob")
            assert (recalled.identity.version, recalled.turns[-1].id) == (number - 1, f"turn-{number - 1}")
            change = identities_pb2.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=number - 1)
            change.profile.CopyFrom(header().profile)
            change.profile.speaking_style = f"louder by {number}"
            await one.change(change)
            await one.say(number, person="bob")
        await one.erasure.ErasePerson(erasure_pb2.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="Bob"))
        assert not (await other.recall(person="bob")).turns
        erase = erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
        await one.erasure.EraseIdentity(erase)
        with refused(grpc.StatusCode.NOT_FOUND, "'ada'"):
            await other.recall(person="bob")
        await one.add(parts(header(uses=["clone_voice"])))
        assert (await other.recall(person="bob")).identity.version == 1
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
            await other.say(1, person="bob")


async def test_a_store_that_is_away_is_unavailable_and_the_service_goes_on_when_it_is_back() -> None:
    store = FakeStore()
    async with serving(memory_over(store)) as stubs:
        store.before = fail(NotReady("the store is away; retry"))
        with refused(UNAVAILABLE, "the store is away"):
            await stubs.identities.ListIdentities(listing())
        store.before = go_on
        assert not (await stubs.identities.ListIdentities(listing())).identities


async def test_until_the_store_is_open_every_call_is_refused_with_the_reason() -> None:
    store = FakeStore()
    memory, threads = memory_over(store), queues()
    opening = Opening(store, memory, threads.store)
    gate = Gate("check")
    store.before = gate
    async with serving(memory, opening) as stubs:
        task = asyncio.create_task(opening.run())
        await gate.reached()
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: stubs.memory.GetStore(memory_pb2.GetStoreRequest()),
            lambda: stubs.identities.ListIdentities(listing()),
            lambda: stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT)),
            lambda: stubs.add(parts(header())),
            stubs.recall,
        )
        for call in calls:
            with refused(UNAVAILABLE, "is being opened; retry"):
                await call()
        gate.open()
        await task
        assert (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).card.backend == "fake"
    threads.close()
