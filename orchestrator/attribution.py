"""Attributes each moment of a turn to one stage, though stages overlap."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

STAGES = (
    "remember",
    "keep_derived",
    "keep_clips",
    "recall",
    "search",
    "decode",
    "transcribe",
    "vote",
    "reply",
    "speech",
    "video",
)
"""Stages of a turn. A moment belongs to the last of these that was at work, the one furthest along the pipeline.
What is kept of a turn comes first: nobody waits for it while another stage works."""
UNEXPLAINED = "unexplained"
"""Share of a turn in which no stage was at work."""


@dataclass(frozen=True)
class Interval:
    """Time that a stage was at work."""

    stage: str
    start_s: float
    end_s: float


def shares(intervals: Iterable[Interval], start_s: float, end_s: float) -> dict[str, float]:
    """Return the seconds of a turn that belong to each stage, and those that are unexplained; they add up to the turn.

    Args:
        intervals: Work of the stages; what lies outside of the turn does not count.
        start_s: Start of the turn.
        end_s: End of the turn.
    """
    inside = [each for each in intervals if each.start_s < end_s and each.end_s > start_s]
    edges = {start_s, end_s, *(max(each.start_s, start_s) for each in inside), *(min(e.end_s, end_s) for e in inside)}
    times = sorted(edges)
    found: dict[str, float] = {}
    for begin, end in pairwise(times):
        working = [each.stage for each in inside if each.start_s <= begin and each.end_s >= end]
        stage = max(working, key=STAGES.index, default=UNEXPLAINED)
        found[stage] = found.get(stage, 0.0) + end - begin
    return found
