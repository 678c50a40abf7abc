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
    | pb.StartExperiment
    | pb.StopExperiment
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

    def compare(
        self, experiment: str = "", stage: str = "", from_s: float = 0.0, until_s: float = 0.0, svg: bool = False
    ) -> pb.CompareVariantsResponse:
        """Compare the variants of an experiment, or of all turns of a stage.

        Args:
            experiment: Its id; empty for the one that runs, unless there is a stage.
            stage: Name of a stage.
            from_s: For a stage, only turns kept at this Unix time in seconds or later; 0 for all.
            until_s: For a stage, only turns kept before this Unix time in seconds; 0 for all.
            svg: Whether a picture is wanted.

        Raises:
            ClientError: There is no such experiment or stage, or the memory cannot be reached.
        """
        request = pb.CompareVariantsRequest(experiment=experiment, stage=stage, from_s=from_s, until_s=until_s, svg=svg)
        return ask(self._stub.CompareVariants, request)
