"""The operator's help lines by country."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from services.common.errors import InvalidRequest
from services.understanding.risk.domain import Kind

ANYWHERE = {"emergency": "your local emergency number", "line": "a crisis line in your country"}
ANYWHERE_LINES = {
    Kind.VIOLENCE: "a domestic violence line in your country",
    Kind.CHILD: "a child helpline in your country",
}
"""Words that hold where no number is known."""
KEYS = frozenset({"emergency", "line", *Kind})
COUNTRY = re.compile(r"[A-Z]{2}")
BEGINNING = re.compile(r"(?:^|[.!?] )[a-z]")
"""Of a sentence, where the words that hold everywhere may stand."""


@dataclass(frozen=True)
class HelpLines:
    """Help lines by ISO 3166-1 alpha-2 code: `emergency`, `line` for all kinds, and one for a kind.

    Attributes:
        countries: The table; empty names no number anywhere.
        default: Country of a request that names none; empty for none.
    """

    countries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    default: str = ""

    def fill(
        self, reply: Sequence[str], kind: Kind, country: str, anywhere: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return the sentences of a reply with the numbers of a country, or with words that hold everywhere.

        Args:
            reply: The sentences.
            kind: Kind of risk.
            country: Its code; empty for the default.
            anywhere: Words of another language, `emergency` and `line`.
        """
        table = self.countries.get(country or self.default, {})
        words = anywhere or ANYWHERE | ({"line": ANYWHERE_LINES[kind]} if kind in ANYWHERE_LINES else {})
        emergency = table.get("emergency", words["emergency"])
        line = table.get(kind) or table.get("line") or words["line"]
        filled = (sentence.format(emergency=emergency, line=line) for sentence in reply)
        return tuple(BEGINNING.sub(lambda found: found[0].upper(), sentence) for sentence in filled)


def check_table(countries: Mapping[str, Mapping[str, str]], default: str) -> None:
    """Check a table of help lines.

    Raises:
        ValueError: A code, a key or a value is none, or the default country is not in it.
    """
    for country, table in countries.items():
        if not COUNTRY.fullmatch(country):
            raise ValueError(f"help_lines: {country!r} is no country; use codes of ISO 3166-1 like 'DE'")
        for key, value in table.items():
            if key not in KEYS:
                raise ValueError(f"help_lines: {country}: {key!r}; use one of: {', '.join(sorted(KEYS))}")
            if not value.strip() or "{" in value:
                raise ValueError(f"help_lines: {country}: {key} is {value!r}; write a number, or a name and a number")
    if default and default not in countries:
        known = ", ".join(countries) or "nothing"
        raise ValueError(f"help_country is {default!r}, which help_lines does not have; it has: {known}")


def check_country(country: str) -> None:
    """Refuse a country that is no code.

    Raises:
        InvalidRequest: It is not empty and no code of two capital letters.
    """
    if country and not COUNTRY.fullmatch(country):
        raise InvalidRequest("country", f"{country!r}; send a code of ISO 3166-1 like 'DE', or leave it out")
