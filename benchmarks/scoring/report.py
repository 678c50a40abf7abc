"""Table of a run: diversity of the replies and mean of the scores, by variant."""

from collections.abc import Iterator, Sequence

from benchmarks.scoring.job import Outcome, by_variant
from e3rg.memory.v1 import turns_pb2
from orchestrator.comparison.scores import SCORES, distinct, tokens


def lines(outcome: Outcome, stage: str) -> Iterator[str]:
    """Yield what was scored, and each variant of a stage."""
    kept = ", ".join(f"{number} {name}" for name, number in sorted(outcome.kept.items())) or "nothing new"
    yield f"{len(outcome.records)} turns; scored: {kept}"
    for reason, number in sorted(outcome.skipped.items()):
        yield f"no score, {number} times: {reason}"
    groups = by_variant(outcome.records, stage)
    if not groups:
        yield f"no turn names a variant of {stage}"
        return
    replies = {name: [tokens(record.turn.reply_text) for record in group] for name, group in groups.items()}
    room = min(sum(map(len, each)) for each in replies.values())
    yield f"Dist-n of the first {room} words of each variant, for it falls with the number of words"
    yield f"{stage:20}{'turns':>8}{'Dist-1':>9}{'Dist-2':>9}{''.join(f'{name:>14}' for name in SCORES)}"
    for name, group in groups.items():
        same = list(_first(replies[name], room))
        diversity = "".join(_number(distinct(same, length), 9) for length in (1, 2))
        yield f"{name:20}{len(group):8}{diversity}{''.join(_number(_mean(group, score), 14) for score in SCORES)}"


def _first(replies: Sequence[list[str]], room: int) -> Iterator[list[str]]:
    """Yield replies up to a number of words."""
    for reply in replies:
        if room <= 0:
            return
        yield reply[:room]
        room -= len(reply)


def _mean(group: Sequence[turns_pb2.TurnRecord], score: str) -> float | None:
    values = [record.scores[score] for record in group if score in record.scores]
    return sum(values) / len(values) if values else None


def _number(value: float | None, width: int) -> str:
    return f"{'.' if value is None else format(value, '.3f'):>{width}}"
