"""The memory on the wire: recall and turns here, the other services of its contract in `wire/`."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import (
    erasure_pb2_grpc,
    exemplars_pb2_grpc,
    identities_pb2_grpc,
    memory_pb2_grpc,
    turns_pb2_grpc,
)
from e3rg.memory.v1 import memory_pb2 as pb
from emotions import Wheel
from services.memory.domain import ClipKind, Recalled, Turn
from services.memory.repositories.conversations import CLIP_BYTES_MAX
from services.memory.wire.convert import choice, received, sent
from services.memory.wire.desk import Desk, page_size
from services.memory.wire.erasure import ErasureServicer
from services.memory.wire.examples import ExampleServicer, sought_of
from services.memory.wire.identities import IdentityServicer
from services.memory.wire.turns import TurnServicer

SERVICES = tuple(f"e3rg.memory.v1.{name}Service" for name in ("Memory", "Identity", "Erasure", "Exemplar", "Turn"))
"""Full names of the services."""

TURNS_DEFAULT = 4
"""Turns that are recalled when the caller does not say how many."""

_KIND = pb.DESCRIPTOR.enum_types_by_name["ClipKind"]
_FILLED = ("said_at_s", "clips", "conversation")


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Serves recall and turns.

    Args:
        desk: Admits calls.
        wheel: The ontology, for the card.
    """

    def __init__(self, desk: Desk, wheel: Wheel) -> None:
        self._desk, self._memory, self._wheel = desk, desk.memory, wheel

    async def GetStore(self, request: pb.GetStoreRequest, context: Any) -> pb.GetStoreResponse:
        self._desk.check_open()
        embedding = self._memory.embedding
        card = common.ModelCard(
            backend=self._memory.backend,
            model=embedding.model,
            digest=embedding.digest,
            ontology_hash=self._wheel.digest,
        )
        return pb.GetStoreResponse(card=card, problem=self._memory.problem)

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        self._desk.check(request.tenant)
        turns_max = request.turns_max if request.HasField("turns_max") else TURNS_DEFAULT
        found = await self._memory.recaller.recall(
            request.tenant, request.identity, request.person, request.conversation, turns_max, tuple(request.uses)
        )
        others = {"person_generation": found.user_generation, "ontology_hash": self._wheel.digest}
        return sent(pb.RecallResponse, found, **others)

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        self._desk.check(request.tenant)
        found = await self._memory.conversations.search(
            request.tenant, request.identity, request.person, request.conversation, sought_of(request)
        )
        hits = [sent(pb.Hit, hit) for hit in found]
        return pb.SearchResponse(hits=hits, model_digest=self._memory.embedding.digest)

    async def Remember(self, request: pb.RememberRequest, context: Any) -> pb.RememberResponse:
        self._desk.check(request.tenant)
        for name in _FILLED:
            request.turn.ClearField(name)
        await self._memory.conversations.remember(
            request.tenant,
            request.identity,
            request.person,
            request.conversation,
            received(Turn, request.turn),
            Recalled(request.identity_generation, request.person_generation),
        )
        return pb.RememberResponse()

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Any) -> pb.ListTurnsResponse:
        self._desk.check(request.tenant)
        found, following = await self._memory.conversations.page(
            request.tenant,
            request.identity,
            request.person,
            request.conversation,
            page_size(request.page_size),
            request.page_token,
        )
        return pb.ListTurnsResponse(turns=[sent(pb.Turn, turn) for turn in found], next_page_token=following)

    async def PutClip(self, request_iterator: AsyncIterator[pb.PutClipRequest], context: Any) -> pb.PutClipResponse:
        header = await self._desk.header(request_iterator)
        kind = choice("header.kind", ClipKind, _KIND, header.kind)
        async with self._desk.file(request_iterator, header.size_bytes, CLIP_BYTES_MAX) as content:
            clip = await self._memory.conversations.put_clip(
                header.tenant, header.identity, header.person, header.conversation, header.turn, kind, content
            )
        return pb.PutClipResponse(clip=sent(pb.Clip, clip))

    async def PutTimings(self, request: pb.PutTimingsRequest, context: Any) -> pb.PutTimingsResponse:
        self._desk.check(request.tenant)
        await self._memory.conversations.put_timings(
            request.tenant,
            request.identity,
            request.person,
            request.conversation,
            request.turn,
            dict(request.timings_s),
        )
        return pb.PutTimingsResponse()

    async def GetClip(self, request: pb.GetClipRequest, context: Any) -> AsyncIterator[pb.GetClipResponse]:
        self._desk.check(request.tenant)
        reading = self._memory.conversations.clip(
            request.tenant,
            request.identity,
            request.person,
            request.conversation,
            request.turn,
            choice("kind", ClipKind, _KIND, request.kind),
        )
        async with aclosing(self._desk.sending(reading)) as parts:
            async for part in parts:
                yield pb.GetClipResponse(content=part)


def register(server: grpc.aio.Server, desk: Desk, wheel: Wheel) -> None:
    """Add all servicers to a server."""
    memory_pb2_grpc.add_MemoryServiceServicer_to_server(MemoryServicer(desk, wheel), server)
    identities_pb2_grpc.add_IdentityServiceServicer_to_server(IdentityServicer(desk), server)
    erasure_pb2_grpc.add_ErasureServiceServicer_to_server(ErasureServicer(desk), server)
    exemplars_pb2_grpc.add_ExemplarServiceServicer_to_server(ExampleServicer(desk), server)
    turns_pb2_grpc.add_TurnServiceServicer_to_server(TurnServicer(desk), server)
