"""A gateway over the real memory, which keeps in SQLite and a folder; there is an identity in it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Table, select

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from emotions import Wheel
from services.memory.memory import Memory
from services.memory.schema import metadata, tenants
from services.memory.servicer import Servicer
from services.memory.settings import MemorySettings
from services.memory.upkeep import Upkeep
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, deployed
from tests.fakes import PATIENCE_S
from tests.serving import Served, serving
from tests.support.memory import Stubs, WordEmbedder
from tests.turns import Turn, header, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

TENANT = "acme"
TALK: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "person": "bob", "conversation": "talk"}


@dataclass
class Door:
    """The gateway, and the memory behind it: `memory` through the gateway, `beside` past it."""

    stub: "Stub"
    memory: Stubs
    beside: Stubs
    inside: Memory
    folder: Path
    cast: Cast

    async def say(self, text: str, **fields: Any) -> Turn:
        return await respond(self.stub, header(text, **{**TALK, "output": pb.OUTPUT_TEXT, **fields}))

    async def added(self) -> identities.Identity:
        return (await self.memory.identities.AddIdentity(iter(addition()), timeout=20)).identity

    async def exported(self) -> bytes:
        request = identities.ExportIdentityRequest(tenant=TENANT, identity="ada")
        return b"".join([part.content async for part in self.memory.identities.ExportIdentity(request)])

    async def imported(self, archive: bytes, name: str = "", piece_bytes: int = 1 << 20) -> identities.Identity:
        """Imports an archive as an identity of another tenant."""
        header = identities.ImportIdentityHeader(tenant="other", identity=name)
        pieces = (archive[start : start + piece_bytes] for start in range(0, len(archive), piece_bytes))
        parts = [identities.ImportIdentityRequest(content=piece) for piece in pieces]
        request = iter([identities.ImportIdentityRequest(header=header), *parts])
        return (await self.memory.identities.ImportIdentity(request, timeout=20)).identity

    async def rows(self, table: Table) -> list[dict[str, Any]]:
        """All rows of a table of the memory, of all tenants."""
        return [row._asdict() for row in await self.inside.storage.rows("", select(table))]

    @property
    def objects(self) -> dict[str, bytes]:
        """Objects in the memory's storage, by key, but the records of erasures and the mark."""
        media = self.folder / "media"
        found = {path.relative_to(media).as_posix(): path.read_bytes() for path in media.rglob("*") if path.is_file()}
        return {key: content for key, content in found.items() if not key.startswith(("erasures/", "store"))}

    async def kept(self) -> dict[str, Any]:
        """All rows, but those of tenants, which are made with the first call, and all objects."""
        tables = [table for table in metadata.sorted_tables if table is not tenants]
        return {table.name: await self.rows(table) for table in tables} | self.objects

    async def unchanged(self, before: dict[str, Any]) -> None:
        """Returns when the memory has what it had before: it takes back what was cancelled after the caller heard."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.kept() != before:
                pass

    async def damage(self, table: Table) -> list[str]:
        """Flips a bit of each object that a row of the table names; returns their keys."""
        keys = [row["key"] for row in await self.rows(table)]
        for key in keys:
            content = self.objects[key]
            (self.folder / "media" / key).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        return keys

    async def take_away(self) -> None:
        """Takes database and objects away from the memory, as an unmounted volume is."""
        await self.inside.storage.database.close()  # A file that is open stays readable.
        self.folder.rename(self.folder.with_name("unmounted"))


@asynccontextmanager
async def opened(acting: Cast | None = None) -> AsyncIterator[Door]:
    """Serves all services in this process."""
    acting = acting or Cast()
    with TemporaryDirectory(prefix="test-memory-") as folder:
        key_file = Path(folder) / "key"
        key_file.write_bytes(b"a key for pseudonyms")
        settings = MemorySettings(folder=Path(folder) / "memory", pseudonym_key_file=key_file)
        memory = Memory(settings, WordEmbedder())
        acting.serving_memory = lambda wheel: _serving(settings, memory, wheel)
        async with deployed(acting) as deployment:
            channel = deployment.served["orchestrator"].channel
            stub = cast("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))
            beside = Stubs(deployment.served["memory"].channel)
            door = Door(stub, Stubs(channel), beside, memory, settings.folder, acting)
            await door.added()
            yield door


@asynccontextmanager
async def _serving(settings: MemorySettings, memory: Memory, wheel: Wheel) -> AsyncIterator[Served]:
    upkeep = Upkeep(settings, memory)
    try:
        await upkeep.open_once()
        async with serving("e3rg.memory.v1.MemoryService", Servicer(memory, upkeep.check_open).register) as served:
            yield served
    finally:
        await memory.close()


def addition() -> list[identities.AddIdentityRequest]:
    files = ((identities.REFERENCE_KIND_PORTRAIT, PORTRAIT), (identities.REFERENCE_KIND_VOICE, VOICE))
    head = identities.AddIdentityHeader(
        tenant=TENANT,
        id="ada",
        profile=common.Profile(name="Ada", age="young", gender="female", timbre="mid", language="en"),
        grants=[identities.Grant(use=use, granted_by="the test", granted_on="2026-01-31") for use in ALL_USES],
        references=[identities.NewReference(kind=kind, size_bytes=len(content)) for kind, content in files],
    )
    parts = [identities.AddIdentityRequest(content=content) for _, content in files]
    return [identities.AddIdentityRequest(header=head), *parts]
