"""How much each voter's word weighs: a versioned table, learned by `services.understanding.training.weights`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emotions import Wheel

FOLDER = Path(__file__).parent / "weights"
LEAST, MOST = 0.001, 1000.0
"""Range of a weight. None is 0: a vote that weighs nothing at all would be none, and yet be counted."""


@dataclass(frozen=True)
class Weights:
    """What the votes of a panel weigh.

    Attributes:
        version: Name of the table; empty when nothing was learned and all weigh the same.
        votes: Per voter and class: what its vote for the class weighs under "weighted"; above 0.
        pool: Per voter: the exponent of its distribution under "pooled", relative to the others'; above 0.
        votes_default: Per class: what the vote of a voter weighs that is not in `votes`; 1 where it says nothing.
        pool_default: The exponent of a voter that is not in `pool`.
    """

    version: str
    votes: Mapping[str, Mapping[str, float]]
    pool: Mapping[str, float]
    votes_default: Mapping[str, float] = field(default_factory=dict)
    pool_default: float = 1.0

    def of_vote(self, voter: str, face_class: str) -> float:
        """Returns what a vote of `voter` for `face_class` weighs."""
        return self.votes[voter][face_class] if voter in self.votes else self.votes_default.get(face_class, 1.0)

    def of_pool(self, voter: str) -> float:
        """Returns the exponent of the distribution of `voter`."""
        return self.pool.get(voter, self.pool_default)


EQUAL = Weights("", {}, {})
"""One voter, one vote."""


def load(name: str, wheel: Wheel) -> Weights:
    """Reads a table of weights.

    Args:
        name: Of a table that ships ("embedded-1"), or the path of a file, which ends in ".toml".
        wheel: The panel's emotion wheel.

    Raises:
        FileNotFoundError: There is no such table; the message lists those that ship.
        ValueError: It was learned for another wheel, or is no table of weights; the message says what is wrong.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        ship = ", ".join(sorted(file.stem for file in FOLDER.glob("*.toml"))) or "none"
        raise FileNotFoundError(f"weights {name!r}: {path} is no file; shipped tables: {ship}")
    try:
        return parse(path.read_text("utf-8"), wheel)
    except ValueError as error:  # TOML's own among them
        raise ValueError(f"weights {path}: {error}") from error


def parse(text: str, wheel: Wheel) -> Weights:
    """Returns the weights that `text`, TOML as the program writes it, describes.

    Raises:
        ValueError: It was learned for another wheel, or is no table of weights; the message says what is wrong.
    """
    content = tomllib.loads(text)
    try:
        found = str(content["ontology_hash"])
        if found != wheel.digest:
            raise ValueError(
                f"they were learned for emotion wheel {found[:12]}, the panel's is {wheel.digest[:12]}; learn them anew"
            )
        rows: Mapping[str, Any] = content["voters"]
        votes = {name: _by_class(row["votes"], wheel) for name, row in rows.items()}
        pool = {name: _weight(row["pool"]) for name, row in rows.items()}
        default = content["default"]
        return Weights(
            str(content["version"]), votes, pool, _by_class(default["votes"], wheel), _weight(default["pool"])
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"they are incomplete: {error}") from error


def _by_class(row: Mapping[str, Any], wheel: Wheel) -> dict[str, float]:
    return {name: _weight(row[name]) for name in wheel.classes}


def _weight(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not LEAST <= value <= MOST:
        raise ValueError(f"{value!r} is no weight; use a number from {LEAST:g} to {MOST:g}")
    return float(value)
