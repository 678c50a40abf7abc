from pathlib import Path

from client.client import Timed
from client.reply import Reply
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb


def test_a_stage_that_begins_just_before_the_request_ends_begins_at_zero(tmp_path: Path) -> None:
    reply = Reply(tmp_path)
    timing = pb.StageTiming(stage="recall", start_s=-0.001, first_s=0.25, end_s=0.25)
    assert not list(reply.take(Timed(0.1, pb.RespondResponse(timing=timing))))
    assert list(reply.finish())[1] == "  recall         0.00    0.25    0.25"
