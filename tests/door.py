"""A door over the real memory, which keeps in a fake store; there is an identity in it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import identities_pb2 as identities
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from emotions import Wheel
from services.memory.servicer import register
from services.memory.wire.desk import Desk
from tests.deployment import ALL_USES, PORTRAIT, VOICE, Cast, deployed
from tests.fake_store import FakeStore
from tests.memory_service import Stubs, memory_over, queues
from tests.serving import Served, serving
from tests.turns import Turn, header, respond

if TYPE_CHECKING:
    from e3rg.orchestrator.v1.orchestrator_pb2_grpc import OrchestratorServiceAsyncStub as Stub

TENANT = "acme"
TALK: dict[str, Any] = {"tenant": TENANT, "identity": "ada", "person": "bob", "conversation": "talk"}


@dataclass
class Door:
    """The door, and what the memory has in its store."""

    stub: "Stub"
    memory: Stubs
    store: FakeStore
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


@asynccontextmanager
async def opened() -> AsyncIterator[Door]:
    """Serves all services in this process."""
    acting, store = Cast(), FakeStore()
    acting.serving_memory = lambda wheel: _serving(store, wheel)
    async with deployed(acting) as deployment:
        channel = deployment.served["orchestrator"].channel
        stub = cast("Stub", orchestrator_pb2_grpc.OrchestratorServiceStub(channel))
        door = Door(stub, Stubs(channel), store, acting)
        await door.added()
        yield door


@asynccontextmanager
async def _serving(store: FakeStore, wheel: Wheel) -> AsyncIterator[Served]:
    threads = queues()
    desk = Desk(memory_over(store), threads, None)
    async with serving("e3rg.memory.v1.MemoryService", lambda server: register(server, "fake", desk, wheel)) as served:
        yield served
    await asyncio.to_thread(threads.close)


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
