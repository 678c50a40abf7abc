"""Retention and erasure on the wire."""

from typing import Any

from e3rg.memory.v1 import erasure_pb2 as pb
from e3rg.memory.v1 import erasure_pb2_grpc
from services.memory.domain import Retention
from services.memory.wire.convert import received, sent
from services.memory.wire.desk import Desk, page_size, present


class ErasureServicer(erasure_pb2_grpc.ErasureServiceServicer):
    """Serves retention and erasure."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._memory = desk, desk.memory

    async def SetRetention(self, request: pb.SetRetentionRequest, context: Any) -> pb.SetRetentionResponse:
        self._desk.check(request.tenant)
        present(request, "retention", "retention")
        await self._memory.retentions.set(request.tenant, received(Retention, request.retention))
        return pb.SetRetentionResponse()

    async def GetRetention(self, request: pb.GetRetentionRequest, context: Any) -> pb.GetRetentionResponse:
        self._desk.check(request.tenant)
        found = await self._memory.retentions.get(request.tenant)
        return pb.GetRetentionResponse(retention=sent(pb.Retention, found))

    async def EraseIdentity(self, request: pb.EraseIdentityRequest, context: Any) -> pb.EraseIdentityResponse:
        self._desk.check(request.tenant)
        audit = await self._memory.erasure.identity(request.tenant, request.identity, request.asked_by)
        return pb.EraseIdentityResponse(audit=sent(pb.Audit, audit))

    async def ErasePerson(self, request: pb.ErasePersonRequest, context: Any) -> pb.ErasePersonResponse:
        self._desk.check(request.tenant)
        audit = await self._memory.erasure.user(request.tenant, request.person, request.conversation, request.asked_by)
        return pb.ErasePersonResponse(audit=sent(pb.Audit, audit))

    async def EraseTenant(self, request: pb.EraseTenantRequest, context: Any) -> pb.EraseTenantResponse:
        self._desk.check(request.tenant)
        audit = await self._memory.erasure.tenant(request.tenant, request.asked_by)
        return pb.EraseTenantResponse(audit=sent(pb.Audit, audit))

    async def ListAudits(self, request: pb.ListAuditsRequest, context: Any) -> pb.ListAuditsResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        found, following = await self._memory.erasure.page(request.tenant, size, request.page_token)
        return pb.ListAuditsResponse(audits=[sent(pb.Audit, each) for each in found], next_page_token=following)
