"""Messages of signs alone are spelled out; words stay as they are."""

import pytest

from services.understanding.spelling import spelled, with_names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\U0001f62d\U0001f62d\U0001f62d", "loudly crying face"),
        ("\U0001f621 \U0001f494", "angry face, broken heart"),
        ("\u2764\ufe0f", "red heart"),
        ("\U0001f44d\U0001f3fd", "thumbs up"),
        ("We won \U0001f600", "We won \U0001f600"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_a_message_of_emoji_alone_becomes_their_names(text: str, words: str) -> None:
    assert spelled(text) == words


def test_a_thousand_emoji_become_a_few_words() -> None:
    assert len(spelled("".join(map(chr, range(0x1F600, 0x1F640))) * 60)) < 400


def test_signs_among_words_are_named_in_their_place() -> None:
    assert with_names("Great, Monday \U0001f643").split() == ["Great,", "Monday", "upside-down", "face"]
