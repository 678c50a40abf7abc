"""Prints what was measured."""

from collections.abc import Sequence

from benchmarks.panel.latency import Waited
from benchmarks.panel.liars import Decided
from benchmarks.panel.outcomes import Outcome
from benchmarks.panel.statistics import Bools, interval, mcnemar

SURE = 0.05


def print_outcomes(title: str, outcomes: Sequence[Outcome]) -> None:
    """One line per voter or rule, with 95 % bootstrap intervals."""
    width = max(len(title), *(len(each.name) for each in outcomes))
    print(f"\n{title:{width}}    HIT  95 %           label  95 %           abstained  CPU ms")
    for each in outcomes:
        cost = f"{each.cost_ms:7.0f}" if each.cost_ms else "      -"
        print(f"{each.name:{width}}  {_share(each.hit)}  {_share(each.label)}  {each.abstained:9d} {cost}")


def print_comparisons(outcomes: Sequence[Outcome], others: Sequence[Outcome]) -> None:
    """Each of `outcomes` against each of `others`, by the classes that only one of them got right."""
    print("\nMcNemar, exact, two-sided, on the classes")
    for each in outcomes:
        for other in others:
            found = mcnemar(each.hit, other.hit)
            gain = 100 * (each.hit.mean() - other.hit.mean())
            verdict = "better" if gain > 0 else "worse"
            print(
                f"  {each.name} against {other.name}: {gain:+.1f} points, {found.only_first} to {found.only_second},"
                f" p = {found.p:.2g}{f', {verdict}' if found.p < SURE else ', no clear difference'}"
            )


def print_lift(rule: str, whole: Outcome, without: Sequence[Outcome]) -> None:
    """What each voter is worth: the panel's share with it, less the share without it."""
    print(f"\nlift under {rule}, in points: with the voter less without it")
    for each in without:
        hit, label = (100 * (one.mean() - other.mean()) for one, other in _pairs(whole, each))
        p = mcnemar(whole.hit, each.hit).p
        print(f"  {each.name:12} class {hit:+5.1f} (p = {p:.2g}), label {label:+5.1f}")


def print_waits(waits: Sequence[tuple[str, Waited, Waited]]) -> None:
    """Deciding early beside waiting for all, one line per kind of panel."""
    print("\nseconds to the decision                 early: p50    p95    waiting for all: p50    p95    decided early")
    for name, early, all_ in waits:
        print(
            f"  {name:37}  {early.quantile_s(0.5):9.3f}  {early.quantile_s(0.95):5.3f}"
            f"  {all_.quantile_s(0.5):19.3f}  {all_.quantile_s(0.95):5.3f}"
            f"  {100 * early.early / len(early.seconds):12.0f} %"
            f"{'' if early.labels == all_.labels else '  DECIDED DIFFERENTLY'}"
        )


def print_reliability(base: Decided, panels: Sequence[tuple[str, Decided, Decided]]) -> None:
    """The majority without and with reliability, one line per panel: its HIT, and the points that it loses."""
    print(f"\nthe majority, HIT {100 * base.hit.mean():.1f}; in points and in mean seconds to the decision")
    print("beside it                       without reliability: HIT   lost      s   with it: HIT   lost      s")
    for name, without, tracked in panels:
        cells = (
            f"{100 * each.hit.mean():5.1f}  {_lost(base, each):5.1f}  {each.seconds:5.2f}"
            for each in (without, tracked)
        )
        print(f"  {name:43}  {'           '.join(cells)}")


def _lost(base: Decided, other: Decided) -> float:
    return 100 * float(base.hit.mean() - other.hit.mean())


def _share(right: Bools) -> str:
    low, high = interval(right)
    return f"{100 * right.mean():5.1f}  {100 * low:4.1f} to {100 * high:4.1f}  "


def _pairs(whole: Outcome, without: Outcome) -> tuple[tuple[Bools, Bools], tuple[Bools, Bools]]:
    return (whole.hit, without.hit), (whole.label, without.label)
