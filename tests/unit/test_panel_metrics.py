"""What an operator can measure of the panel's decisions and voters."""

import pytest
from prometheus_client import REGISTRY

from emotions import Wheel
from services.common.errors import BackendFailed, NotReady
from services.understanding.domain import Status, Vote
from services.understanding.metrics import observe_votes
from tests.seats import abstained, ask, panel_of, seat, three_and_a_slow_one, vote


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"e3rg_panel_{name}", labels) or 0.0


def of(voter: str, **labels: str) -> dict[str, str]:
    return {"voter": voter, "variant": "default", **labels}


class Counted:
    """How much a metric grows within the block."""

    def __init__(self, name: str, **labels: str) -> None:
        self._name, self._labels = name, labels
        self._before = metric(name, **labels)

    @property
    def grown(self) -> float:
        return metric(self._name, **self._labels) - self._before


async def test_a_decision_is_measured(wheel: Wheel) -> None:
    early = Counted("decisions_total", rule="majority", early="true", tie_break="none")
    sums = {name: Counted(f"{name}_sum", rule="majority") for name in ("agreement", "margin", "entropy_bits")}
    _, slow = three_and_a_slow_one()
    quick = [seat(name, vote(name, {"sad": 0.9, "happy": 0.1})) for name in "abc"]
    decision = await panel_of(wheel, *quick, slow, early=True).decide("message")
    assert decision.entropy_bits > 0.4
    assert early.grown == 1
    assert sums["agreement"].grown == pytest.approx(1)
    assert sums["margin"].grown == pytest.approx(3)
    assert sums["entropy_bits"].grown == pytest.approx(decision.entropy_bits)


async def test_a_broken_tie_is_measured(wheel: Wheel) -> None:
    counted = Counted("decisions_total", rule="majority", early="false", tie_break="probability")
    await ask(wheel, seat("a", vote("a", {"sad": 0.6, "happy": 0.4})), seat("b", vote("b", {"furious": 1.0})))
    assert counted.grown == 1


async def test_what_becomes_of_a_voter_is_counted_even_when_nothing_is_decided(wheel: Wheel) -> None:
    seats = [
        seat("m-voted", vote("m-voted", {"sad": 1.0})),
        seat("m-late", vote("m-late", {"sad": 1.0}), ready=False),
        seat("m-failed", BackendFailed("out of paper")),
        seat("m-abstained", abstained("m-abstained")),
    ]
    with pytest.raises(NotReady):
        await ask(wheel, *seats, quorum=2)
    for status in ("voted", "late", "failed", "abstained"):
        assert metric("votes_total", **of(f"m-{status}", status=status)) == 1
        assert metric("vote_seconds_count", **of(f"m-{status}", status=status)) == 1


def test_lateness_counts_from_the_first_answer_and_failures_have_none() -> None:
    fates = {"first": Status.VOTED, "next": Status.ABSTAINED, "lost": Status.LATE, "broken": Status.FAILED}
    votes: list[Vote[str]] = [
        Vote(f"l-{name}", status, latency_s=latency_s, variant="default")
        for (name, status), latency_s in zip(fates.items(), (1.0, 2.0, 5.0, 4.0), strict=True)
    ]
    observe_votes(votes, {"l-first": 1.5, "l-next": 3.5})
    found = [
        [metric(f"lateness_seconds_{each}", **of(f"l-{name}", status=status)) for each in ("count", "sum")]
        for name, status in fates.items()
    ]
    assert found == [[1, 0], [1, 2], [1, 3.5], [0, 0]]


async def test_a_voter_is_pivotal_when_the_others_would_have_decided_otherwise(wheel: Wheel) -> None:
    said = {"p-a": {"sad": 1.0}, "p-b": {"sad": 0.6, "happy": 0.4}, "p-c": {"furious": 0.9, "sad": 0.1}}
    await ask(wheel, *(seat(name, vote(name, each)) for name, each in said.items()), seat("p-d", abstained("p-d")))
    found = [metric("pivotal_total", **of(name)) for name in (*said, "p-d")]
    assert found == [1, 0, 0, 0]  # without a it would be furious
