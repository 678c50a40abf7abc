"""Table of a load's results, for a terminal."""

from collections.abc import Iterator

from benchmarks.load.result import LATE_S, PERCENTS, Result, figure_name
from benchmarks.load.turn import MEASURES, OUTCOMES
from client.terminal import count

MIB = 1 << 20


def lines(result: Result) -> Iterator[str]:
    """Yield the lines of the table."""
    figures, profile = result.figures, result.profile
    yield profile.summary
    yield (
        f"{count(len(result.turns), 'turn')} sent in {result.elapsed_s:.1f} s, {result.answered} answered:"
        f" {figures['answered_per_s']:.2f} a second"
    )
    yield ", ".join(f"{figures[outcome]} {outcome}" for outcome in OUTCOMES)
    yield (
        f"{figures['lost']} lost (without a whole reply), {figures['not_sent']} not sent"
        + (f" (more than {profile.open_max} at once)" if figures["not_sent"] else "")
    )
    sent_mib, received_mib = ((figures[f"{way}_bytes"] or 0) / MIB for way in ("sent", "received"))
    yield f"{sent_mib:.1f} MiB sent, {received_mib:.1f} MiB received"
    yield from _table(result)
    for name, times in result.degradations().most_common():
        yield f"degraded {times:5}  {name}"
    for name, times, trace_id in result.problems():
        yield f"lost     {times:5}  {name} (trace id of one: {trace_id})"
    if result.profile.conversations:
        yield f"the turns are kept in conversations {result.name}-1 and so on"
    late_s = figures["generator_late_p99_s"]
    if result.is_late and late_s is not None:
        yield (
            f"THE GENERATOR WAS THE BOTTLENECK: it sent turns up to {late_s:.2f} s late (p99; more than {LATE_S} s)."
            " Use a faster or less busy machine, or several."
        )
    elif late_s is not None:
        yield f"the generator sent turns at most {late_s * 1000:.0f} ms late (p99)"


def _table(result: Result) -> Iterator[str]:
    yield f"{'':18}{'message':10}{'turns':>6}" + "".join(f"{label:>8}" for label in PERCENTS)
    kinds = sorted({turn.kind for turn in result.turns}, key=["text", "audio", "video"].index)
    for measure in MEASURES:
        for kind in ("", *kinds) if len(kinds) > 1 else ("",):
            if not (turns := result.count(measure, kind)):
                continue
            prefix = f"{kind}." if kind else ""
            values = [result.figures[f"{prefix}{figure_name(measure, label)}"] for label in PERCENTS]
            row = "".join(f"{value:8.2f}" for value in values if value is not None)
            yield f"{'' if kind else _title(measure):18}{kind or 'all':10}{turns:6}{row}"


def _title(measure: str) -> str:
    return f"{measure.removesuffix('_s').replace('_', ' ')}{', s' if measure.endswith('_s') else ''}"
