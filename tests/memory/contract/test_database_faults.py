"""A database server, or the network before it, has faults: errors are named, and no write is lost or made twice."""

import asyncio
import itertools
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2
from services.common import clients
from services.common.errors import NotReady
from services.memory.consistency import Findings, check
from services.memory.migrate import migrate
from tests.serving import refused
from tests.support.memory import TENANT, WAV, Stubs, each, header, joined, parts, serving, turn
from tests.support.postgres import Postgres, Urls
from tests.support.stacks import Stack
from tests.support.tcp_proxy import Cut, TcpProxy, commit

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
AWAY = "the memory's database cannot be reached"
FILES = b"\x89PNG\r\n\x1a\nface", b"RIFF\0\0\0\0WAVEvoice"


class Write(ABC):
    """A kind of write, which can be made again and again: each time with an identity of its own.

    Args:
        stubs: Where.
        name: Of the identity.
    """

    def __init__(self, stubs: Stubs, name: str) -> None:
        self.stubs, self.name = stubs, name
        self.where = {"tenant": TENANT, "identity": name, "conversation": "talk", "person": f"person-of-{name}"}

    async def prepare(self) -> None:
        """Makes what it needs."""
        await self.stubs.add(parts(header(self.name), *FILES))

    @abstractmethod
    async def make(self, options: Any) -> Any:
        """Returns the answer."""

    @abstractmethod
    async def check(self, answer: Any) -> None:
        """Checks that it was made once, and that the answer is that of the first time."""

    async def say(self) -> None:
        await self.stubs.memory.Remember(memory_pb2.RememberRequest(**self.where, turn=turn(1)))

    async def turns(self) -> list[memory_pb2.Turn]:
        return list((await self.stubs.memory.ListTurns(memory_pb2.ListTurnsRequest(**self.where))).turns)  # type: ignore[arg-type]

    async def identity(self) -> identities_pb2.Identity:
        request = identities_pb2.GetIdentityRequest(tenant=TENANT, identity=self.name)
        return (await self.stubs.identities.GetIdentity(request)).identity


class AddIdentity(Write):
    async def prepare(self) -> None:
        """Nothing."""

    async def make(self, options: Any) -> Any:
        return await clients.ask(self.stubs.identities.AddIdentity(**options), each(parts(header(self.name), *FILES)))

    async def check(self, answer: Any) -> None:
        assert answer.identity.version == 1
        assert await self.identity() == answer.identity


class ChangeIdentity(Write):
    async def make(self, options: Any) -> Any:
        change = identities_pb2.ChangeIdentityHeader(tenant=TENANT, id=self.name, if_version=1)
        change.grants.SetInParent()
        message = identities_pb2.ChangeIdentityRequest(header=change)
        return await clients.ask(self.stubs.identities.ChangeIdentity(**options), each([message]))

    async def check(self, answer: Any) -> None:
        assert answer.identity.version == 2
        assert await self.identity() == answer.identity


class Remember(Write):
    async def make(self, options: Any) -> Any:
        request = memory_pb2.RememberRequest(**self.where, turn=turn(1))
        return await self.stubs.memory.Remember(request, **options)

    async def check(self, answer: Any) -> None:
        assert [found.id for found in await self.turns()] == ["turn-1"]


class PutClip(Write):
    async def prepare(self) -> None:
        await super().prepare()
        await self.say()

    async def make(self, options: Any) -> Any:
        kind = memory_pb2.CLIP_KIND_SPEECH
        about = memory_pb2.PutClipHeader(**self.where, turn="turn-1", kind=kind, size_bytes=len(WAV))
        messages = [memory_pb2.PutClipRequest(header=about), memory_pb2.PutClipRequest(content=WAV)]
        return await clients.ask(self.stubs.memory.PutClip(**options), each(messages))

    async def check(self, answer: Any) -> None:
        assert [list(found.clips) for found in await self.turns()] == [[answer.clip]]
        asked = memory_pb2.GetClipRequest(**self.where, turn="turn-1", kind=answer.clip.kind)
        assert await joined(self.stubs.memory.GetClip(asked)) == WAV


