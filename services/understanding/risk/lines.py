"""The operator's help lines by country."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(frozen=True)
class HelpLines:
    """Help lines by ISO 3166-1 alpha-2 code: `emergency`, `line` for all kinds, and one for a kind.

    Attributes:
        countries: The table; empty names no number anywhere.
        default: Country of a request that names none; empty for none.
    """

    countries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    default: str = ""

    def fill(self, reply: Sequence[str], kind: Kind, country: str) -> tuple[str, ...]:
        """Return the sentences of a reply with the numbers of a country, or with words that hold everywhere."""
        table = self.countries.get(country or self.default, {})
        emergency = table.get("emergency", ANYWHERE["emergency"])
        line = table.get(kind) or table.get("line") or ANYWHERE_LINES.get(kind, ANYWHERE["line"])
        filled = (sentence.format(emergency=emergency, line=line) for sentence in reply)
        return tuple(sentence[0].upper() + sentence[1:] for sentence in filled)


def load(path: Path | None, default: str) -> HelpLines:
    """Read a table of help lines in TOML: a section for each country.

    Raises:
        ValueError: It cannot be read; a code, a key or a value is none; or it lacks the default country.
    """
    if path is None:
        if default:
            raise ValueError(f"help_country is {default!r}, but help_lines names no table")
        return HelpLines()
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"help_lines: {path} cannot be read: {error}") from error
    for country, table in content.items():
        if not COUNTRY.fullmatch(country) or not isinstance(table, dict):
            raise ValueError(f"help_lines: {path}: [{country}] is no country; use codes like [DE]")
        for key, value in table.items():
            if key not in KEYS:
                raise ValueError(f"help_lines: {path}: {country}.{key}: use one of: {', '.join(sorted(KEYS))}")
            if not (isinstance(value, str) and value.strip()) or "{" in value:
                raise ValueError(f"help_lines: {path}: {country}.{key} is {value!r}; write a number, or a name and one")
    if default and default not in content:
        raise ValueError(f"help_country is {default!r}, which {path} does not have; it has: {', '.join(content)}")
    return HelpLines(content, default)


def check_country(country: str) -> None:
    """Refuse a country that is no code.

    Raises:
        InvalidRequest: It is not empty and no code of two capital letters.
    """
    if country and not COUNTRY.fullmatch(country):
        raise InvalidRequest("country", f"{country!r}; send a code of ISO 3166-1 like 'DE', or leave it out")
