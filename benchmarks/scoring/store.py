"""Kept turns, clips and scores in a deployment's memory."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import grpc

from e3rg.memory.v1 import identities_pb2, identities_pb2_grpc, memory_pb2, memory_pb2_grpc, turns_pb2, turns_pb2_grpc
from services.common import clients

if TYPE_CHECKING:  # they exist in the stubs only
    from e3rg.memory.v1.identities_pb2_grpc import IdentityServiceAsyncStub
    from e3rg.memory.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from e3rg.memory.v1.turns_pb2_grpc import TurnServiceAsyncStub

TIMEOUT_S = 60.0
PAGE_SIZE = 200


class Store:
    """The memory, as the job calls it. Every method raises the `ServiceError` that the memory had.

    Args:
        channel: To the memory itself: a gateway refuses scores.
        tenant: Whose turns.
    """

    def __init__(self, channel: grpc.aio.Channel, tenant: str) -> None:
        self.tenant = tenant
        self._turns = cast("TurnServiceAsyncStub", turns_pb2_grpc.TurnServiceStub(channel))
        self._memory = cast("MemoryServiceAsyncStub", memory_pb2_grpc.MemoryServiceStub(channel))
        self._identities = cast("IdentityServiceAsyncStub", identities_pb2_grpc.IdentityServiceStub(channel))

    async def turns(self, wanted: turns_pb2.TurnFilter) -> AsyncIterator[turns_pb2.TurnRecord]:
        """Yield turns, oldest first."""
        order, token = turns_pb2.TURN_ORDER_OLDEST_FIRST, ""
        while True:
            request = turns_pb2.QueryTurnsRequest(
                tenant=self.tenant, filter=wanted, order=order, page_size=PAGE_SIZE, page_token=token
            )
            async with clients.calling("memory"):
                page = await self._turns.QueryTurns(request, **clients.options(TIMEOUT_S))
            for record in page.turns:
                yield record
            if not (token := page.next_page_token):
                return

    async def clip(self, record: turns_pb2.TurnRecord, kind: memory_pb2.ClipKind) -> bytes:
        """Return the speech or the video of a turn."""
        request = memory_pb2.GetClipRequest(
            tenant=self.tenant,
            identity=record.identity,
            person=record.user,
            conversation=record.turn.conversation,
            turn=record.turn.id,
            kind=kind,
        )
        return await self._content(self._memory.GetClip(request, **clients.options(TIMEOUT_S)))

    async def portrait(self, identity: str) -> bytes:
        """Return the face of an identity: its first portrait."""
        request = identities_pb2.GetIdentityRequest(tenant=self.tenant, identity=identity)
        async with clients.calling("memory"):
            found = (await self._identities.GetIdentity(request, **clients.options(TIMEOUT_S))).identity
        portrait = identities_pb2.REFERENCE_KIND_PORTRAIT
        digest = next(file.digest for file in found.references if file.kind == portrait)
        asked = identities_pb2.GetReferenceRequest(tenant=self.tenant, identity=identity, digest=digest)
        return await self._content(self._identities.GetReference(asked, **clients.options(TIMEOUT_S)))

    async def put(self, record: turns_pb2.TurnRecord, scores: Mapping[str, float]) -> None:
        """Keep scores of a turn."""
        request = turns_pb2.PutScoresRequest(
            tenant=self.tenant,
            identity=record.identity,
            user=record.user,
            conversation=record.turn.conversation,
            turn=record.turn.id,
            scores=scores,
        )
        async with clients.calling("memory"):
            await self._turns.PutScores(request, **clients.options(TIMEOUT_S))

    async def _content(self, call: Any) -> bytes:
        async with clients.calling("memory"), aclosing(clients.responses(call)) as parts:
            return b"".join([part.content async for part in parts])
