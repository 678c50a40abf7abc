"""A database, object storage or folder that goes away and comes back."""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from services.common import server
from tests.serving import refused
from tests.support.memory import (
    PORTRAIT,
    TENANT,
    VOICE,
    WAV,
    Log,
    Stubs,
    green,
    header,
    joined,
    parts,
    process_of,
    serving,
)
from tests.support.object_store import ObjectStore
from tests.support.postgres import Postgres
from tests.support.s3_proxy import S3Proxy
from tests.support.stacks import Stack
from tests.support.tcp_proxy import TcpProxy

UNAVAILABLE, FAILED_PRECONDITION = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION
NO_DATABASE = "the memory's database cannot be reached"
KEEP_S = 1.0


@pytest.fixture
async def proxy(postgres: Postgres) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(postgres.host, postgres.port) as proxy:
        yield proxy


@pytest.fixture
def s3_proxy(s3: ObjectStore) -> Iterator[S3Proxy]:
    proxy = S3Proxy(s3.port)
    yield proxy
    proxy.close()


@asynccontextmanager
async def behind(clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy, **changes: Any) -> AsyncIterator[Stubs]:
    assert clustered.urls
    url = proxy.url(clustered.urls.service)
    settings = clustered.settings(database_url=url, s3_endpoint=s3_proxy.endpoint, **changes)
    async with serving(settings) as stubs:
        yield stubs


def file_of(stubs: Stubs, content: bytes, identity: str = "ada") -> Awaitable[bytes]:
    digest = hashlib.sha256(content).hexdigest()
    request = identities_pb2.GetReferenceRequest(tenant=TENANT, identity=identity, digest=digest)
    return joined(stubs.identities.GetReference(request))


async def problem(stubs: Stubs) -> str:
    return (await stubs.memory.GetStore(memory_pb2.GetStoreRequest())).problem


async def is_green(stubs: Stubs) -> bool:
    lights = health_pb2_grpc.HealthStub(stubs.channel)
    light = await lights.Check(health_pb2.HealthCheckRequest(service=server.READINESS))
    return bool(light.status == health_pb2.HealthCheckResponse.SERVING)


# At the start, and later.


async def check_life(
    variables: dict[str, str], reason: str, go: Callable[[], Awaitable[None]], come: Callable[[], Awaitable[None]]
) -> None:
    """Checks a service from which something goes before its start, and again later."""
    await go()
    log = Log()
    async with process_of(variables, log=log) as (stubs, _):
        assert reason in await log.line('"not ready"')
        assert not await is_green(stubs)
        calls: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: stubs.memory.GetStore(memory_pb2.GetStoreRequest()),
            stubs.recall,
            lambda: stubs.say(1),
            lambda: stubs.add(parts(header())),
            lambda: stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT)),
        )
        for call in calls:
            with refused(UNAVAILABLE, reason):
                await call()
        await come()
        await green(stubs)
        await stubs.add(parts(header()))
        await go()
        with refused(UNAVAILABLE, reason):
            await stubs.add(parts(header("eve")))
        assert await is_green(stubs)
        assert reason in await problem(stubs)
        await come()
        await stubs.add(parts(header("eve")))
        assert await problem(stubs) == ""


def variables_behind(clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy) -> dict[str, str]:
    assert clustered.urls
    url = proxy.url(clustered.urls.service)
    return clustered.variables | {"E3RG_MEMORY_DATABASE_URL": url, "E3RG_MEMORY_S3_ENDPOINT": s3_proxy.endpoint}


async def test_without_its_database_a_service_starts_red_gets_green_by_itself_and_stays_it(
    clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy
) -> None:
    await check_life(variables_behind(clustered, proxy, s3_proxy), NO_DATABASE, proxy.refuse, proxy.accept)


async def test_without_its_object_storage_a_service_starts_red_gets_green_by_itself_and_stays_it(
    clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy
) -> None:
    async def go() -> None:
        s3_proxy.refuse()

    async def come() -> None:
        s3_proxy.accept()

    variables = variables_behind(clustered, proxy, s3_proxy)
    await check_life(variables, f"the object storage at http://{s3_proxy.endpoint}", go, come)


async def test_without_its_folder_a_service_starts_red_gets_green_by_itself_and_stays_it(tmp_path: Path) -> None:
    volume, elsewhere = tmp_path / "volume", tmp_path / "elsewhere"
    volume.mkdir()

    async def go() -> None:
        volume.rename(elsewhere)
        volume.write_bytes(b"")  # No folder can be made below it.

    async def come() -> None:
        volume.unlink()
        elsewhere.rename(volume)

    folder = volume / "memory"
    await check_life({"E3RG_MEMORY_FOLDER": str(folder)}, f"the media folder {folder}", go, come)


