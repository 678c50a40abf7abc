"""Decisions as they travel: every vote, and how they became one."""

from collections.abc import Iterable

from e3rg.understanding.v1 import understanding_pb2 as pb
from services.understanding.domain import Decision, Reliability, Standing, Status, Vote
from services.understanding.voters import Answer

_STATUSES = {
    Status.VOTED: pb.VOTE_STATUS_VOTED,
    Status.ABSTAINED: pb.VOTE_STATUS_ABSTAINED,
    Status.LATE: pb.VOTE_STATUS_LATE,
    Status.FAILED: pb.VOTE_STATUS_FAILED,
    Status.CANCELLED: pb.VOTE_STATUS_CANCELLED,
}
_STANDINGS = {
    Standing.COUNTED: pb.STANDING_COUNTED,
    Standing.PROBATION: pb.STANDING_PROBATION,
    Standing.NOT_WAITED_FOR: pb.STANDING_NOT_WAITED_FOR,
}


def to_record(decision: Decision[Answer], shadows: Iterable[Vote[Answer]] = ()) -> pb.VoteRecord:
    """Returns the decision on record, with the votes of shadows, which had no part in it."""
    return pb.VoteRecord(
        label=decision.label,
        face_class=decision.face_class,
        rule=decision.rule,
        margin=decision.margin,
        tie_break=decision.tie_break,
        votes=[_to_vote(vote) for vote in decision.votes],
        distribution=decision.distribution,
        tally=decision.tally,
        entropy_bits=decision.entropy_bits,
        agreement=decision.agreement,
        early=decision.early,
        weights_version=decision.weights_version,
        shadow_votes=[_to_vote(vote) for vote in shadows],
    )


def _to_vote(vote: Vote[Answer]) -> pb.Vote:
    return pb.Vote(
        voter=vote.voter,
        status=_STATUSES[vote.status],
        reason=vote.reason,
        prediction=vote.source.prediction if vote.source else None,
        card=vote.source.card if vote.source else None,
        latency_s=vote.latency_s,
        weight=vote.weight,
        label_without=vote.label_without,
        variant=vote.variant,
        reliability=_to_reliability(vote.reliability) if vote.reliability else None,
    )


def _to_reliability(found: Reliability) -> pb.Reliability:
    return pb.Reliability(
        agreement=found.agreement,
        abstained=found.abstained,
        late=found.late,
        messages=found.messages,
        standing=_STANDINGS[found.standing],
    )
