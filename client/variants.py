"""Variants: which model of each stage serves which share of the conversations."""

from typing import TypeAlias

import grpc

from client.connection import ask
from e3rg.orchestrator.v1 import variants_pb2 as pb
from e3rg.orchestrator.v1 import variants_pb2_grpc

Change: TypeAlias = (
    pb.PutVariant
    | pb.RemoveVariant
    | pb.SetWeights
    | pb.SetState
    | pb.Promote
    | pb.Rollback
    | pb.SetShadow
    | pb.StartRamp
    | pb.SetGuardrail
    | pb.AcknowledgeRollback
)

_FIELDS = {
    field.message_type.name: field.name for field in pb.ChangeVariantsRequest.DESCRIPTOR.oneofs_by_name["change"].fields
}


class Variants:
    """The table of variants of a deployment."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = variants_pb2_grpc.VariantServiceStub(channel)

    def get(self) -> pb.GetVariantsResponse:
        """Return the table that the gateway uses.

        Raises:
            ClientError: The gateway does not administer variants.
        """
        return ask(self._stub.GetVariants, pb.GetVariantsRequest())

    def change(self, change: Change, by: str, why: str = "", version: int = 0) -> pb.ChangeVariantsResponse:
        """Change the table; return its new version and the change in words.

        Args:
            change: The change.
            by: Who makes it.
            why: Why.
            version: Version of the table that it is meant for; 0 for any.

        Raises:
            ClientError: The change is wrong, a variant cannot serve, or the chart's values own the table: then the
                text has the values to commit.
        """
        request = pb.ChangeVariantsRequest(by=by, why=why, expected_version=version)
        getattr(request, _FIELDS[change.DESCRIPTOR.name]).CopyFrom(change)
        return ask(self._stub.ChangeVariants, request)
