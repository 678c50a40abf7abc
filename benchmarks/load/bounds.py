"""Bounds on figures of a load, which fail it."""

import difflib
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from benchmarks.load.errors import ProfileError

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Bound:
    """Condition under which a run fails, such as `lost>0`."""

    name: str
    operator: str
    limit: float

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{self.limit:g}"

    def failure(self, figures: Mapping[str, float | None]) -> str:
        """Say why a run with these figures fails; empty when it does not. What was not measured fails."""
        value = figures[self.name]
        if value is None:
            return f"{self}: nothing was measured"
        return f"{self}: it is {value:.4g}" if OPERATORS[self.operator](value, self.limit) else ""


def parse_bound(text: str, names: Collection[str]) -> Bound:
    """Read a bound on one of the figures `names`.

    Raises:
        ProfileError: It is none.
    """
    found = re.fullmatch(r"\s*([\w.]+)\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)?)\s*", text)
    if not found:
        raise ProfileError("fail-if", f"{text!r}; give NAME>NUMBER, like lost>0 or first_video_p95_s>3")
    if found[1] not in names:
        near = difflib.get_close_matches(found[1], names, 3, 0.5) or sorted(names)[:3]
        raise ProfileError("fail-if", f"{found[1]!r} is no figure; there are {', '.join(near)}, … (see --help)")
    return Bound(found[1], found[2], float(found[3]))
