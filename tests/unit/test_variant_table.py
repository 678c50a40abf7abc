"""Tables of variants: valid ones are read and written, others refused with field, value and remedy."""

import json
from typing import Any

import pytest

from services.common.variants.table import HISTORY_MAX, InvalidTable, Table, dump, parse


def text(**fields: Any) -> str:
    stages = {"tts": {"variants": {"default": {"weight": 90}, "b": {"address": "voice-b:50054", "weight": 10}}}}
    return json.dumps({"version": 3, "stages": stages} | fields)


def test_a_table_is_read_as_it_was_written() -> None:
    assert parse(dump(parse(text()))) == parse(text())


def test_no_text_is_the_table_that_splits_nothing() -> None:
    assert parse("  \n") == Table()


def test_a_table_that_nobody_counts_has_a_version_of_its_content() -> None:
    one, again = parse(text(version=0)), parse(json.dumps(json.loads(text(version=0)), indent=3))
    other = parse(text(version=0, salt="other"))
    assert one.version == again.version != other.version
    assert one.version > 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"stagez": {}}, "stagez: is no key here; docs/variants.md lists them"),
        ({"version": -1}, "version: '-1'"),
        ({"owner": "nobody"}, "owner: 'nobody'"),
        (
            {"stages": {"tts": {"variants": {"default": {"weight": 90}}}}},
            "stages.tts: the weights sum to 90; make them 100",
        ),
        ({"stages": {"tts": {"variants": {}}}}, "stages.tts.variants"),
        ({"stages": {"tts": {"variants": {"b": {"weight": 100}}}}}, "stages.tts: control is 'default'; name one of"),
        (
            {"stages": {"tts": {"variants": {"default": {"state": "off"}, "b": {"weight": 100}}}}},
            "stages.tts: default is the control and off; let it serve, or name another control",
        ),
        ({"stages": {"TTS": {"variants": {"default": {"weight": 100}}}}}, "stages.TTS"),
        (
            {"stages": {"tts": {"variants": {"default": {"weight": 50}, "b": {"weight": 50, "state": "off"}}}}},
            "stages.tts: b is off with weight 50; give it weight 0",
        ),
        ({"stages": {"tts": {"variants": {"default": {"weight": 100, "address": "voice"}}}}}, "'voice' is no address"),
        ({"guardrails": {"video": {}}}, "guardrails names stage 'video'; use one of ['tts']"),
        (
            {"ramp": {"stage": "tts", "variant": "c", "weights": [50], "every_s": 60, "next_at_s": 0}},
            "ramp names variant 'c'; use one of ['b', 'default']",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_the_field(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidTable) as refused:
        parse(text(**fields))
    assert problem in str(refused.value)


def test_a_table_that_is_no_object_is_refused_with_what_was_given() -> None:
    with pytest.raises(InvalidTable, match=r"table: .* Input should be an object"):
        parse('["tts"]')


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidTable, match="Invalid JSON"):
        parse("stages: {}")


def test_a_history_has_an_end() -> None:
    change = {"version": 1, "at_s": 0.0, "by": "", "why": "", "summary": "", "stages": {}}
    parse(text(history=[change] * HISTORY_MAX))
    with pytest.raises(InvalidTable, match="history"):
        parse(text(history=[change] * (HISTORY_MAX + 1)))
