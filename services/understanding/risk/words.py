"""Words that speak of a risk; see `words.toml`."""

import re
import tomllib
from dataclasses import dataclass
from importlib import resources

from services.understanding.risk.domain import Kind

MISSPELT = {"im": "i'm", "ive": "i've", "dont": "don't", "doesnt": "doesn't", "wont": "won't", "cant": "can't"}


@dataclass(frozen=True)
class Said:
    """Kinds whose words a text has.

    Attributes:
        english: In English, where words alone mislead.
        other: In another language.
    """

    english: frozenset[Kind]
    other: tuple[Kind, ...]


class RiskWords:
    """Patterns of each kind of risk."""

    def __init__(self) -> None:
        content = tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))
        self._figures = _any(content.pop("figures")["english"])
        self._english = {Kind(kind): _any(patterns["english"]) for kind, patterns in content.items()}
        self._other = {Kind(kind): _any(patterns["other"]) for kind, patterns in content.items()}

    def find(self, text: str) -> Said:
        """Return the kinds whose words a text has."""
        plain = " ".join(MISSPELT.get(word, word) for word in text.lower().replace("\u2019", "'").split())
        said = self._figures.sub(" ", plain)
        return Said(
            english=frozenset(kind for kind, pattern in self._english.items() if pattern.search(said)),
            other=tuple(kind for kind, pattern in self._other.items() if pattern.search(said)),
        )


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))
