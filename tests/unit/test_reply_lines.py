from pathlib import Path

import pytest

from client.client import Timed
from client.reply import Reply
from e3rg.memory.v1 import memory_pb2 as memory
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb


def test_a_stage_that_begins_just_before_the_request_ends_begins_at_zero(tmp_path: Path) -> None:
    reply = Reply(tmp_path)
    timing = pb.StageTiming(stage="recall", start_s=-0.001, first_s=0.25, end_s=0.25)
    assert not list(reply.take(Timed(0.1, pb.RespondResponse(timing=timing))))
    assert list(reply.finish())[1] == "  recall          0.00    0.25    0.25"


def lines_of(tmp_path: Path, *events: pb.RespondResponse) -> list[str]:
    reply = Reply(tmp_path, clock=lambda: 1_000_000.0)
    return [line for event in events for line in reply.take(Timed(0.1, event))]


def test_what_was_said_in_another_conversation_is_recalled_with_its_age(tmp_path: Path) -> None:
    said = memory.Turn(
        user_text="I have a cat.", user_emotion="happy", conversation="monday", said_at_s=1_000_000 - 7_300
    )
    hit = memory.Hit(turn=said, similarity=0.5)
    assert (
        lines_of(tmp_path, pb.RespondResponse(recalled=memory.SearchResponse(hits=[hit, hit])))
        == ["recalled   2 hours ago in conversation monday, similarity 0.50: 'I have a cat.' (happy)"] * 2
    )


def test_an_identity_that_was_known_before_the_store_went_away_says_so(tmp_path: Path) -> None:
    recalled = memory.RecallResponse(turns=[memory.Turn()], stale_s=125)
    recalled.identity.profile.name = "Anna"
    assert lines_of(tmp_path, pb.RespondResponse(identity=recalled)) == [
        "identity   Anna; 1 earlier turn recalled, as known 2 minutes ago"
    ]
    recalled.stale_s = 0
    assert lines_of(tmp_path, pb.RespondResponse(identity=recalled)) == ["identity   Anna; 1 earlier turn recalled"]


@pytest.mark.parametrize(
    ("valence", "change", "told"),
    [
        (-0.454, -0.3, "valence -0.45, getting worse"),
        (0.6, 0.06, "valence 0.60, getting better"),
        (-0.001, -0.04, "valence 0.00"),
        (0.3, 0, "valence 0.30"),
    ],
)
def test_how_the_conversation_felt_is_told_with_the_turns_that_were_recalled(
    tmp_path: Path, valence: float, change: float, told: str
) -> None:
    felt = memory.Trajectory(label="sad", valence=valence, valence_change=change)
    recalled = memory.RecallResponse(turns=[memory.Turn()] * 2, trajectory=felt)
    assert lines_of(tmp_path, pb.RespondResponse(identity=recalled))[1:] == [f"mood       sad, {told}"]


def test_no_mood_is_told_of_a_conversation_that_has_none(tmp_path: Path) -> None:
    felt = memory.Trajectory(label="sad", valence=-0.5)
    for recalled in (memory.RecallResponse(trajectory=felt), memory.RecallResponse(turns=[memory.Turn()])):
        assert len(lines_of(tmp_path, pb.RespondResponse(identity=recalled))) == 1


def test_a_turn_is_kept_or_it_is_said_why_not(tmp_path: Path) -> None:
    lost = pb.RespondResponse(
        degraded=pb.Degraded(stage="remember", dropped="the memory of this turn", reason="memory: away")
    )
    done = pb.RespondResponse(done=pb.Done(text="Hi."))
    assert lines_of(tmp_path, pb.RespondResponse(done=pb.Done(turn="t1"))) == ["kept       as turn t1"]
    assert lines_of(tmp_path, done) == ["not kept   it stood alone: name a --conversation"]
    assert lines_of(tmp_path, lost, done) == [
        "degraded   remember: without the memory of this turn (memory: away)",
        "not kept   as said above",
    ]
