"""Second listener: when it is asked, and what it makes of what it hears."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from services.mllm.domain import Transcript
from services.mllm.voice.listener import UNKNOWN, Listener, is_unsure

SPEECH = np.zeros(16_000, np.float32)


class ToldWhisper:
    """Recogniser that hears what it is told to."""

    def __init__(self, chances: Mapping[str, float], text: str) -> None:
        self._ranks = sorted(chances.items(), key=lambda one: -one[1])
        self._text = text

    def detect_language(self, speech: object) -> tuple[str, float, list[tuple[str, float]]]:
        return *self._ranks[0], self._ranks

    def transcribe(self, speech: object, language: str, **options: object) -> tuple[Iterable[Any], None]:
        return [SimpleNamespace(text=f" {self._text} ")], None


def segment(logprob: float, compression: float = 1.0, tokens: int = 9) -> Any:
    return SimpleNamespace(avg_logprob=logprob, compression_ratio=compression, tokens=[0] * tokens)


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([], True),
        ([segment(-0.1)], False),
        ([segment(-0.9)], True),
        ([segment(-0.1, compression=19.0)], True),
        ([segment(-0.1, tokens=99), segment(-0.9, tokens=4)], False),
        ([segment(-0.1, tokens=4), segment(-0.9, tokens=99)], True),
    ],
)
def test_english_words_are_doubted_when_they_are_unlikely_or_go_in_circles(segments: list[Any], expected: bool) -> None:
    assert is_unsure(segments) is expected


@pytest.mark.parametrize(
    ("chances", "text", "heard"),
    [
        ({"de": 0.97, "en": 0.01}, "Guten Tag.", Transcript("Guten Tag.", "de", 0.0)),
        ({"de": 0.97, "en": 0.01}, "", UNKNOWN),
        ({"de": 0.5, "nl": 0.4, "en": 0.05}, "Guten Tag.", UNKNOWN),
        ({"de": 0.8, "en": 0.15}, "Guten Tag.", None),
        ({"en": 0.9, "de": 0.05}, "Good day.", None),
    ],
)
def test_a_language_is_told_where_it_is_sure_and_an_accent_is_none(
    chances: Mapping[str, float], text: str, heard: Transcript | None
) -> None:
    assert Listener(cast(Any, ToldWhisper(chances, text))).hear(SPEECH) == heard
