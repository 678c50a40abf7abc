"""Forgetting, on the wire."""

from typing import Any

from e3rg.memory.v1 import erasure_pb2 as pb
from e3rg.memory.v1 import erasure_pb2_grpc
from services.memory.wire import messages
from services.memory.wire.desk import Desk, page_size, present


class ErasureServicer(erasure_pb2_grpc.ErasureServiceServicer):
    """Serves what makes a memory forget.

    Args:
        desk: Where calls come in.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._memory = desk.memory

    async def SetRetention(self, request: pb.SetRetentionRequest, context: Any) -> pb.SetRetentionResponse:
        self._desk.check(request.tenant)
        present(request, "retention", "retention")
        retention = messages.retention_of(request.retention)
        await self._desk.store.run(lambda: self._memory.retentions.set(request.tenant, retention))
        return pb.SetRetentionResponse()

    async def GetRetention(self, request: pb.GetRetentionRequest, context: Any) -> pb.GetRetentionResponse:
        self._desk.check(request.tenant)
        retention = await self._desk.store.run(lambda: self._memory.retentions.get(request.tenant))
        return pb.GetRetentionResponse(retention=messages.sent_retention(retention))

    async def EraseIdentity(self, request: pb.EraseIdentityRequest, context: Any) -> pb.EraseIdentityResponse:
        self._desk.check(request.tenant)
        audit = await self._desk.archives.run(
            lambda: self._memory.eraser.identity(request.tenant, request.identity, request.asked_by)
        )
        return pb.EraseIdentityResponse(audit=messages.sent_audit(audit))

    async def ErasePerson(self, request: pb.ErasePersonRequest, context: Any) -> pb.ErasePersonResponse:
        self._desk.check(request.tenant)
        audit = await self._desk.archives.run(
            lambda: self._memory.eraser.person(request.tenant, request.person, request.conversation, request.asked_by)
        )
        return pb.ErasePersonResponse(audit=messages.sent_audit(audit))

    async def ListAudits(self, request: pb.ListAuditsRequest, context: Any) -> pb.ListAuditsResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        audits, following = await self._desk.store.run(
            lambda: self._memory.audits.list(request.tenant, size, request.page_token)
        )
        return pb.ListAuditsResponse(audits=[messages.sent_audit(audit) for audit in audits], next_page_token=following)
