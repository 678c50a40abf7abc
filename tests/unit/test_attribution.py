"""Each moment of a turn belongs to one stage."""

import random

import pytest

from orchestrator.attribution import STAGES, UNEXPLAINED, Interval, shares


def test_a_moment_belongs_to_the_stage_furthest_along() -> None:
    work = [Interval("recall", 0, 2), Interval("vote", 1, 4), Interval("reply", 4, 7), Interval("video", 5, 9)]
    assert shares(work, 0, 10) == {"recall": 1, "vote": 3, "reply": 1, "video": 4, UNEXPLAINED: 1}


def test_what_is_kept_counts_only_while_nothing_else_works() -> None:
    work = [Interval("remember", 2, 6), Interval("video", 1, 5)]
    assert shares(work, 1, 6) == {"video": 4, "remember": 1}


def test_work_outside_of_the_turn_does_not_count() -> None:
    assert shares([Interval("decode", -5, 1), Interval("video", 8, 20), Interval("vote", 12, 13)], 0, 10) == {
        "decode": 1,
        UNEXPLAINED: 7,
        "video": 2,
    }


@pytest.mark.parametrize("seed", range(20))
def test_the_shares_add_up_to_the_turn(seed: int) -> None:
    draw = random.Random(seed)
    work = []
    for stage in STAGES:
        start_s = draw.uniform(-1, 9)
        work.append(Interval(stage, start_s, start_s + draw.uniform(0, 3)))
    found = shares(work, 0, 10)
    assert sum(found.values()) == pytest.approx(10)
    assert all(seconds >= 0 for seconds in found.values())


def test_a_turn_of_no_length_has_no_shares() -> None:
    assert shares([Interval("recall", 1, 1)], 1, 1) == {}
