"""Turns that a memory keeps, as the client reads them."""

import logging
from collections.abc import Callable, Iterator, Sequence

import grpc

from client.connection import ask, read
from client.terminal import printable
from e3rg.memory.v1 import memory_pb2 as pb
from e3rg.memory.v1 import memory_pb2_grpc, turns_pb2, turns_pb2_grpc

log = logging.getLogger(__name__)


def _warn(problem: str) -> None:
    log.warning("left out of a conversation: %s", printable(problem))


class Turns:
    """The turns of one tenant. Without a person, they are of somebody who is known in that conversation only."""

    def __init__(self, channel: grpc.Channel, tenant: str) -> None:
        self._stub = memory_pb2_grpc.MemoryServiceStub(channel)
        self._turns = turns_pb2_grpc.TurnServiceStub(channel)
        self._tenant = tenant

    def all(
        self, identity: str, conversation: str, person: str = "", tell: Callable[[str], None] = _warn
    ) -> Iterator[pb.Turn]:
        """Yields the turns of a conversation, the newest first, page after page, but what is damaged.

        Args:
            identity: With whom it was said.
            conversation: Which.
            person: Who said it.
            tell: Called with what is wrong with each damaged object; by default a warning is logged.

        Raises:
            ClientError: The identity is unknown.
        """
        token = ""
        while True:
            request = pb.ListTurnsRequest(
                tenant=self._tenant, identity=identity, person=person, conversation=conversation, page_token=token
            )
            page = ask(self._stub.ListTurns, request)
            yield from page.turns
            for problem in page.damaged:
                tell(problem)
            if not (token := page.next_page_token):
                return

    def search(
        self,
        identity: str,
        text: str,
        person: str = "",
        conversation: str = "",
        user_emotions: Sequence[str] = (),
        age_max_s: float = 0,
    ) -> list[pb.Hit]:
        """Returns the turns whose user said something like `text`, the most similar first.

        Args:
            identity: With whom it was said.
            text: What they shall be like.
            person: Who said it.
            conversation: Only of this one; empty for all of the person's.
            user_emotions: Only those in which the user felt one of these; empty for all.
            age_max_s: Only those not older; 0 for all.

        Raises:
            ClientError: The identity is unknown, may not keep turns, or something is wrong.
        """
        request = pb.SearchRequest(
            tenant=self._tenant,
            identity=identity,
            person=person,
            conversation=conversation,
            text=text,
            similarity_min=-1,
            age_max_s=age_max_s,
            user_emotions=user_emotions,
        )
        return list(ask(self._stub.Search, request).hits)

    def clip(self, identity: str, conversation: str, turn: str, kind: pb.ClipKind, person: str = "") -> Iterator[bytes]:
        """Yields the bytes of a turn's speech or video.

        Raises:
            ClientError: There is none.
        """
        request = pb.GetClipRequest(
            tenant=self._tenant, identity=identity, person=person, conversation=conversation, turn=turn, kind=kind
        )
        return (part.content for part in read(self._stub.GetClip, request))

    def rate(
        self, identity: str, conversation: str, turn: str, rating: turns_pb2.Rating, person: str = ""
    ) -> turns_pb2.Rating:
        """Rates a turn, once per rater; returns the rating as it is kept. The same rating again changes nothing.

        Raises:
            ClientError: The turn is unknown, or this rater has rated it otherwise.
        """
        request = turns_pb2.RateTurnRequest(
            tenant=self._tenant, identity=identity, user=person, conversation=conversation, turn=turn, rating=rating
        )
        return ask(self._turns.RateTurn, request).rating
