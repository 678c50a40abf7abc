"""Examples on the wire."""

from typing import Any

from e3rg.memory.v1 import exemplars_pb2 as pb
from e3rg.memory.v1 import exemplars_pb2_grpc
from services.memory.domain import Example, Sought
from services.memory.wire.convert import received, sent
from services.memory.wire.desk import Desk, page_size

HITS_DEFAULT = 4
"""Hits when the caller does not say how many."""


class ExampleServicer(exemplars_pb2_grpc.ExemplarServiceServicer):
    """Serves examples."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._memory = desk, desk.memory

    async def PutExemplars(self, request: pb.PutExemplarsRequest, context: Any) -> pb.PutExemplarsResponse:
        self._desk.check(request.tenant)
        new = [received(Example, each) for each in request.exemplars]
        return pb.PutExemplarsResponse(ids=await self._memory.examples.put(request.tenant, request.identity, new))

    async def ListExemplars(self, request: pb.ListExemplarsRequest, context: Any) -> pb.ListExemplarsResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        found, following = await self._memory.examples.page(request.tenant, request.identity, size, request.page_token)
        return pb.ListExemplarsResponse(
            exemplars=[sent(pb.Exemplar, each) for each in found], next_page_token=following
        )

    async def SearchExemplars(self, request: pb.SearchExemplarsRequest, context: Any) -> pb.SearchExemplarsResponse:
        self._desk.check(request.tenant)
        found = await self._memory.examples.search(request.tenant, request.identity, sought_of(request))
        hits = [pb.ExemplarHit(exemplar=sent(pb.Exemplar, hit.example), similarity=hit.similarity) for hit in found]
        return pb.SearchExemplarsResponse(hits=hits, model_digest=self._memory.embedding.digest)

    async def RemoveExemplars(self, request: pb.RemoveExemplarsRequest, context: Any) -> pb.RemoveExemplarsResponse:
        self._desk.check(request.tenant)
        removed = await self._memory.examples.remove(request.tenant, request.identity, tuple(request.ids))
        return pb.RemoveExemplarsResponse(exemplars=removed)


def sought_of(request: Any) -> Sought:
    """Return what a request searches for."""
    sought = received(Sought, request)
    return sought if request.HasField("hits_max") else Sought(**{**vars(sought), "hits_max": HITS_DEFAULT})
