"""Chance-corrected agreement: its value, its bounds, what has none, and how it forgets."""

import random

import pytest

from services.understanding.agreement import Kappa, Share

FOREVER = 1e9


def kappa(pairs: dict[str, int], half_life: float = FOREVER) -> Kappa:
    """Kappa of a table: how often two voters said two classes, each by its first letter."""
    found = Kappa(half_life)
    for pair, count in pairs.items():
        for _ in range(count):
            found.add(pair[0], pair[1])
    return found


def test_it_is_cohens_kappa_with_its_standard_error() -> None:
    # Fleiss, Cohen and Everitt 1969, table 1, of 200 objects.
    table = {"aa": 106, "ab": 10, "ac": 4, "ba": 22, "bb": 28, "bc": 10, "ca": 2, "cb": 12, "cc": 6}
    found = kappa(table)
    assert found.value == pytest.approx(0.429, abs=5e-4)
    assert found.messages == pytest.approx(200, rel=1e-3)
    assert (found.high - found.low) / 2 == pytest.approx(1.645 * (0.054 + 1 / (200 * 0.525)), abs=2e-3)


@pytest.mark.parametrize("happy", [1, 30, 99])
def test_who_always_says_one_class_has_none_whatever_the_base_rate(happy: int) -> None:
    found = kappa({"hh": happy, "hs": 100 - happy})
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.low < 0 < found.high


def test_two_that_always_say_the_same_class_are_no_evidence() -> None:
    found = kappa({"hh": 500})
    assert (found.value, found.low, found.high) == (None, -1, 1)


def test_a_constant_voter_is_surely_low_only_after_messages_on_which_others_differed() -> None:
    assert kappa({"hh": 4, "hs": 6}).high > 0.1
    assert kappa({"hh": 95, "hs": 5}).high > 0.1
    assert kappa({"hh": 40, "hs": 60}).high < 0.1


def test_old_messages_are_forgotten() -> None:
    chance = random.Random(1)
    found = Kappa(50)
    for _ in range(400):
        said = chance.choice("hsf")
        found.add(said, said)
    assert found.value == pytest.approx(1)
    for _ in range(400):
        found.add("h", chance.choice("hsf"))
    assert found.value == pytest.approx(0, abs=0.02)
    assert found.messages == pytest.approx(145, rel=0.02)


def test_a_share_is_of_the_last_messages() -> None:
    share = Share(10)
    assert share.value == 0
    for _ in range(100):
        share.add(True)
    for _ in range(10):
        share.add(False)
    assert share.value == pytest.approx(0.5, abs=0.01)
