"""Client of the memory for a turn.

Every method raises the `ServiceError` that the memory had, also for a failure of its own; failures to reach it name it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import grpc

from e3rg.memory.v1 import (
    identities_pb2,
    identities_pb2_grpc,
    memory_pb2_grpc,
)
from e3rg.memory.v1 import memory_pb2 as pb
from orchestrator.stages import CARD_TIMEOUT_S
from services.common import clients
from services.common.caches import LastUsed
from services.common.errors import Damaged, NotFound, ServiceError
from services.common.media import chunks

if TYPE_CHECKING:  # these exist in the stubs only
    from e3rg.memory.v1.identities_pb2_grpc import IdentityServiceAsyncStub
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub

log = logging.getLogger(__name__)

MEMORY_TIMEOUT_S = 5.0
DERIVED_TIMEOUT_S = 1.0
"""The first sound waits for what was derived; it can be derived again, which takes about as long."""
DERIVED_KEEP_S = 3600.0
"""Age at which derived data is read again, though it is used all the time."""
REFERENCES_BYTES_MAX = 128 << 20
"""Room for the references of the identities used last, and what was derived from them; one may have 16 MiB."""
REFERENCES_KEEP_S = 60.0
"""TTL of a cached reference, or of what was derived, after its last use. Whoever erases an identity is told when no
replica holds any of it any more (`Audit.caches_gone_by_s`): the memory counts this in."""


@dataclass(frozen=True)
class _Key:
    """A file of one version of an identity, or what a model derived from files of it in this hour."""

    tenant: str
    identity: str
    generation: str
    version: int
    digests: tuple[str, ...]
    model_digest: str = ""
    hour: int = 0


class Memory:
    """Identities and turns.

    The references of the identities used last, and what was derived from them, are kept here for `keep_s` after their
    last use, also when nobody asks again, and until it turns out that their identity was changed or erased. What was
    derived is asked for again each hour of `clock`, in seconds: its retention may have ended.
    """

    def __init__(
        self, channel: grpc.aio.Channel, keep_s: float = REFERENCES_KEEP_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.channel = channel
        self._stub = cast("MemoryServiceAsyncStub", memory_pb2_grpc.MemoryServiceStub(channel))
        self._identities = cast("IdentityServiceAsyncStub", identities_pb2_grpc.IdentityServiceStub(channel))
        self._references: LastUsed[_Key, bytes] = LastUsed(REFERENCES_BYTES_MAX, len, keep_s)
        self._clock = clock
        self._sweeping: asyncio.TimerHandle | None = None

    async def recall(self, request: pb.RecallRequest) -> pb.RecallResponse:
        """Recalls an identity and the last turns; what is kept here of another state of it is dropped."""
        try:
            async with calling():
                recalled = await self._stub.Recall(request, **clients.options(MEMORY_TIMEOUT_S))
        except NotFound:
            self.forget(request.tenant, request.identity)
            raise
        now = (recalled.identity.generation, recalled.identity.version)
        mine = (request.tenant, request.identity)
        self._references.forget(lambda key: (key.tenant, key.identity) == mine and (key.generation, key.version) != now)
        return recalled

    def forget(self, tenant: str, identity: str) -> None:
        """Drops what is kept here of an identity."""
        self._references.forget(lambda key: (key.tenant, key.identity) == (tenant, identity))

    async def reference(self, tenant: str, identity: identities_pb2.Identity, digest: str) -> bytes:
        """Reads a file of an identity."""
        key = _key(tenant, identity, [digest])
        if (found := self._references.find(key)) is not None:
            return found
        request = identities_pb2.GetReferenceRequest(tenant=tenant, identity=identity.id, digest=digest)
        content = bytearray()
        async with calling():
            call = self._identities.GetReference(request, **clients.options(MEMORY_TIMEOUT_S))
            async with aclosing(clients.responses(call)) as parts:
                async for part in parts:
                    content += part.content
        return self._store(key, bytes(content))

    @property
    def kept(self) -> bool:
        """Tell whether any reference, or anything derived, is kept here."""
        return len(self._references) > 0

    def _store(self, key: _Key, content: bytes) -> bytes:
        """Keeps a content, unless there is one, and returns the one that is kept."""
        kept = self._references.get(key, lambda: content)
        if self._sweeping is None:
            self._sweep()
        return kept

    def _sweep(self) -> None:
        """Drops what was not used for long, now and whenever there is more of it."""
        next_s = self._references.drop_unused()
        self._sweeping = None if next_s is None else asyncio.get_running_loop().call_later(next_s, self._sweep)

    async def derived(
        self, tenant: str, identity: identities_pb2.Identity, digests: Sequence[str], model_digest: str
    ) -> bytes:
        """Reads what a model derived from files of an identity; empty when it is not there in time: derive it again."""
        key = self._derived_key(tenant, identity, digests, model_digest)
        if (found := self._references.find(key)) is not None:
            return found
        request = identities_pb2.GetDerivedRequest(
            tenant=tenant, identity=identity.id, reference_digests=digests, model_digest=model_digest
        )
        content = bytearray()
        try:
            async with calling():
                call = self._identities.GetDerived(request, **clients.options(DERIVED_TIMEOUT_S))
                async with aclosing(clients.responses(call)) as parts:
                    async for part in parts:
                        content += part.content
        except Damaged as error:
            why = {"identity": identity.id, "why": str(error)}
            log.warning("what was derived is damaged, and derived again where it is needed", extra=why)
            return b""
        except ServiceError as error:
            log.info("it will be derived", extra={"identity": identity.id, "why": str(error)})
            return b""
        return self._store(key, bytes(content)) if content else b""

    async def keep_derived(
        self,
        tenant: str,
        identity: identities_pb2.Identity,
        digests: Sequence[str],
        model_digest: str,
        content: bytes,
    ) -> None:
        """Keeps what a model derived from files of an identity; a failure is logged only."""
        header = identities_pb2.PutDerivedHeader(
            tenant=tenant,
            identity=identity.id,
            reference_digests=digests,
            model_digest=model_digest,
            size_bytes=len(content),
        )

        async def parts() -> AsyncIterator[identities_pb2.PutDerivedRequest]:
            yield identities_pb2.PutDerivedRequest(header=header)
            for piece in chunks(content):
                yield identities_pb2.PutDerivedRequest(content=piece)

        try:
            async with calling():
                await clients.ask_any(self._identities.PutDerived, parts(), clients.options(MEMORY_TIMEOUT_S))
        except ServiceError as error:
            log.warning("what was derived is not kept", extra={"identity": identity.id, "why": str(error)})
            return
        key = self._derived_key(tenant, identity, digests, model_digest)
        self._references.forget(lambda other: other == key)
        self._store(key, content)

    def _derived_key(
        self, tenant: str, identity: identities_pb2.Identity, digests: Sequence[str], model_digest: str
    ) -> _Key:
        return replace(
            _key(tenant, identity, digests), model_digest=model_digest, hour=int(self._clock() // DERIVED_KEEP_S)
        )

    async def search(self, request: pb.SearchRequest) -> pb.SearchResponse:
        """Finds past turns that are like a text, and examples of answers to such."""
        async with calling():
            return await self._stub.Search(request, **clients.options(MEMORY_TIMEOUT_S))

    async def remember(self, request: pb.RememberRequest, timeout_s: float) -> None:
        """Keeps a turn."""
        async with calling():
            await self._stub.Remember(request, **clients.options(min(timeout_s, MEMORY_TIMEOUT_S)))

    async def raise_risk(self, request: pb.RaiseRiskRequest) -> None:
        """Keeps that a conversation raised a risk."""
        async with calling():
            await self._stub.RaiseRisk(request, **clients.options(MEMORY_TIMEOUT_S))

    async def keep_clip(self, header: pb.PutClipHeader, content: bytes, timeout_s: float) -> None:
        """Keeps the speech or the video of a turn."""

        async def parts() -> AsyncIterator[pb.PutClipRequest]:
            yield pb.PutClipRequest(header=header)
            for piece in chunks(content):
                yield pb.PutClipRequest(content=piece)

        async with calling():
            await clients.ask_any(self._stub.PutClip, parts(), clients.options(timeout_s))

    async def keep_timings(self, request: pb.PutTimingsRequest, timeout_s: float) -> None:
        """Keeps how long the stages of a turn took."""
        async with calling():
            await self._stub.PutTimings(request, **clients.options(min(timeout_s, MEMORY_TIMEOUT_S)))

    async def store(self) -> pb.GetStoreResponse:
        """Tells which store it is."""
        async with calling():
            return await self._stub.GetStore(pb.GetStoreRequest(), **clients.options(CARD_TIMEOUT_S))


def _key(tenant: str, identity: identities_pb2.Identity, digests: Sequence[str]) -> _Key:
    return _Key(tenant, identity.id, identity.generation, identity.version, tuple(digests))


@asynccontextmanager
async def calling() -> AsyncIterator[None]:
    """Turns a failed call within the block into the error that the memory had, also one within it."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.INTERNAL:
            # What the memory says of a failure of its own is written for callers: it names a damaged object.
            raise Damaged(f"memory: {error.details()}") from error
        raise clients.translate(error, "memory") from error
