"""Levels of load over time."""

import itertools
import math
import random

import pytest

from benchmarks.load.errors import ProfileError
from benchmarks.load.ramp import Ramp, Stage, parse_stages


def test_a_profile_is_read_with_its_units() -> None:
    assert parse_stages("60s:2, 5m:10,1.5h:0.5") == (Stage(60, 2), Stage(300, 10), Stage(5400, 0.5))


@pytest.mark.parametrize("text", ["60:2", "60s", "60s:", "s:2", "60s:-2", "60s:2,", "60s:2;30s:1", ""])
def test_a_wrong_stage_is_named_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ProfileError, match=r"stage: '.*'; give DURATION:LEVEL, like 60s:2,300s:10,60s:0"):
        parse_stages(text)


RAMP = Ramp(0, (Stage(10, 2), Stage(20, 2), Stage(0, 6), Stage(10, 0)))


@pytest.mark.parametrize(("at_s", "level"), [(0, 0), (5, 1), (10, 2), (29.5, 2), (30, 6), (35, 3), (40, 0), (41, 0)])
def test_levels_are_linear_between_stages_and_jump_where_one_takes_no_time(at_s: float, level: float) -> None:
    assert RAMP.level(at_s) == pytest.approx(level)
    assert (RAMP.duration_s, RAMP.highest) == (40, 6)


@pytest.mark.parametrize(
    ("level", "from_s", "at_s"),
    [(0.5, 0, 2.5), (1.5, 0, 7.5), (1.5, 9, 9), (2.5, 0, 30), (2.5, 33, 33), (2.5, 36, None), (6.5, 0, None)],
)
def test_a_level_is_reached_by_a_ramp_by_a_jump_or_never(level: float, from_s: float, at_s: float | None) -> None:
    assert RAMP.reaches(level, from_s) == at_s


def test_a_level_that_is_reached_at_the_end_is_not_reached() -> None:
    assert Ramp(0, (Stage(10, 2),)).reaches(2, 0) is None


def test_arrivals_follow_the_ramp_and_vary_as_poisson_arrivals_do() -> None:
    ramp = Ramp(0, (Stage(1000, 4), Stage(1000, 4), Stage(0, 1), Stage(1000, 0)))
    arrivals = list(ramp.arrivals(random.Random(1)))
    assert arrivals == sorted(arrivals)
    for begin_s, end_s, expected in ((0, 500, 500), (500, 1000, 1500), (1000, 2000, 4000), (2000, 3000, 500)):
        found = sum(begin_s <= at_s < end_s for at_s in arrivals)
        assert abs(found - expected) < 4 * math.sqrt(expected)
    gaps = [after - before for before, after in itertools.pairwise(arrivals) if 1000 <= before < 2000]
    assert sum(gap > 0.25 for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.04)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    ramp = Ramp(3, (Stage(60, 1),))
    again, other = (list(ramp.arrivals(random.Random(seed))) for seed in (7, 8))
    assert list(ramp.arrivals(random.Random(7))) == again != other
