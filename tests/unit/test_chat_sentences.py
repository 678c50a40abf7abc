# ruff: noqa: RUF001 - marks of other scripts are meant
"""Sentences leave a stream as soon as they are whole, and in a form that can be spoken."""

import pytest

from perception.language import LanguageReader
from services.mllm.chat.sentences import Sentences
from services.mllm.chat.speakable import speakable
from services.mllm.chat.thoughts import without_thoughts


def cut(text: str, size: int) -> list[str]:
    sentences = Sentences()
    found = [sentence for at in range(0, len(text), size) for sentence in sentences.add(text[at : at + size])]
    return [*found, *filter(None, [sentences.finish()])]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "I am sorry.|Tell me more.",
        "I met Dr. Who and Mrs. Peel.|They were kind.",
        "It costs 3.5 or 1,000.50 dollars.|That is much!",
        "Do something nice, e.g. a walk, i.e. go out.|Will you?",
        "Well... I see...|Maybe.",
        "Well… maybe not.|Good.",
        "What?!|No way!!|Really?",
        'He said "Stop!" and left.|"I am here."|Good.',
        "“I am here.”|Good.",
        "At 5 p.m. on Monday.|See you.",
        "That is the U.S. army.|Yes.",
        "J. K. Rowling wrote it.|So do I.|Good.",
        "No.|I said no.",
        "See No. 5 there.|Good.",
        "1. Breathe in.|2. Breathe out.",
        "One line\n|another line",
        "你好。|你怎么样？|太好了！|“真的吗？”|好",
        "それは大変でしたね。|「はい。」|話して",
        "No end at all",
    ],
)
def test_a_text_is_cut_where_its_sentences_end_in_whatever_pieces_it_comes(text: str, size: int) -> None:
    parts = [part.strip() for part in text.split("|")]
    joint = "" if "。" in text else " "
    if text.startswith("Well... I"):
        parts = ["Well...", "I see...", "Maybe."]
    assert cut(joint.join(text.split("|")), size) == parts


def test_a_sentence_is_there_at_the_first_letter_of_the_next() -> None:
    sentences = Sentences()
    assert sentences.add("I am here.") == []
    assert sentences.add(" ") == []
    assert sentences.add("W") == ["I am here."]
    assert sentences.add("hy?\n") == ["Why?"]
    assert sentences.add("你好。") == []
    assert sentences.add("你") == ["你好。"]
    assert sentences.finish() == "你"
    assert sentences.finish() == ""


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>hm. well</think>I see.", "I see."),
        ("Yes <think>or no</think>and <think></think>no.", "Yes and no."),
        ("<Thinking>hm</thinking>I <thought>am</thought>see.", "I see."),
        ("<think>it never ends", ""),
        ("a < b <thin> </b>", "a < b <thin> </b>"),
        ("I see.<thi", "I see.<thi"),
        ("", ""),
    ],
)
def test_thoughts_are_left_out_of_a_stream(text: str, left: str, size: int) -> None:
    assert "".join(without_thoughts(text[at : at + size] for at in range(0, len(text), size))) == left


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Listener: I'm here.", "I'm here."),
        ("**Assistant:** I'm here.", "I'm here."),
        ("Anna: I'm here.", "I'm here."),
        ("Reply - I'm here.", "Reply - I'm here."),
        ('"I\'m here."', "I'm here."),
        ("“I'm here.", "I'm here."),
        ('He said "no" to you.', 'He said "no" to you.'),
        ("*smiles softly* I'm here.", "I'm here."),
        ("(pauses) I'm here.", "I'm here."),
        ("*sighs*", ""),
        ("*Really* sad, that.", "Really sad, that."),
        ("It is **so** _very_ `hard`.", "It is so very hard."),
        ("- I'm here.", "I'm here."),
        ("1. I'm here.", "I'm here."),
        ("# I'm here.", "I'm here."),
        ("I'm here. 😢❤️", "I'm here."),
        ("I'm here :)", "I'm here"),
        ("[I'm here](https://example.org).", "I'm here."),
        ("It's 5:30, isn't it?", "It's 5:30, isn't it?"),
        ("C'est très dur — vraiment.", "C'est très dur — vraiment."),
        ("我在这里。", "我在这里。"),
        ("Listener:", ""),
        ("...", ""),
        ("😢", ""),
        ("", ""),
    ],
)
def test_what_nobody_says_aloud_is_taken_out(text: str, spoken: str) -> None:
    assert speakable(text, "Anna") == spoken


LANGUAGES = LanguageReader()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("That sounds really hard.", "en"),
        ("Your grandma must be so proud of you.", "en"),
        ("I AM SO SORRY TO HEAR THAT.", "en"),
        ("Das tut mir sehr leid.", "de"),
        ("Je suis désolé d'apprendre cela.", "fr"),
        ("Lo siento mucho.", "es"),
        ("我很抱歉听到这个消息。", "zh"),
        ("それは大変でしたね。", "ja"),
        ("정말 힘들었겠어요.", "ko"),
        ("Oh no!", ""),
        ("Bravo!", ""),
        ("Marie Curie!", ""),
        ("42", ""),
        ("", ""),
    ],
)
def test_a_language_is_told_when_it_is_sure(text: str, language: str) -> None:
    assert LANGUAGES.language_of(text) == language


@pytest.mark.parametrize(
    ("text", "language", "leaves"),
    [
        ("Das tut mir sehr leid.", "en", True),
        ("我很抱歉听到这个消息。", "en", True),
        ("I am so sorry to hear that.", "de", True),
        ("I am so sorry to hear that.", "en", False),
        ("Jag är så ledsen att höra det.", "no", False),  # next of kin
        ("Take care, Giuseppe.", "en", False),
        ("Bravo!", "en", False),
        ("Wow, amazing!", "zh", False),
    ],
)
def test_only_what_surely_is_another_language_leaves_one(text: str, language: str, leaves: bool) -> None:
    assert LANGUAGES.leaves(text, language) is leaves
