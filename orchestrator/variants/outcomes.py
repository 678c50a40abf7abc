"""Outcomes of a turn for the variants that served it, from its report and its votes."""

from collections.abc import Iterator, Sequence

from e3rg.understanding.v1 import understanding_pb2 as understanding
from orchestrator.report import Loss
from orchestrator.routing import VOTER
from orchestrator.turn import REPORTED, Turn
from orchestrator.variants.counts import Outcome
from services.common.metrics import VARIANT

_VOTED = understanding.VOTE_STATUS_VOTED
_MISSED = (understanding.VOTE_STATUS_LATE, understanding.VOTE_STATUS_FAILED)


def of_turn(turn: Turn, votes: Sequence[understanding.Vote]) -> list[Outcome]:
    """Return the outcomes of a turn that has ended.

    A turn that was refused, or cancelled by its caller, has none: neither is a variant's failure. Nor has one that
    names its variants, for its traffic is a tester's.

    Args:
        turn: The turn.
        votes: Its votes; empty where the panel did not decide.
    """
    if turn.routing.overrides or turn.report.outcome in ("cancelled", "refused"):
        return []
    found = [outcome for stage in REPORTED if stage in turn.chosen for outcome in _of_stage(turn, stage)]
    return found + [
        Outcome(
            f"{VOTER}{vote.voter}",
            vote.variant or VARIANT,
            failed=vote.status in _MISSED,
            first_s=vote.latency_s if vote.status == _VOTED else 0.0,
        )
        for vote in votes
        if vote.status in (_VOTED, *_MISSED)
    ]


def _of_stage(turn: Turn, stage: str) -> Iterator[Outcome]:
    report, reported = turn.report, REPORTED[stage]
    wanted, served = turn.routing.choose(stage).variant, turn.chosen[stage].variant
    moved = f"{reported}: {Loss.VARIANT.value}"
    if wanted != served:
        yield Outcome(stage, wanted, failed=True, degraded=True)
    worked = [timing for name, timing in report.outcomes if name == reported and timing.variant == served]
    if not worked:
        return
    last = worked[-1]
    # A turn that runs out of time cancels its stages, and none of them says that it failed.
    is_late = report.outcome == "failed" and all(timing.outcome != "failed" for _, timing in report.outcomes)
    if last.outcome == "cancelled" and not is_late:
        return
    yield Outcome(
        stage,
        served,
        failed=last.outcome != "ok" and not last.is_refused,
        degraded=any(loss.startswith(f"{reported}: ") and loss != moved for loss in report.losses),
        # After a move, it would count the time of the variant before it too.
        first_s=max(0.0, last.first_s - last.start_s) if last.first_s and wanted == served else 0.0,
    )
