"""What a turn may be: each refusal names the field and says what would be right."""

import re
from dataclasses import replace
from typing import Any

import pytest

from services.common.errors import InvalidRequest, TooLarge
from services.memory.domain import Turn
from services.memory.talks.turn_checks import check_turn
from tests.talking import turn


def changed(**changes: Any) -> Turn:
    return replace(turn(1), **changes)


@pytest.mark.parametrize("field", ["id", "user_text", "user_emotion", "reply_text", "reply_emotion"])
def test_a_turn_with_an_empty_field_is_refused(field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^turn.{field}: "):
        check_turn(changed(**{field: ""}))


@pytest.mark.parametrize("field", ["user_emotion", "reply_emotion"])
def test_a_feeling_that_is_no_label_of_the_wheel_is_refused(field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^turn.{field}: 'meh' is unknown; use one of: neutral"):
        check_turn(changed(**{field: "meh"}))


LARGEST: dict[str, Any] = {
    "user_text": "x" * 32_000,
    "reply_text": "x" * 32_000,
    "vote_record": "00" * 65_536,
    "variants": {f"service {number}": "x" * 100 for number in range(32)},
    "timings_s": {f"{number:100}": 1e9 for number in range(32)},
}


def test_the_largest_turn_passes() -> None:
    check_turn(changed(user_intensity=1.0, **LARGEST))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_text", "x" * 32_001),
        ("reply_text", "x" * 32_001),
        ("vote_record", "00" * 65_537),
        ("variants", {str(number): "x" for number in range(33)}),
        ("variants", {"mllm": "x" * 101}),
        ("timings_s", {str(number): 1.0 for number in range(33)}),
        ("timings_s", {"x" * 101: 1.0}),
    ],
)
def test_what_is_larger_than_the_limit_is_refused(field: str, value: object) -> None:
    with pytest.raises(TooLarge, match=f"^turn.{field}.*at most"):
        check_turn(changed(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_intensity", -0.1),
        ("user_intensity", 1.1),
        ("user_intensity", float("nan")),
        ("vote_record", "0"),
        ("vote_record", "xy"),
        ("variants", {"": "a"}),
        ("variants['mllm']", {"mllm": ""}),
        ("timings_s", {" ": 1.0}),
        ("timings_s['vote']", {"vote": float("inf")}),
        ("timings_s['vote']", {"vote": -1.0}),
    ],
)
def test_what_is_no_such_value_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"^turn.{re.escape(field)}"):
        check_turn(changed(**{field.partition("[")[0]: value}))
