"""Words that speak of a risk; see `words.toml`."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from services.understanding.risk.domain import Kind, Severity

MISSPELT = {"im": "i'm", "ive": "i've", "dont": "don't", "doesnt": "doesn't", "wont": "won't", "cant": "can't"}

FLEE = re.compile(
    r"\b(?:house|home|flat|apartment|kitchen|room|bed|building|school|oven|stove|curtains?)(?:'s| is| are)"
    r" (?:on fire|burning)\b"
    r"|\bfire in (?:my|our|the) (?:house|home|flat|kitchen|room|building|hallway)\b"
    r"|\bsmoke (?:is )?(?:coming|pouring) (?:in|out|under|from|through)\b"
    r"|\bsmell(?:s|ing)? (?:of |like )?gas\b|\bsmell of gas\b|\bgas (?:smell|leak)"
    r"|\bcarbon monoxide (?:alarm|detector)[^.!?]*\b(?:off|beep\w*|ringing)\b"
)
"""Of lower-case text: fire and fumes where somebody is, who must not stay there."""
TOLD = re.compile(
    r"\b(?:novel|book|story|film|movie|game|show|dream\w*|song|episode|chapter|series|drill|years? ago)\b"
)
HELP = re.compile(r"^\W*(?:please |somebody |someone )?help(?: me)?(?: please| now)?\W*$")
MEANS = re.compile(
    r"\b(?:tie|make) a noose\b"
    r"|\bhow (?:many|much)\b[^.!?]*\b(?:pills|tablets|paracetamol|ibuprofen|insulin|of them)\b[^.!?]*"
    r"\b(?:(?:would|does) it take\b|kill\b|fatal\b|lethal\b)"
)

HOARDS = re.compile(r"\b(?:sav|hoard|collect|stockpil)(?:ing|ed)(?: up)? (?:\w+ ){0,3}(?:pills|tablets|meds|insulin)\b")
ASSAULTED = re.compile(r"\bi(?:'ve| have)?(?: just)? (?:was|got|been) (?:raped|sexually assaulted|molested)\b")
SHOOTS = re.compile(r"\bshoot(?:ing)?(?: up| at)? (?:the|my|our) (?:school|class|office|church|mosque|mall)\b")
POISONS = re.compile(
    r"\bput (?:\w+ )?(?:bleach|poison|antifreeze|weed ?killer) in(?:to)? (?:\w+(?:'s)? ){1,3}"
    r"(?:drink|water|coffee|tea|beer|wine|juice|soup|food|bottle|cup|glass|mug)\b"
)
DOUBTFUL = (
    (POISONS, Kind.HARM_TO_OTHERS, Severity.HIGH),
    (SHOOTS, Kind.HARM_TO_OTHERS, Severity.LOW),
    (ASSAULTED, Kind.VIOLENCE, Severity.LOW),
    (MEANS, Kind.SUICIDE, Severity.LOW),
    (HOARDS, Kind.SUICIDE, Severity.LOW),
)
"""Words of danger, not of a story, that are asked about where the readers find less."""


@dataclass(frozen=True)
class Said:
    """Kinds whose words a text has.

    Attributes:
        english: In English, where words alone mislead.
        other: In another language.
        must_flee: It tells of fire or fumes where somebody is.
        cries_for_help: It says "help" and nothing else.
        doubtful: A danger to ask about, and its severity, whatever the readers find; None for none.
    """

    english: frozenset[Kind]
    other: tuple[Kind, ...]
    must_flee: bool = False
    cries_for_help: bool = False
    doubtful: tuple[Kind, Severity] | None = None


def must_flee(text: str) -> bool:
    """Tell whether a text tells of fire or fumes where somebody is, and not of a story."""
    plain = text.lower().replace("\u2019", "'")
    return bool(FLEE.search(plain)) and not TOLD.search(plain)


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
            must_flee=must_flee(plain),
            cries_for_help=bool(HELP.search(plain)),
            doubtful=next(_doubtful(plain), None),
        )


def _doubtful(plain: str) -> Iterator[tuple[Kind, Severity]]:
    for pattern, kind, severity in DOUBTFUL:
        if pattern.search(plain) and not TOLD.search(plain):
            yield kind, severity


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))
