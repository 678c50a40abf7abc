"""SVG of differences and their intervals over the number of users."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from orchestrator.comparison.results import Comparison, Difference
from orchestrator.comparison.sequences import Estimate

WIDTH, HEIGHT = 640, 240
"""Size of the picture of one variant."""
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 44, 40
"""Margins for labels."""
_STYLE = """
.comparison { background: #fff; color: #222; font: 13px system-ui, sans-serif }
.comparison text { fill: currentColor }
.comparison .band { fill: #2a78d6; fill-opacity: 0.2 }
.comparison .line { fill: none; stroke: #2a78d6; stroke-width: 2 }
.comparison .point { fill: #2a78d6 }
.comparison .zero { stroke: currentColor; stroke-dasharray: 4 3 }
.comparison .axis { stroke: currentColor; stroke-opacity: 0.4 }
@media (prefers-color-scheme: dark) {
  .comparison { background: #16181c; color: #e6e6e6 }
  .comparison .band, .comparison .point { fill: #6ab0ff }
  .comparison .line { stroke: #6ab0ff }
}
"""


@dataclass(frozen=True)
class _Look:
    """One look at a difference with a finite interval."""

    users: int
    estimate: Estimate


@dataclass(frozen=True)
class _Plane:
    """Mapping of users and differences to the picture.

    Attributes:
        users: Users at the right edge.
        low: Difference at the bottom.
        high: Difference at the top.
    """

    users: int
    low: float
    high: float

    def x(self, users: int) -> float:
        """Return the column of a number of users."""
        return LEFT + (WIDTH - LEFT - RIGHT) * users / self.users

    def y(self, value: float) -> float:
        """Return the row of a difference."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)

    def points(self, values: Sequence[tuple[int, float]]) -> str:
        """Return the points of a line through users and differences."""
        return " ".join(f"{self.x(users):.1f},{self.y(value):.1f}" for users, value in values)


def draw(history: Sequence[Comparison]) -> str:
    """Draw the primary metric of each variant against the control.

    Args:
        history: Looks in the order of time, at least one. Variants and verdicts are those of the last.
    """
    rows = [_row(difference, history) for difference in history[-1].primary]
    height = HEIGHT * len(rows)
    pictures = "".join(f'<g transform="translate(0 {HEIGHT * index})">{row}</g>' for index, row in enumerate(rows))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="comparison" role="img" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}"><style>{_STYLE}</style>'
        f'<clipPath id="plane"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}"'
        f' height="{HEIGHT - TOP - BOTTOM}"/></clipPath>{pictures}</svg>\n'
    )


def _row(last: Difference, history: Sequence[Comparison]) -> str:
    """Draw one variant."""
    control = history[-1].experiment.control
    title = f"{last.metric}: {last.variant} minus {control}, {last.text}"
    looks = [
        _Look(each.users + each.control_users, each.estimate)
        for comparison in history
        for each in comparison.primary
        if each.variant == last.variant and each.estimate and math.isfinite(each.estimate.lower)
    ]
    heading = f'<text x="{LEFT}" y="24" font-weight="bold">{escape(title)}</text>'
    if not looks:
        return f'{heading}<text x="{LEFT}" y="{HEIGHT // 2}">no interval yet</text>'
    plane = _plane(looks)
    return heading + _axes(plane) + f'<g clip-path="url(#plane)">{_sequence(looks, plane)}</g>'


def _plane(looks: Sequence[_Look]) -> _Plane:
    """Return the plane that shows the last interval and all estimates; the first intervals may be cut off."""
    final = looks[-1].estimate
    shown = [0.0, final.lower, final.upper, *(look.estimate.value for look in looks)]
    margin = 0.15 * (max(shown) - min(shown))
    return _Plane(max(look.users for look in looks), min(shown) - margin, max(shown) + margin)


def _axes(plane: _Plane) -> str:
    """Draw the frame with its labels."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    zero = plane.y(0)
    labels = "".join(
        f'<text x="{LEFT - 8}" y="{plane.y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        for value in (plane.low, 0.0, plane.high)
    )
    return (
        f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{bottom}"/>'
        f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
        f'<line class="zero" x1="{LEFT}" y1="{zero:.1f}" x2="{right}" y2="{zero:.1f}"/>{labels}'
        f'<text x="{LEFT}" y="{bottom + 18}">0</text>'
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{plane.users} users</text>'
    )


def _sequence(looks: Sequence[_Look], plane: _Plane) -> str:
    """Draw the estimates, the band of their intervals, and the last interval as a bar."""
    band = [(look.users, look.estimate.upper) for look in looks]
    band += [(look.users, look.estimate.lower) for look in reversed(looks)]
    last = looks[-1]
    bar = [(last.users, last.estimate.lower), (last.users, last.estimate.upper)]
    return (
        f'<polygon class="band" points="{plane.points(band)}"/>'
        f'<polyline class="line" points="{plane.points([(look.users, look.estimate.value) for look in looks])}"/>'
        f'<polyline class="line" points="{plane.points(bar)}"/>'
        f'<circle class="point" r="4" cx="{plane.x(last.users):.1f}" cy="{plane.y(last.estimate.value):.1f}"/>'
    )
