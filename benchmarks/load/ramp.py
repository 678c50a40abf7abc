"""Levels of load over time: linear ramps between numbers of users, or between turns a second."""

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from benchmarks.load.errors import ProfileError

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
RIGHT = "give DURATION:LEVEL, like 60s:2,300s:10,60s:0"


@dataclass(frozen=True)
class Stage:
    """A linear ramp from the level before to `level`; a jump when it takes no time."""

    duration_s: float
    level: float


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read a profile like `60s:2,5m:10,60s:0`.

    Raises:
        ProfileError: A stage is wrong.
    """
    stages = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)([smh]):(\d+(?:\.\d+)?)\s*", part)
        if not found:
            raise ProfileError("stage", f"{part.strip()!r}; {RIGHT}")
        stages.append(Stage(float(found[1]) * UNITS_S[found[2]], float(found[3])))
    return tuple(stages)


@dataclass(frozen=True)
class Ramp:
    """A level over time: `start`, then stage after stage."""

    start: float
    stages: tuple[Stage, ...]

    @cached_property
    def _pieces(self) -> list[tuple[float, float, float, float]]:
        """Begin and its level, end and its level, of each stage that takes time."""
        pieces, at_s, level = [], 0.0, self.start
        for stage in self.stages:
            if stage.duration_s:
                pieces.append((at_s, level, at_s + stage.duration_s, stage.level))
            at_s, level = at_s + stage.duration_s, stage.level
        return pieces

    @property
    def duration_s(self) -> float:
        """Length of all stages."""
        return sum(stage.duration_s for stage in self.stages)

    @property
    def highest(self) -> float:
        """Highest level that is ever reached."""
        return max((max(begin, end) for _, begin, _, end in self._pieces), default=0.0)

    def level(self, at_s: float) -> float:
        """Return the level at a time; 0 after the end."""
        for begin_s, begin, end_s, end in self._pieces:
            if at_s < end_s:
                return begin + (end - begin) * (at_s - begin_s) / (end_s - begin_s)
        return 0.0

    def reaches(self, level: float, from_s: float) -> float | None:
        """Return the first time, not before `from_s`, at which the level is at least `level`; None when never."""
        for begin_s, begin, end_s, end in self._pieces:
            if end_s <= from_s:
                continue
            first_s = max(begin_s, from_s)
            if self.level(first_s) >= level:
                return first_s
            if end > level:
                return begin_s + (level - begin) / (end - begin) * (end_s - begin_s)
        return None

    def arrivals(self, draw: random.Random) -> Iterator[float]:
        """Yield times of a Poisson process whose rate is the level."""
        due = draw.expovariate(1)
        for begin_s, begin, end_s, end in self._pieces:
            slope = (end - begin) / (end_s - begin_s)
            expected = (begin + end) / 2 * (end_s - begin_s)
            while due <= expected:
                # The root of `begin t + slope t² / 2 = due`, in the form that also holds without a slope.
                root = math.sqrt(max(0.0, begin * begin + 2 * slope * due))
                yield begin_s + 2 * due / (begin + root)
                due += draw.expovariate(1)
            due -= expected
