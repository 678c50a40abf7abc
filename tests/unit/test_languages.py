"""Languages of messages, and what is said in them."""

import re

import pytest

from services.understanding.languages import UNKNOWN, Languages
from services.understanding.risk.care import Care
from services.understanding.risk.domain import Heeded, Kind, Risk, Severity, Source
from services.understanding.risk.lines import HelpLines
from tests.support.tones import ALIKE

LANGUAGES = Languages()
KIN = {"no": {"no", "da", "sv", ""}, "da": {"no", "da", "sv", ""}, "sv": {"no", "da", "sv", ""}}
"""Languages that a short sentence cannot tell apart."""
CARE = Care(HelpLines({"DE": {"emergency": "112", "line": "TelefonSeelsorge, 0800 111 0 111"}}))


def test_there_is_a_reply_in_at_least_twenty_languages() -> None:
    assert len(LANGUAGES.known) >= 20
    assert CARE.others == {"de", "es", "fr", "zh"}
    assert set(CARE.others) <= set(LANGUAGES.known)


@pytest.mark.parametrize("language", sorted(LANGUAGES.known))
def test_a_reply_is_in_its_language(language: str) -> None:
    sentences = LANGUAGES.reply(language)
    assert len(sentences) == 3
    for sentence in sentences:
        assert LANGUAGES.language_of(sentence) in KIN.get(language, {language})


@pytest.mark.parametrize(
    "text",
    [
        "lol ok",
        "omg omg omg i got in",
        "blah blah",
        "blah blah blah",
        "my baby girl",
        "naïve café",
        "Bonjour!",
        "",
        "...",
        "\U0001f62d",
        "42",
    ],
)
def test_what_may_be_english_is_taken_for_it(text: str) -> None:
    assert LANGUAGES.language_of(text) == ""


@pytest.mark.parametrize(
    ("text", "language"), [("Привет", "ru"), ("你好", "zh"), ("こんにちは", "ja"), ("안녕", "ko"), ("สวัสดี", "th")]
)
def test_one_word_in_other_letters_is_enough(text: str, language: str) -> None:
    assert LANGUAGES.language_of(text) == language


def test_among_a_few_the_likeliest_is_taken_sure_or_not() -> None:
    assert LANGUAGES.language_of("tengo miedo", CARE.others) == "es"
    assert LANGUAGES.language_of("", CARE.others) == ""


def test_speech_in_no_known_language_is_answered_in_english() -> None:
    assert "English" in LANGUAGES.reply(UNKNOWN)[0]
    assert LANGUAGES.reply("tlh") == LANGUAGES.reply(UNKNOWN)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("language", sorted(CARE.others))
def test_care_in_other_languages_names_help_and_is_not_repeated(language: str, kind: Kind) -> None:
    heeded = Heeded(Risk(kind, Severity.HIGH, 1.0, Source.WORDS), is_new=True)
    first = CARE.reply(heeded, "x", (), "", 0, ALIKE, language)
    second = CARE.reply(heeded, "x", first, "", 0, ALIKE, language)
    assert first != second
    for reply in (first, second):
        assert LANGUAGES.language_of(" ".join(reply)) == language
        assert not re.search(r"[{}]|\d", " ".join(reply))
    assert "112" in " ".join(CARE.reply(heeded, "x", (), "DE", 0, ALIKE, language))
