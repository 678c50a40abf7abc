"""Voters that gave no vote: warnings for the operator, and the error for a caller that gets no decision."""

import logging
from collections.abc import Iterable, Sequence

from services.common.errors import FailedPrecondition, InvalidRequest, NotReady, ServiceError
from services.understanding.domain import Source, Status, Vote

log = logging.getLogger(__name__)


def warn(votes: Iterable[Vote[Source]]) -> None:
    """Tells the operator of every voter that should have answered and did not."""
    for vote in votes:
        if vote.status in (Status.LATE, Status.FAILED):
            extra = {
                "voter": vote.voter,
                "variant": vote.variant,
                "seconds": round(vote.latency_s, 4),
                "why": vote.reason,
            }
            log.warning("voter %s", vote.status, extra=extra)


def undecided(votes: Sequence[Vote[Source]], quorum: int) -> ServiceError:
    """Returns the error that fewer votes than the quorum are: by it the caller knows whether to ask again."""
    absent = [vote for vote in votes if vote.status is not Status.VOTED]
    fates = "; ".join(f"{vote.voter} {vote.status} ({vote.reason})" for vote in absent)
    counted = f"{len(votes) - len(absent)} of the {quorum} votes needed"
    if any(vote.status is not Status.ABSTAINED for vote in absent):
        return NotReady(f"{counted}: {fates}")
    if len(absent) == len(votes):
        return InvalidRequest("message", f"no voter can read it: {fates}")
    return FailedPrecondition(f"{counted}, and asking again does not help, since the other voters abstain: {fates}")
