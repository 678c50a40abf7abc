"""A label is read out of an answer, or none is: never a guess."""

import pytest

import emotions
from services.mllm.chat.parse import LabelParser
from services.mllm.chat.question import EmotionPrompt

LABELS = tuple(emotions.load().labels)
PROMPT = EmotionPrompt.load("emotion-1")


@pytest.fixture(scope="module")
def parser() -> LabelParser:
    return LabelParser(LABELS, PROMPT.forms, PROMPT.beside)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    "form",
    [
        "LABEL",
        "  LABEL.\n",
        "LABEL!",
        '"LABEL"',
        "**LABEL**",
        "_LABEL_",
        "`LABEL`",
        "\u201cLABEL\u201d",
        "Emotion: LABEL",
        "The speaker most likely feels LABEL.",
        "It's LABEL, no doubt.",
        '{"emotion": "LABEL"}',
        '```json\n{"Emotion": ["LABEL"], "confidence": 0.9}\n```',
        "{'label': 'LABEL', 'confidence': 'not high'}",
        "<think>\nhappy? No. Perhaps angry or proud.\n</think>\n\nLABEL",
        "happy, or is it fear? </think> LABEL",
        "not LABEL? I can't say that; it is LABEL, LABEL.",
    ],
)
def test_a_label_is_found_however_it_is_dressed(parser: LabelParser, form: str, label: str) -> None:
    assert parser.parse(form.replace("LABEL", label)) == label
    assert parser.parse(form.replace("LABEL", label.upper())) == label


@pytest.mark.parametrize(("label", "form"), [(label, form) for label in LABELS for form in PROMPT.forms[label]])
def test_a_form_of_a_label_means_the_label(parser: LabelParser, label: str, form: str) -> None:
    assert parser.parse(f"{form.capitalize()}.") == label


def test_the_forms_are_of_exactly_the_labels_of_the_wheel() -> None:
    assert set(PROMPT.forms) == set(LABELS)


@pytest.mark.parametrize("word", ["unhappy", "discontent", "unafraid", "sadistic", "contents", "mistrust"])
def test_a_label_within_another_word_is_none(parser: LabelParser, word: str) -> None:
    assert parser.parse(word) == ""


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("not happy but sad", "sad"),
        ("Sad, not happy.", "sad"),
        ("not happy, sad", "sad"),
        ("No, sad.", "sad"),
        ("Happy? No. Sad.", "sad"),
        ("Is it fear? no, it is shame", "ashamed"),
        ("Sad?", "sad"),
        ("I can't say it is anger, rather fear", "fear"),
        ("I can\u2019t say it is anger, rather fear", "fear"),
        ("It isnt joy. It is pride.", "proud"),
        ("neither happy nor angry, just lonely", "lonely"),
        ("lonely rather than sad", "lonely"),
        ("more sad than angry", "sad"),
        ("anxious instead of excited", "anxious"),
        ("It is anything but joy; it is guilt.", "guilty"),
        ("far from content: furious", "furious"),
        ("not, I think, happy. Jealous", "jealous"),
        ("un-happy, or rather: sad", "sad"),
        ("none other than disgust", "disgusted"),
        ("Nothing but shame", "ashamed"),
        ("not only sad", "sad"),
        ("I'm happy to help! The emotion is sad.", "sad"),
        ("I'm afraid it is contempt.", "contempt"),
        ("The content of the dialogue points to nostalgia. I hope this helps.", "nostalgic"),
        ("SAD", "sad"),
        ("\uff33\uff41\uff44", "sad"),
        ("s\u00adad", "sad"),
    ],
)
def test_what_is_denied_or_said_beside_does_not_count(parser: LabelParser, answer: str, label: str) -> None:
    assert parser.parse(answer) == label


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "banana",
        "???",
        "I cannot tell.",
        "happy or sad",
        "sad/lonely",
        "joy and excitement",
        "happy, but also anxious",
        "not happy",
        "Happy? No.",
        "The speaker isn't angry.",
        "neither happy nor sad",
        "I'm not sure if it is sad",
        "less happy than sad",
        ", ".join(LABELS),
        "<think>sad, clearly",
        '{"emotion": "melancholic"}',
        '{"emotion": "sad or angry"}',
    ],
)
def test_none_or_two_is_no_answer(parser: LabelParser, answer: str) -> None:
    assert parser.parse(answer) == ""


def test_a_word_that_would_mean_two_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="'gloom' of 'angry'"):
        LabelParser(("sad", "angry"), {"sad": ["gloom"], "angry": ["gloom"]})
    with pytest.raises(ValueError, match="'dread' of 'scared'"):
        LabelParser(("sad",), {"scared": ["dread"]})
