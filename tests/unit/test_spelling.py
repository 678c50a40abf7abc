"""Signs, letters told apart and short forms of danger are spelled out; words stay as they are."""

import pytest

from services.understanding.spelling import readable, spelled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\U0001f62d\U0001f62d\U0001f62d", "loudly crying face"),
        ("\U0001f621 \U0001f494", "angry face, broken heart"),
        ("\u2764\ufe0f", "red heart"),
        ("\U0001f44d\U0001f3fd", "thumbs up"),
        ("We won \U0001f600", "We won \U0001f600"),
        ("...", "Hm."),
        ("??", "What?"),
        ("!!!", "Oh!"),
        (":-(", "sad face"),
        ("<3", "red heart"),
        ("31", "It's 31"),
        ("12:30.", "It's 12:30."),
        ("  ", "  "),
        ("", ""),
    ],
)
def test_a_message_of_emoji_alone_becomes_their_names(text: str, words: str) -> None:
    assert spelled(text) == words


def test_a_thousand_emoji_become_a_few_words() -> None:
    assert len(spelled("".join(map(chr, range(0x1F600, 0x1F640))) * 60)) < 400


def test_signs_among_words_are_named_in_their_place() -> None:
    assert readable("Great, Monday \U0001f643").split() == ["Great,", "Monday", "upside-down", "face"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gonna kms fr", "gonna kill myself fr"),
        ("I ran 10 kms, 4kms uphill", "I ran 10 kms, 4kms uphill"),
        ("i want to unalive myself", "i want to kill myself"),
        ("she was unalived", "she was killed"),
        ("thinking about sewer slide", "thinking about suicide"),
        ("I want to d i e", "I want to die"),
        ("k.i.l.l him", "kill him"),
        ("plan A or B", "plan A or B"),
    ],
)
def test_what_is_written_past_filters_is_read(text: str, words: str) -> None:
    assert readable(text) == words
