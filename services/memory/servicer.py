"""The memory on the wire: what was said here, the other services of its contract in `wire/`."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc

from e3rg.common.v1 import common_pb2 as common
from e3rg.memory.v1 import erasure_pb2_grpc, exemplars_pb2_grpc, identities_pb2_grpc, memory_pb2_grpc
from e3rg.memory.v1 import memory_pb2 as pb
from emotions import Wheel
from services.memory.domain import Recalled
from services.memory.talks.clips import CLIP_BYTES_MAX
from services.memory.wire import sayings
from services.memory.wire.desk import Desk, page_size
from services.memory.wire.erasure import ErasureServicer
from services.memory.wire.exemplars import ExemplarServicer
from services.memory.wire.identities import IdentityServicer
from services.memory.wire.messages import sent_bank, sent_identity

SERVICES = tuple(
    f"e3rg.memory.v1.{name}" for name in ("MemoryService", "IdentityService", "ErasureService", "ExemplarService")
)
"""Full names of the services."""

TURNS_DEFAULT = 4
"""Turns that are recalled when the caller does not say how many."""


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Serves what was said to the identities of a memory.

    Args:
        name: Name of the store's back-end.
        desk: Where calls come in.
        wheel: The emotion wheel, for the store's card.
    """

    def __init__(self, name: str, desk: Desk, wheel: Wheel) -> None:
        self._name = name
        self._desk = desk
        self._memory = desk.memory
        self._wheel = wheel

    async def GetStore(self, request: pb.GetStoreRequest, context: Any) -> pb.GetStoreResponse:
        self._desk.check_open()
        embedding = self._memory.embedding
        card = common.ModelCard(
            backend=self._name, model=embedding.model, digest=embedding.digest, ontology_hash=self._wheel.digest
        )
        return pb.GetStoreResponse(card=card, problem=self._memory.store_problem)

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        self._desk.check(request.tenant)
        turns_max = request.turns_max if request.HasField("turns_max") else TURNS_DEFAULT
        found = await self._desk.store.run(
            lambda: self._memory.recall(
                request.tenant,
                request.identity,
                request.person,
                request.conversation,
                turns_max,
                tuple(request.uses),
            )
        )
        return pb.RecallResponse(
            identity=sent_identity(found.identity),
            emotion_bank=sent_bank(found.emotion_bank),
            turns=[sayings.sent_turn(turn) for turn in found.turns],
            ontology_hash=self._wheel.digest,
            trajectory=sayings.sent_trajectory(found.trajectory),
            stale_s=found.stale_s,
            person_generation=found.person_generation,
            damaged=found.damaged,
        )

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        self._desk.check(request.tenant)
        sought = sayings.sought_of(request)
        hits = await self._desk.meaning.run(
            lambda: self._memory.talks.search(
                request.tenant, request.identity, request.person, request.conversation, sought
            )
        )
        return pb.SearchResponse(
            hits=[sayings.sent_hit(hit) for hit in hits], model_digest=self._memory.embedding.digest
        )

    async def Remember(self, request: pb.RememberRequest, context: Any) -> pb.RememberResponse:
        self._desk.check(request.tenant)
        turn = sayings.turn_of(request.turn)
        recalled = Recalled(request.identity_generation, request.person_generation)
        await self._desk.meaning.run(
            lambda: self._memory.talks.remember(
                request.tenant, request.identity, request.person, request.conversation, turn, recalled
            )
        )
        return pb.RememberResponse()

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Any) -> pb.ListTurnsResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        page = await self._desk.store.run(
            lambda: self._memory.talks.turns(
                request.tenant, request.identity, request.person, request.conversation, size, request.page_token
            )
        )
        return pb.ListTurnsResponse(
            turns=[sayings.sent_turn(turn) for turn in page.turns],
            next_page_token=page.following,
            damaged=page.damaged,
        )

    async def PutClip(self, request_iterator: AsyncIterator[pb.PutClipRequest], context: Any) -> pb.PutClipResponse:
        header: pb.PutClipHeader = await self._desk.header(request_iterator)
        kind = sayings.kind_of("header.kind", header.kind)
        async with self._desk.file(request_iterator, header.size_bytes, CLIP_BYTES_MAX) as content:
            clip = await self._desk.store.run(
                lambda: self._memory.talks.put_clip(
                    header.tenant, header.identity, header.person, header.conversation, header.turn, kind, content
                )
            )
        return pb.PutClipResponse(clip=sayings.sent_clip(clip))

    async def PutTimings(self, request: pb.PutTimingsRequest, context: Any) -> pb.PutTimingsResponse:
        self._desk.check(request.tenant)
        timings_s = dict(request.timings_s)
        await self._desk.store.run(
            lambda: self._memory.talks.put_timings(
                request.tenant, request.identity, request.person, request.conversation, request.turn, timings_s
            )
        )
        return pb.PutTimingsResponse()

    async def GetClip(self, request: pb.GetClipRequest, context: Any) -> AsyncIterator[pb.GetClipResponse]:
        self._desk.check(request.tenant)
        kind = sayings.kind_of("kind", request.kind)
        pieces = self._desk.sending(
            lambda: self._memory.talks.clip(
                request.tenant, request.identity, request.person, request.conversation, request.turn, kind
            )
        )
        async with aclosing(pieces):
            async for piece in pieces:
                yield pb.GetClipResponse(content=piece)


def register(server: grpc.aio.Server, name: str, desk: Desk, wheel: Wheel) -> None:
    """Adds all servicers to a server.

    Args:
        server: Which.
        name: Name of the store's back-end.
        desk: Where calls come in.
        wheel: The emotion wheel.
    """
    memory_pb2_grpc.add_MemoryServiceServicer_to_server(MemoryServicer(name, desk, wheel), server)
    identities_pb2_grpc.add_IdentityServiceServicer_to_server(IdentityServicer(desk), server)
    erasure_pb2_grpc.add_ErasureServiceServicer_to_server(ErasureServicer(desk), server)
    exemplars_pb2_grpc.add_ExemplarServiceServicer_to_server(ExemplarServicer(desk), server)
