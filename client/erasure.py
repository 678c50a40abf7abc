"""How long things are kept, and what was erased."""

from collections.abc import Iterator

import grpc

from client.connection import LONG_TIMEOUT_S, ask
from e3rg.memory.v1 import erasure_pb2 as pb
from e3rg.memory.v1 import erasure_pb2_grpc


class Erasure:
    """What one tenant forgets."""

    def __init__(self, channel: grpc.Channel, tenant: str) -> None:
        self._stub = erasure_pb2_grpc.ErasureServiceStub(channel)
        self._tenant = tenant

    def identity(self, identity: str, asked_by: str) -> pb.Audit:
        """Erases an identity with all that was ever kept of it; returns the record of that.

        Raises:
            ClientError: Nothing of it is there.
        """
        request = pb.EraseIdentityRequest(tenant=self._tenant, identity=identity, asked_by=asked_by)
        return ask(self._stub.EraseIdentity, request, LONG_TIMEOUT_S).audit

    def person(self, asked_by: str, person: str = "", conversation: str = "") -> pb.Audit:
        """Erases all that was kept of a person, with every identity; returns the record of that.

        Args:
            asked_by: Who asks for it.
            person: Whom; or else:
            conversation: The conversation of somebody who is known in it only.

        Raises:
            ClientError: Nothing of the person is there, or both or neither is named.
        """
        request = pb.ErasePersonRequest(
            tenant=self._tenant, person=person, conversation=conversation, asked_by=asked_by
        )
        return ask(self._stub.ErasePerson, request, LONG_TIMEOUT_S).audit

    def audits(self) -> Iterator[pb.Audit]:
        """Yields the records of what was erased, the newest first, page after page.

        Raises:
            ClientError: The memory cannot be reached.
        """
        token = ""
        while True:
            page = ask(self._stub.ListAudits, pb.ListAuditsRequest(tenant=self._tenant, page_token=token))
            yield from page.audits
            if not (token := page.next_page_token):
                return

    def retention(self) -> pb.Retention:
        """Returns how long things are kept.

        Raises:
            ClientError: The memory cannot be reached.
        """
        return ask(self._stub.GetRetention, pb.GetRetentionRequest(tenant=self._tenant)).retention

    def set_retention(self, retention: pb.Retention) -> None:
        """Sets how long things are kept from now on.

        Raises:
            ClientError: A number is wrong.
        """
        ask(self._stub.SetRetention, pb.SetRetentionRequest(tenant=self._tenant, retention=retention))