class RemoveExemplars(Write):
    async def prepare(self) -> None:
        await super().prepare()
        new = [exemplars_pb2.Exemplar(user_text=f"text {n}", user_emotion="sad", reply_text="so") for n in range(3)]
        request = exemplars_pb2.PutExemplarsRequest(tenant=TENANT, identity=self.name, exemplars=new)
        self.ids = (await self.stubs.exemplars.PutExemplars(request)).ids

    async def make(self, options: Any) -> Any:
        request = exemplars_pb2.RemoveExemplarsRequest(tenant=TENANT, identity=self.name, ids=self.ids[:2])
        return await self.stubs.exemplars.RemoveExemplars(request, **options)

    async def check(self, answer: Any) -> None:
        assert answer.exemplars == 2
        request = exemplars_pb2.ListExemplarsRequest(tenant=TENANT, identity=self.name)
        assert [found.id for found in (await self.stubs.exemplars.ListExemplars(request)).exemplars] == self.ids[2:]


class ErasePerson(Write):
    async def prepare(self) -> None:
        await super().prepare()
        await self.say()

    async def make(self, options: Any) -> Any:
        request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person=self.where["person"], asked_by="the test")
        return await self.stubs.erasure.ErasePerson(request, **options)

    async def check(self, answer: Any) -> None:
        assert self.stubs.inside
        await self.stubs.inside.erasure.drain()
        listed = (await self.stubs.erasure.ListAudits(erasure_pb2.ListAuditsRequest(tenant=TENANT))).audits
        mine = [audit for audit in listed if audit.what == f"person {self.where['person']}"]
        assert [(audit.id, audit.done_at_s > 0) for audit in mine] == [(answer.audit.id, True)]
        assert [count.objects for count in answer.audit.counts if count.kind == "turns"] == [1]
        assert await self.turns() == []


class Commits:
    """Chooses one COMMIT by its number from 1, or it and all that follow."""

    def __init__(self, number: int, has_followers: bool) -> None:
        self._number, self._has_followers, self._seen = number, has_followers, 0

    def __call__(self, request: bytes) -> bool:
        self._seen += commit(request)
        is_later = self._seen > self._number and self._has_followers
        return commit(request) and (self._seen == self._number or is_later)


@pytest.fixture
async def proxy(postgres: Postgres) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(postgres.host, postgres.port) as proxy:
        yield proxy


@asynccontextmanager
async def behind(proxy: TcpProxy, database: Urls, folder: Path, **changes: Any) -> AsyncIterator[Stubs]:
    """Serves a memory on PostgreSQL, behind the proxy, and a folder."""
    stack = Stack("postgres-folder", folder, database)
    await migrate(stack.settings())
    settings = stack.settings(database_url=proxy.url(database.service), **changes)
    async with serving(settings, orphan_s=0) as stubs:
        yield stubs


def planned(proxy: TcpProxy, is_served: bool, number: int, has_followers: bool) -> Cut:
    choice, times = Commits(number, has_followers), 1000 if has_followers else 1
    return proxy.cut_after(choice, times=times) if is_served else proxy.cut_before(choice, times=times)


@pytest.mark.parametrize("is_served", [True, False], ids=["answer-lost", "request-lost"])
@pytest.mark.parametrize("kind", [AddIdentity, ChangeIdentity, Remember, PutClip, RemoveExemplars, ErasePerson])
async def test_whichever_commit_is_lost_a_write_is_made_once_and_answered_as_the_first_time(
    proxy: TcpProxy, database: Urls, tmp_path: Path, kind: type[Write], is_served: bool
) -> None:
    async with behind(proxy, database, tmp_path) as stubs:
        for has_followers in (False, True):
            for number in itertools.count(1):
                write = kind(stubs, f"ada-{number}-{has_followers:d}")
                await write.prepare()
                options = {"metadata": (("idempotency-key", secrets.token_hex(16)),)}
                cut = planned(proxy, is_served, number, has_followers)
                times = cut.remaining
                try:
                    answer = await write.make(options)
                except grpc.aio.AioRpcError as error:
                    assert has_followers
                    assert (error.code(), AWAY in str(error.details())) == (UNAVAILABLE, True)
                    cut.remaining, times = 0, 1
                    answer = await write.make(options)
                is_cut, cut.remaining = cut.remaining < times, 0
                await write.check(answer)
                if not is_cut:
                    break
            assert number > 1, "no commit was lost"
        assert stubs.inside
        assert stubs.upkeep
        findings = await check(stubs.inside, False, None)
        assert (findings.rows, findings.files) == ([], [])
        await stubs.upkeep.delete_orphans()
        assert await check(stubs.inside, False, None) == Findings()


