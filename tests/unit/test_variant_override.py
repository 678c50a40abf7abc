"""Variants that a call names for itself."""

import pytest

from orchestrator.variants.override import HEADER, named, parse
from services.common.errors import FailedPrecondition, InvalidRequest


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tts=b", {"tts": "b"}),
        (" tts=b , mllm-text=llama-8b ", {"tts": "b", "mllm-text": "llama-8b"}),
        ("tts=b,tts=b", {"tts": "b"}),
    ],
)
def test_a_call_names_a_variant_for_each_of_some_stages(text: str, found: dict[str, str]) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "e3rg-variant: ''; send stage=variant, such as tts=b,video=c"),
        ("tts", "e3rg-variant: 'tts'; send stage=variant"),
        ("tts=b,", "e3rg-variant: ''; send stage=variant"),
        ("tts=B", "e3rg-variant: 'tts=B'; send stage=variant"),
        ("tts=b=c", "e3rg-variant: 'tts=b=c'; send stage=variant"),
        ("tts=b,tts=c", "e3rg-variant: tts has two variants, b and c; send one"),
    ],
)
def test_words_that_name_no_variant_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(text)
    assert problem in str(refused.value)


def test_several_headers_count_together_and_others_do_not() -> None:
    metadata: list[tuple[str, str | bytes]] = [(HEADER, "tts=b"), ("user-agent", "x"), (HEADER, b"video=c")]
    assert named(metadata, admin=True) == {"tts": "b", "video": "c"}
    assert named([("user-agent", "x")], admin=False) == {}


def test_only_a_gateway_that_administers_variants_lets_a_call_name_them() -> None:
    with pytest.raises(FailedPrecondition, match="set E3RG_ORCHESTRATOR_VARIANT_ADMIN=true"):
        named([(HEADER, "tts=b")], admin=False)
