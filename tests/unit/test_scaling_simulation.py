"""The simulation of scaling: nothing is lost or made up, and it follows the chart's rule."""

from dataclasses import replace

import pytest

from benchmarks.scaling import load, renderer
from benchmarks.scaling.chart import backlog_rule, cpu_rule
from benchmarks.scaling.load import Day
from benchmarks.scaling.rule import Rule
from benchmarks.scaling.simulation import TRIES_MAX, Simulation

SEGMENTS = load.segments()
DAY = Day(12)


@pytest.fixture(scope="module")
def rule() -> Rule:
    return backlog_rule(2, 48)


def test_the_rule_is_the_charts(rule: Rule) -> None:
    assert (rule.replicas_min, rule.replicas_max) == (2, 48)
    assert [(each.name, each.value) for each in rule.targets] == [
        ("e3rg_backlog_seconds", 45),
        ("e3rg_refusals_per_second", 0.05),
    ]
    assert (rule.up.window_s, rule.down.window_s) == (0, 600)


def test_a_reply_is_cut_as_long_as_it_is_spoken() -> None:
    for reply, segments in enumerate(SEGMENTS):
        spoken_s = sum(len(sentence) for sentence in load.speech(reply)) / load.RATE_HZ
        assert sum(segments) == pytest.approx(spoken_s)
        assert all(each <= load.SEGMENTS[2] for each in segments)


def test_users_come_by_the_time_of_the_day() -> None:
    assert DAY.users(0) == pytest.approx(0.6)
    assert DAY.users(load.SHORT_S * 70 / 120) == 12
    assert Day(12, is_steady=True).users(0) == 12
    (turns, steady) = (list(day.turns()) for day in (DAY, Day(12, is_steady=True)))
    assert len(turns) < len(steady)
    assert [turn.at_s for turn in turns] == sorted(turn.at_s for turn in turns)
    assert len(steady) == pytest.approx(12 * load.SHORT_S / load.TURN_EVERY_S, rel=0.15)


@pytest.mark.parametrize(("replicas", "deadline_s"), [(1, 300.0), (4, 110.0), (40, 300.0)])
@pytest.mark.parametrize("is_scaled", [False, True])
def test_every_turn_is_filmed_or_counted_as_bare(rule: Rule, replicas: int, deadline_s: float, is_scaled: bool) -> None:
    turns = list(DAY.turns())
    tally = Simulation(DAY, SEGMENTS, replicas, rule if is_scaled else None, deadline_s=deadline_s).run()
    assert tally.turns == len(turns)
    assert tally.lost == 0
    asked = sum(len(SEGMENTS[turn.reply]) for turn in turns)
    # A turn that is refused a segment asks for no more of them.
    assert sum(tally.tiers.values()) <= asked - tally.bare
    assert (sum(tally.tiers.values()) == asked) == (tally.bare == 0)
    assert tally.refusals == TRIES_MAX * tally.bare
    assert len(tally.first_s) + tally.late >= tally.turns
    assert max(tally.first_s) <= deadline_s


def test_work_is_neither_lost_nor_made_up_and_takes_no_more_than_there_is() -> None:
    tally = Simulation(DAY, SEGMENTS, 100).run()
    work_s = sum(renderer.cost_s(each, "best") for turn in DAY.turns() for each in SEGMENTS[turn.reply])
    assert set(tally.tiers) == {"best"}
    assert tally.busy_s <= work_s
    assert tally.busy_s == pytest.approx(work_s, rel=0.02)  # What is left at the end of the day.
    assert tally.gpu_s == pytest.approx(100 * load.SHORT_S)


def test_scaling_stays_in_its_range_and_pods_serve_when_they_are_ready(rule: Rule) -> None:
    tally = Simulation(DAY, SEGMENTS, 2, rule).run()
    assert all(2 <= wanted <= 48 and ready <= wanted for _, wanted, ready in tally.replicas)
    grown_s = next(at_s for at_s, wanted, _ in tally.replicas if wanted > 2)
    ready_s = next(at_s for at_s, _, ready in tally.replicas if ready > 2)
    assert ready_s == grown_s + renderer.POD_S
    assert tally.replicas[-1][1] < tally.peak
    assert tally.busy_s <= tally.gpu_s


def test_refusals_scale_where_calls_are_refused_before_the_backlog_is_long() -> None:
    rule = backlog_rule(2, 48, "components.video.scaling.targetBacklogS=120")
    alone = Simulation(DAY, SEGMENTS, 2, replace(rule, targets=rule.targets[:1]), deadline_s=110.0).run()
    both = Simulation(DAY, SEGMENTS, 2, rule, deadline_s=110.0).run()
    assert alone.peak == 2
    assert both.peak > 2
    assert both.bare < alone.bare


def test_the_processor_tells_less_than_the_backlog(rule: Rule) -> None:
    backlog, cpu = (Simulation(DAY, SEGMENTS, 2, each).run() for each in (rule, cpu_rule(rule)))
    assert backlog.late < cpu.late
