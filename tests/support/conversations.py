"""Turns that tests keep, read and search over the wire, and all that a stack keeps of them."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import asyncpg

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from services.common import clients
from services.memory.schema import TENANT_TABLES
from tests.fakes import PATIENCE_S
from tests.support.memory import TENANT, Stubs, each, grants, joined, turn
from tests.support.minio import MinIo
from tests.support.object_store import ObjectStore
from tests.support.stacks import Stack

UNCOUNTED = ("audits", "requests")
"""Records of erasures, and of the ids and numbers that a retry gets."""

SAMPLES = """
    SELECT tablename || '.' || attname AS place FROM pg_stats WHERE schemaname = 'public'
    AND concat(most_common_vals::text, histogram_bounds::text) ILIKE $1
"""


def place(**changes: str) -> dict[str, Any]:
    """The conversation that tests talk in, for any request."""
    return {"tenant": TENANT, "identity": "ada", "conversation": "talk", **changes}


async def remember(
    stubs: Stubs, number: int, text: str = "", where: dict[str, str] | None = None, **changes: Any
) -> None:
    """Keep a turn; `changes` are fields of it, `where` is of the request."""
    said = turn(number, text)
    said.MergeFrom(memory_pb2.Turn(**changes))
    await stubs.memory.Remember(memory_pb2.RememberRequest(turn=said, **place(**(where or {}))))


async def listed(stubs: Stubs, page_size: int = 0, **where: str) -> list[memory_pb2.Turn]:
    """All turns of a conversation, the newest first, by pages."""
    request = memory_pb2.ListTurnsRequest(page_size=page_size, **place(**where))
    found: list[memory_pb2.Turn] = []
    while True:
        page = await stubs.memory.ListTurns(request)
        found += page.turns
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def search(stubs: Stubs, text: str, person: str = "", conversation: str = "", **wanted: Any) -> list[Any]:
    """The hits of a search."""
    where = place(person=person, conversation=conversation)
    request = memory_pb2.SearchRequest(**(where | {"text": text} | wanted))
    return list((await stubs.memory.Search(request)).hits)


async def found(stubs: Stubs, text: str, person: str = "", conversation: str = "", **wanted: Any) -> list[str]:
    """The ids of the turns that a search finds."""
    return [hit.turn.id for hit in await search(stubs, text, person, conversation, **wanted)]


async def get_clip(stubs: Stubs, kind: memory_pb2.ClipKind, turn_id: str = "turn-1", **where: str) -> bytes:
    request = memory_pb2.GetClipRequest(turn=turn_id, kind=kind, **place(**where))
    return await joined(stubs.memory.GetClip(request))


async def put_derived(stubs: Stubs, identity: identities_pb2.Identity, content: bytes) -> None:
    """Keep what a model derived from the identity's portrait."""
    header = identities_pb2.PutDerivedHeader(
        tenant=TENANT,
        identity=identity.id,
        reference_digests=[identity.references[0].digest],
        model_digest="d" * 64,
        size_bytes=len(content),
    )
    parts = [identities_pb2.PutDerivedRequest(header=header), identities_pb2.PutDerivedRequest(content=content)]
    await clients.ask(stubs.identities.PutDerived(), each(parts))


async def allow(stubs: Stubs, uses: tuple[str, ...], version: int = 1) -> None:
    """Change what is allowed with the identity `ada`."""
    allowed = identities_pb2.ChangeIdentityHeader.Grants(grants=grants(uses))
    await stubs.change(identities_pb2.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=version, grants=allowed))


async def erase_user(stubs: Stubs, person: str = "", conversation: str = "", tenant: str = TENANT) -> erasure_pb2.Audit:
    request = erasure_pb2.ErasePersonRequest(
        tenant=tenant, person=person, conversation=conversation, asked_by="the test"
    )
    return (await stubs.erasure.ErasePerson(request)).audit


async def erase_identity(stubs: Stubs, identity: str = "ada", tenant: str = TENANT) -> erasure_pb2.Audit:
    request = erasure_pb2.EraseIdentityRequest(tenant=tenant, identity=identity, asked_by="the test")
    return (await stubs.erasure.EraseIdentity(request)).audit


async def erase_tenant(stubs: Stubs, tenant: str = TENANT) -> erasure_pb2.Audit:
    return (await stubs.erasure.EraseTenant(erasure_pb2.EraseTenantRequest(tenant=tenant, asked_by="the test"))).audit


def counts(audit: erasure_pb2.Audit) -> dict[str, int]:
    return {each.kind: each.objects for each in audit.counts}


async def rows(stack: Stack, tenant: str = TENANT) -> dict[str, int]:
    """The number of a tenant's rows by table, of those that have any."""
    tables = [table.name for table in TENANT_TABLES if table.name not in UNCOUNTED]
    query = "SELECT count(*) FROM {} WHERE tenant = '{}'"
    if stack.urls:
        async with connection(stack.urls.admin) as admin:
            kept = {name: int(await admin.fetchval(query.format(name, tenant))) for name in tables}
    else:
        with closing(sqlite3.connect(stack.folder / "memory.db")) as database:
            kept = {name: database.execute(query.format(name, tenant)).fetchone()[0] for name in tables}
    return {name: number for name, number in kept.items() if number}


@asynccontextmanager
async def connection(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    opened = await asyncpg.connect(url)
    try:
        yield opened
    finally:
        await opened.close()


async def blocked(admin: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Return when a session of the database waits for a lock."""
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
    async with asyncio.timeout(PATIENCE_S):
        while not await admin.fetchval(waits):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def media_away(stack: Stack, store: ObjectStore | None) -> AsyncIterator[None]:
    """Take the stack's object storage away."""
    if store and stack.bucket:
        await asyncio.to_thread(store.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(store.start)
        return
    media, aside = stack.folder / "media", stack.folder / "aside"
    media.rename(aside)
    try:
        yield
    finally:
        aside.rename(media)


async def traces(stack: Stack, marker: bytes) -> list[str]:
    """Find `marker` in the stack, in upper or lower case: files but the write-ahead log's, samples of columns."""
    folders, samples = [stack.folder], []
    if stack.urls:
        async with connection(stack.urls.admin) as admin:
            await admin.execute("VACUUM FULL")
            await admin.execute("CHECKPOINT")
            samples = await admin.fetch(SAMPLES, f"%{marker.decode(errors='ignore')}%")
            data = Path(cast("str", await admin.fetchval("SHOW data_directory")))
            number = await admin.fetchval("SELECT oid FROM pg_database WHERE datname = current_database()")
        folders.append(data / "base" / str(number))
    else:
        with closing(sqlite3.connect(stack.folder / "memory.db")) as database:
            assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    return [str(each["place"]) for each in samples] + await asyncio.to_thread(_traces, folders, marker)


async def traces_in(store: ObjectStore, marker: bytes) -> list[str]:
    """The files of an S3 server in which `marker` is; not those that it empties or rewrites some minutes later."""
    left = await asyncio.to_thread(_traces, [store.data], marker)
    return [path for path in left if isinstance(store, MinIo) and "/.minio.sys/tmp/.trash/" not in path]


def _traces(folders: list[Path], marker: bytes) -> list[str]:
    left: list[str] = []
    for path in [path for folder in folders for path in folder.rglob("*")]:
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue  # Deleted meanwhile.
        if marker.lower() in content.lower():
            left.append(str(path))
    return left