async def test_a_database_that_refuses_hangs_or_is_slow_is_named_and_works_when_it_is_back(
    proxy: TcpProxy, postgres: Postgres, database: Urls, tmp_path: Path
) -> None:
    async with behind(proxy, database, tmp_path, database_timeout_s=0.5) as stubs:
        await stubs.add(parts(header()))
        await proxy.refuse()
        with refused(UNAVAILABLE, AWAY):
            await stubs.say(1)
        await proxy.accept()
        proxy.delay_s = 0.005
        await stubs.say(1)
        proxy.delay_s = 0
        proxy.pause()
        with refused(UNAVAILABLE, AWAY):
            await stubs.say(2)
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
            listing = identities_pb2.ListIdentitiesRequest(tenant=TENANT)
            await stubs.identities.ListIdentities(listing, timeout=0.1)
        proxy.resume()
        await stubs.say(2)
        postgres.suspend()
        try:
            with refused(UNAVAILABLE, AWAY):
                await stubs.say(3)
        finally:
            postgres.resume()
        await stubs.say(3)
        assert [each.id for each in (await stubs.recall()).turns] == ["turn-1", "turn-2", "turn-3"]


async def test_a_statement_that_waits_too_long_is_given_up_and_busy_connections_are_named(
    proxy: TcpProxy, database: Urls, tmp_path: Path
) -> None:
    async with behind(proxy, database, tmp_path, database_timeout_s=0.5, database_connections=1) as stubs:
        await stubs.add(parts(header()))
        locking = await asyncpg.connect(database.admin)
        async with locking.transaction():
            await locking.execute("LOCK TABLE turns")
            calls = await asyncio.gather(*(stubs.say(number) for number in range(4)), return_exceptions=True)
            told = {(call.code().name, call.details()) for call in calls if isinstance(call, grpc.aio.AioRpcError)}
            assert len([call for call in calls if call]) == len(calls)
        await locking.close()
        assert ("DEADLINE_EXCEEDED", "the memory's database took too long") in {
            (code, str(details).partition(" (")[0]) for code, details in told
        }
        assert ("RESOURCE_EXHAUSTED", "all connections to the memory's database are busy; retry in 1 s") in told
        assert {code for code, _ in told} == {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
        await stubs.say(9)
        assert [each.id for each in (await stubs.recall()).turns] == ["turn-9"]


async def test_a_database_that_turns_read_only_is_named_and_written_to_again_when_that_ends(
    clustered: Stack,
) -> None:
    assert clustered.urls
    async with serving(clustered.settings()) as stubs, altered(clustered.urls) as alter:
        await stubs.add(parts(header()))
        await alter("SET default_transaction_read_only = on")
        with refused(UNAVAILABLE, "in a read-only transaction; retry"):
            await stubs.say(1)
        assert (await stubs.recall()).stale_s == 0
        await alter("RESET default_transaction_read_only", is_disconnecting=False)
        await stubs.say(1)


async def test_while_a_database_accepts_no_connections_what_was_just_used_is_recalled(clustered: Stack) -> None:
    assert clustered.urls
    async with serving(clustered.settings()) as stubs, altered(clustered.urls) as alter:
        await stubs.add(parts(header()))
        await stubs.recall()
        await alter("ALLOW_CONNECTIONS false")
        with refused(UNAVAILABLE, "is not currently accepting connections"):
            await stubs.say(1)
        assert (await stubs.recall()).stale_s > 0
        await alter("ALLOW_CONNECTIONS true")
        await stubs.say(1)


async def test_a_database_that_does_not_exist_yet_is_waited_for(database: Urls, tmp_path: Path) -> None:
    missing = Stack("postgres-folder", tmp_path, replace(database, service=f"{database.service}_later"))
    async with serving(missing.settings(migration_url=""), is_opened=False) as stubs:
        assert stubs.upkeep
        with pytest.raises(NotReady, match=r"database .*_later. does not exist"):
            await stubs.upkeep.open_once()


@asynccontextmanager
async def altered(urls: Urls) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Yield a function that alters the database and, unless told otherwise, ends its sessions."""
    server, _, name = urls.admin.rpartition("/")
    admin = await asyncpg.connect(f"{server}/postgres")

    async def alter(change: str, is_disconnecting: bool = True) -> None:
        await admin.execute(f"ALTER DATABASE {name} {change}")
        if is_disconnecting:
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)

    try:
        yield alter
    finally:
        await admin.close()
