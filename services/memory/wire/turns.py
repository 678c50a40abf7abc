"""Questions across conversations, on the wire."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from e3rg.memory.v1 import turns_pb2 as pb
from e3rg.memory.v1 import turns_pb2_grpc
from services.common.errors import InvalidRequest
from services.common.media import chunks
from services.memory.domain import Rating, TurnFilter
from services.memory.wire.convert import received, sent
from services.memory.wire.desk import Desk, page_size, present

_GROUPS = {
    pb.TURN_GROUP_USER_EMOTION: "user_emotion",
    pb.TURN_GROUP_REPLY_EMOTION: "reply_emotion",
    pb.TURN_GROUP_VARIANT: "variant",
}


class TurnServicer(turns_pb2_grpc.TurnServiceServicer):
    """Serves questions across conversations."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._research = desk, desk.memory.research

    async def ListUsers(self, request: pb.ListUsersRequest, context: Any) -> pb.ListUsersResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        found, following = await self._research.users(request.tenant, request.identity, size, request.page_token)
        return pb.ListUsersResponse(users=[sent(pb.User, each) for each in found], next_page_token=following)

    async def ListConversations(
        self, request: pb.ListConversationsRequest, context: Any
    ) -> pb.ListConversationsResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        found, following = await self._research.conversations(
            request.tenant, request.identity, request.user, size, request.page_token
        )
        return pb.ListConversationsResponse(
            conversations=[sent(pb.Conversation, each) for each in found], next_page_token=following
        )

    async def QueryTurns(self, request: pb.QueryTurnsRequest, context: Any) -> pb.QueryTurnsResponse:
        self._desk.check(request.tenant)
        if request.order not in pb.TurnOrder.values():
            raise InvalidRequest("order", f"{request.order} is unknown; use one of: {', '.join(pb.TurnOrder.keys())}")
        wanted, size = received(TurnFilter, request.filter), page_size(request.page_size)
        is_newest_first = request.order != pb.TURN_ORDER_OLDEST_FIRST
        found, following = await self._research.turns(request.tenant, wanted, is_newest_first, size, request.page_token)
        return pb.QueryTurnsResponse(turns=[sent(pb.TurnRecord, each) for each in found], next_page_token=following)

    async def CountTurns(self, request: pb.CountTurnsRequest, context: Any) -> pb.CountTurnsResponse:
        self._desk.check(request.tenant)
        if request.group not in _GROUPS:
            known = ", ".join(pb.TurnGroup.Name(each) for each in _GROUPS)
            raise InvalidRequest("group", f"{request.group} is unknown; use one of: {known}")
        wanted = received(TurnFilter, request.filter)
        found = await self._research.counts(request.tenant, wanted, _GROUPS[request.group], request.bucket_s)
        return pb.CountTurnsResponse(counts=[sent(pb.TurnCount, each) for each in found])

    async def RateTurn(self, request: pb.RateTurnRequest, context: Any) -> pb.RateTurnResponse:
        self._desk.check(request.tenant)
        present(request, "rating", "rating")
        rated = await self._research.rate(
            request.tenant,
            request.identity,
            request.user,
            request.conversation,
            request.turn,
            received(Rating, request.rating),
        )
        return pb.RateTurnResponse(rating=sent(pb.Rating, rated))

    async def ExportTurns(self, request: pb.ExportTurnsRequest, context: Any) -> AsyncIterator[pb.ExportTurnsResponse]:
        self._desk.check(request.tenant)
        exporting = self._research.export(request.tenant, received(TurnFilter, request.filter))
        async with aclosing(exporting) as parts:
            async for part in parts:
                for chunk in chunks(part):
                    yield pb.ExportTurnsResponse(content=chunk)