async def test_a_folder_that_is_moved_is_not_made_anew_and_has_all_when_it_is_back(embedded: Stack) -> None:
    elsewhere = embedded.folder.with_name("elsewhere")
    async with serving(embedded.settings(cache_bytes=0)) as stubs:
        await stubs.add(parts(header()))
        await stubs.say(1)
        await stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, WAV)
        embedded.folder.rename(elsewhere)
        clip = memory_pb2.CLIP_KIND_VIDEO
        for call in (
            lambda: stubs.add(parts(header("eve"))),
            lambda: stubs.put_clip(clip, b"\0\0\0\x18ftypisom"),
            lambda: file_of(stubs, VOICE),
        ):
            with refused(UNAVAILABLE, f"the media folder {embedded.folder}/media cannot be used"):
                await call()
        with refused(UNAVAILABLE, "the memory's database refuses"):
            # More at once than there are open connections.
            await asyncio.gather(*(stubs.recall() for _ in range(200)))
        assert stubs.upkeep
        with pytest.raises(Exception, match=r"cannot be used|refuses"):
            await stubs.upkeep.delete_orphans()
        assert not embedded.folder.exists()
        elsewhere.rename(embedded.folder)
        assert [turn.id for turn in (await stubs.recall()).turns] == ["turn-1"]
        assert await file_of(stubs, VOICE) == VOICE
        await stubs.say(2)


# What is known stands in.


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_while_the_database_is_away_what_was_just_used_is_recalled_and_nothing_else_is_told(
    clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy, how: str
) -> None:
    async with behind(clustered, proxy, s3_proxy, database_timeout_s=0.8) as stubs:
        ada = await stubs.add(parts(header(uses=["animate_face", "keep_turns"])))
        await stubs.add(parts(header("eve")))
        await stubs.say(1, person="bob")
        fresh = await stubs.recall(person="bob")
        assert await file_of(stubs, PORTRAIT) == PORTRAIT
        with refused(grpc.StatusCode.NOT_FOUND, "'zoe'"):
            await stubs.recall("zoe")
        if how == "refuses":
            await proxy.refuse()
        else:
            proxy.pause()
        with refused(FAILED_PRECONDITION, "clone_voice"):
            await file_of(stubs, VOICE)
        # They take all connections.
        asking = [asyncio.create_task(stubs.recall("eve")) for _ in range(16)]
        stale = await stubs.recall(person="bob", uses=["keep_turns"])
        assert (stale.identity, list(stale.turns)) == (ada, list(fresh.turns))
        assert stale.stale_s > 0 == fresh.stale_s
        assert await file_of(stubs, PORTRAIT) == PORTRAIT
        # Somebody who was not heard of meets the same avatar, and hears of nobody else.
        stranger = await stubs.recall(person="nobody")
        assert (stranger.identity, list(stranger.turns)) == (ada, [])
        for use in ("clone_voice", "infer_emotion"):
            with refused(FAILED_PRECONDITION, use):
                await stubs.recall(person="bob", uses=[use])
        refusals: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: stubs.recall("eve"),
            lambda: stubs.recall("zoe"),
            lambda: file_of(stubs, PORTRAIT, "eve"),
            lambda: stubs.say(2, person="bob"),
        )
        for told in await asyncio.gather(*(call() for call in refusals), *asking, return_exceptions=True):
            assert isinstance(told, grpc.aio.AioRpcError)
            assert "the memory's database" in str(told.details())
            assert told.code() in (UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert "the memory's database" in await problem(stubs)
        if how == "refuses":
            await proxy.accept()
        else:
            proxy.resume()
        await stubs.say(2, person="bob")
        again = await stubs.recall(person="bob")
        assert ([turn.id for turn in again.turns], again.stale_s) == (["turn-1", "turn-2"], 0)
        assert await problem(stubs) == ""


async def test_a_database_that_is_busy_for_a_second_is_waited_for(
    clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy
) -> None:
    async with behind(clustered, proxy, s3_proxy) as stubs:
        await stubs.add(parts(header(uses=["keep_turns"])))
        await stubs.recall(person="bob")
        await stubs.say(1, person="bob")
        recalled, _ = await asyncio.gather(stubs.recall(person="bob"), proxy.pause_for(1))
        assert ([turn.id for turn in recalled.turns], recalled.stale_s) == (["turn-1"], 0)


async def test_what_stands_in_is_never_older_than_it_may_be_held(
    clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy
) -> None:
    async with behind(clustered, proxy, s3_proxy, cache_keep_s=KEEP_S) as stubs:
        await stubs.add(parts(header()))
        await stubs.recall()
        await file_of(stubs, VOICE)
        await stubs.recall()
        await proxy.refuse()
        oldest_s = 0.0
        with refused(UNAVAILABLE, NO_DATABASE):
            for _ in itertools.count():
                oldest_s = max(oldest_s, (await stubs.recall()).stale_s)
        assert 0 < oldest_s < KEEP_S + 0.1
        with refused(UNAVAILABLE, NO_DATABASE):
            await file_of(stubs, VOICE)


async def test_a_file_that_was_just_read_is_there_while_the_object_storage_is_away(
    clustered: Stack, proxy: TcpProxy, s3_proxy: S3Proxy
) -> None:
    async with behind(clustered, proxy, s3_proxy) as stubs:
        await stubs.add(parts(header()))
        assert await file_of(stubs, VOICE) == VOICE
        s3_proxy.refuse()
        assert await file_of(stubs, VOICE) == VOICE
        with refused(UNAVAILABLE, f"http://{s3_proxy.endpoint}"):
            await file_of(stubs, PORTRAIT)
        assert (await stubs.recall()).stale_s == 0
        assert f"http://{s3_proxy.endpoint}" in await problem(stubs)
        s3_proxy.accept()
        assert await file_of(stubs, PORTRAIT) == PORTRAIT
        assert await problem(stubs) == ""
