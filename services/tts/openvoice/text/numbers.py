"""Spells out what English readers say for digits, amounts and abbreviations, as both base speakers were trained to.

Both front-ends go back to keithito's Tacotron cleaners; they differ in money, in signs and in the time of day.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import inflect

_WORDS = inflect.engine()

DIGITS_MAX: Final = 30
"""A longer number is read digit by digit: the engine knows names up to the undecillions only."""

ABBREVIATIONS: Final = {
    "mrs": "misess",  # so spelled in the training data
    "mr": "mister",
    "dr": "doctor",
    "st": "saint",
    "co": "company",
    "jr": "junior",
    "maj": "major",
    "gen": "general",
    "drs": "doctors",
    "rev": "reverend",
    "lt": "lieutenant",
    "hon": "honorable",
    "sgt": "sergeant",
    "capt": "captain",
    "esq": "esquire",
    "ltd": "limited",
    "col": "colonel",
    "ft": "fort",
}

_ABBREVIATION = re.compile(rf"\b({'|'.join(ABBREVIATIONS)})\.", re.IGNORECASE)
_GROUPED = re.compile(r"[0-9][0-9,]+[0-9]")
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+")
_ORDINAL = re.compile(r"([0-9]+)(st|nd|rd|th)")
_TIME = re.compile(r"\b(0?[0-9]|1[0-9]|2[0-3]):([0-5][0-9])\s*(am|pm)?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Coin:
    """What an amount is called: of one, of several, of one hundredth, of several hundredths."""

    one: str
    many: str
    cent: str
    cents: str


DOLLAR: Final = Coin("dollar", "dollars", "cent", "cents")
_NAMES: Final = {"£": "pounds", "€": "euros", "¥": "yen"}
_COINS: Final = {
    "$": DOLLAR,
    "£": Coin("pound sterling", "pounds sterling", "penny", "pence"),
    "¥": Coin("yen", "yen", "sen", "sen"),
}


def abbreviations(text: str) -> str:
    """Writes out titles and the like: "dr." becomes "doctor"."""
    return _ABBREVIATION.sub(lambda found: ABBREVIATIONS[found[1].lower()], text)


def money(text: str, signs: str) -> str:
    """Writes the names of `signs` behind their amounts: what a front-end would lose before it came to them."""
    return re.sub(rf"([{signs}])([0-9][0-9,.]*[0-9]|[0-9])", lambda found: f"{found[2]} {_NAMES[found[1]]}", text)


def openvoice(text: str) -> str:
    """Spells out numbers as OpenVoice V1's cleaner does: dollars and pounds, "dollars, cents" with a comma."""
    text = _GROUPED.sub(_ungrouped, text)
    text = re.sub(r"£([0-9,]*[0-9]+)", r"\1 pounds", text)
    text = re.sub(r"\$([0-9.,]*[0-9]+)", lambda found: _amount(found[1], DOLLAR, "dollars", ", "), text)
    return _numbers(text, r"[0-9]+")


def melo(text: str) -> str:
    """Spells out numbers as MeloTTS' normaliser does: also yen and minus signs."""
    text = _GROUPED.sub(_ungrouped, text)
    text = re.sub(r"([£$¥])([0-9,.]*[0-9]+)", _money, text)
    return _numbers(text, r"-?[0-9]+")


def times(text: str) -> str:
    """Spells out times of day as MeloTTS does: "7:05 pm" becomes "seven oh five p m"; without a half, it is told."""
    return _TIME.sub(_time, text)


def _money(found: re.Match[str]) -> str:
    coin = _COINS[found[1]]
    return _amount(found[2], coin, coin.many, " ")


def _amount(value: str, coin: Coin, unit: str, joint: str) -> str:
    parts = value.replace(",", "").split(".")
    if len(parts) > 2:
        return f"{value} {unit}"
    whole = _integer(parts[0])
    # "$1.5" says five cents: so the cleaners that the speakers heard.
    part = _integer(parts[1]) if len(parts) == 2 else 0
    said = []
    if whole:
        said.append(f"{whole} {coin.one if whole == 1 else coin.many}")
    if part:
        said.append(f"{part} {coin.cent if part == 1 else coin.cents}")
    return joint.join(said) or f"zero {unit}"


def _integer(digits: str) -> int:
    # int() refuses thousands of digits; an amount that long is nonsense, and its first digits are as good.
    return int(digits[:DIGITS_MAX] or "0")


def _ungrouped(found: re.Match[str]) -> str:
    return found[0].replace(",", "")


def _numbers(text: str, integer: str) -> str:
    text = _DECIMAL.sub(lambda found: found[0].replace(".", " point "), text)
    text = _ORDINAL.sub(lambda found: _said(found[1], lambda number: _name(f"{number}{found[2]}")), text)
    return re.sub(integer, lambda found: _said(found[0], _cardinal), text)


def _said(digits: str, say: Callable[[int], str]) -> str:
    if len(digits) > DIGITS_MAX:
        return " ".join(_name(int(digit)) for digit in digits if digit.isdigit())
    return say(int(digits))


def _cardinal(number: int) -> str:
    """Reads 1001 to 2999 as years ("nineteen eighty-four"), other numbers as amounts."""
    if not 1000 < number < 3000:
        return _name(number, andword="")
    if number == 2000:
        return "two thousand"
    if 2000 < number < 2010:
        return f"two thousand {_name(number % 100)}"
    if number % 100 == 0:
        return f"{_name(number // 100)} hundred"
    return _name(number, andword="", zero="oh", group=2).replace(", ", " ")


def _name(number: int | str, **style: str | int) -> str:
    return str(_WORDS.number_to_words(number, **style))


def _time(found: re.Match[str]) -> str:
    hour, minute, half = int(found[1]), int(found[2]), found[3]
    said = [_name(hour - 12 if hour > 12 else hour or 12)]
    if minute:
        said += ["oh"] * (minute < 10) + [_name(minute)]
    # Midnight counts as past noon in the training data.
    letters = half or ("pm" if hour >= 12 or hour == 0 else "am")
    return " ".join([*said, *letters])
