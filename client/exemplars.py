"""Examples of how avatars answer."""

from collections.abc import Iterator, Sequence

import grpc

from client.connection import ask
from e3rg.memory.v1 import exemplars_pb2 as pb
from e3rg.memory.v1 import exemplars_pb2_grpc

EXEMPLARS_MAX = 200
"""In one request."""


class Exemplars:
    """The examples of one tenant. Without an identity, they are those of all the tenant's."""

    def __init__(self, channel: grpc.Channel, tenant: str) -> None:
        self._stub = exemplars_pb2_grpc.ExemplarServiceStub(channel)
        self._tenant = tenant

    def put(self, exemplars: Sequence[pb.Exemplar], identity: str = "") -> list[str]:
        """Keeps examples; returns their ids. One that is there already changes nothing.

        Raises:
            ClientError: One is wrong, or the identity is unknown. Of more than 200, earlier ones may have been kept.
        """
        ids: list[str] = []
        for start in range(0, len(exemplars), EXEMPLARS_MAX):
            some = exemplars[start : start + EXEMPLARS_MAX]
            request = pb.PutExemplarsRequest(tenant=self._tenant, identity=identity, exemplars=some)
            ids += ask(self._stub.PutExemplars, request).ids
        return ids

    def all(self, identity: str = "") -> Iterator[pb.Exemplar]:
        """Yields the identity's own examples, or the tenant's, page after page.

        Raises:
            ClientError: The identity is unknown.
        """
        token = ""
        while True:
            request = pb.ListExemplarsRequest(tenant=self._tenant, identity=identity, page_token=token)
            page = ask(self._stub.ListExemplars, request)
            yield from page.exemplars
            if not (token := page.next_page_token):
                return

    def search(self, text: str, identity: str = "", user_emotions: Sequence[str] = ()) -> list[pb.ExemplarHit]:
        """Returns the examples whose message is most like `text`: the identity's own and the tenant's.

        Raises:
            ClientError: The identity is unknown, or something is wrong.
        """
        request = pb.SearchExemplarsRequest(
            tenant=self._tenant, identity=identity, text=text, similarity_min=-1, user_emotions=user_emotions
        )
        return list(ask(self._stub.SearchExemplars, request).hits)

    def remove(self, ids: Sequence[str], identity: str = "") -> int:
        """Removes examples; returns how many there were.

        Raises:
            ClientError: The identity is unknown, or something is wrong.
        """
        removed = 0
        for start in range(0, len(ids), EXEMPLARS_MAX):
            some = ids[start : start + EXEMPLARS_MAX]
            request = pb.RemoveExemplarsRequest(tenant=self._tenant, identity=identity, ids=some)
            removed += ask(self._stub.RemoveExemplars, request).exemplars
        return removed
