"""Examples of answers, on the wire."""

from typing import Any

from e3rg.memory.v1 import exemplars_pb2 as pb
from e3rg.memory.v1 import exemplars_pb2_grpc
from services.memory.domain import Sought
from services.memory.talks.turn_checks import check_sought
from services.memory.wire import sayings
from services.memory.wire.desk import Desk, page_size


class ExemplarServicer(exemplars_pb2_grpc.ExemplarServiceServicer):
    """Serves the examples of a memory.

    Args:
        desk: Where calls come in.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._exemplars = desk.memory.exemplars

    async def PutExemplars(self, request: pb.PutExemplarsRequest, context: Any) -> pb.PutExemplarsResponse:
        self._desk.check(request.tenant)
        exemplars = [sayings.exemplar_of(exemplar) for exemplar in request.exemplars]
        ids = await self._desk.meaning.run(lambda: self._exemplars.put(request.tenant, request.identity, exemplars))
        return pb.PutExemplarsResponse(ids=ids)

    async def ListExemplars(self, request: pb.ListExemplarsRequest, context: Any) -> pb.ListExemplarsResponse:
        self._desk.check(request.tenant)
        size = page_size(request.page_size)
        found, following = await self._desk.store.run(
            lambda: self._exemplars.list(request.tenant, request.identity, size, request.page_token)
        )
        return pb.ListExemplarsResponse(
            exemplars=[sayings.sent_exemplar(exemplar) for exemplar in found],
            next_page_token=following,
        )

    async def SearchExemplars(self, request: pb.SearchExemplarsRequest, context: Any) -> pb.SearchExemplarsResponse:
        self._desk.check(request.tenant)
        hits_max = request.hits_max if request.HasField("hits_max") else sayings.HITS_DEFAULT
        sought = Sought(request.text, hits_max, request.similarity_min, user_emotions=frozenset(request.user_emotions))
        check_sought(sought)
        hits = await self._desk.meaning.run(
            lambda: self._exemplars.search(
                request.tenant,
                request.identity,
                sought.text,
                sought.hits_max,
                sought.similarity_min,
                sought.user_emotions,
            )
        )
        return pb.SearchExemplarsResponse(
            hits=[
                pb.ExemplarHit(exemplar=sayings.sent_exemplar(hit.exemplar), similarity=hit.similarity) for hit in hits
            ],
            model_digest=self._desk.memory.embedding.digest,
        )

    async def RemoveExemplars(self, request: pb.RemoveExemplarsRequest, context: Any) -> pb.RemoveExemplarsResponse:
        self._desk.check(request.tenant)
        count = await self._desk.meaning.run(
            lambda: self._exemplars.remove(request.tenant, request.identity, tuple(request.ids))
        )
        return pb.RemoveExemplarsResponse(exemplars=count)
