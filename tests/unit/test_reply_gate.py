"""The gate refuses what a kind, sensible person would not say, and lets good sentences pass."""

import re
from dataclasses import replace

import pytest

import emotions
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.gate import Gate, Situation, sentences
from services.mllm.reply.legible import NO_WORD, NOT_LATIN, found, unreadable
from services.mllm.reply.small_talk import ABOUT_AVATAR, GREETING, small_talk

LOSS = Situation("My dog died on Friday and the house is so empty.", valence=-0.7, name="Anna")
WIN = Situation("My daughter won the chess cup and I cried with joy.", valence=0.75, name="Anna")


@pytest.fixture(scope="module")
def exemplars() -> Exemplars:
    return Exemplars()


@pytest.fixture(scope="module")
def gate(exemplars: Exemplars) -> Gate:
    return Gate(exemplars.replies())


BAD = [
    ("incomplete", "I'm so sorry that the", LOSS),
    ("incomplete", "That must hurt because.", LOSS),
    ("incomplete", "that must hurt so much.", LOSS),
    ("charset", "I'm so sorry :( <3.", LOSS),
    ("charset", "I'm sorry 100 %.", LOSS),
    ("length", "Sorry.", LOSS),
    ("length", "I'm so sorry and " + "so " * 30 + "sad.", LOSS),
    ("meta", "How can I help you today?", LOSS),
    ("meta", "That is hard for an assistant to hear.", LOSS),
    ("unsafe", "You should have taken more pills.", LOSS),
    ("unsafe", "It's your own fault, really.", LOSS),
    ("unsafe", "It's not a big deal.", LOSS),
    ("unsafe", "I hope you get revenge.", LOSS),
    ("false claim", "I lost my dog too.", LOSS),
    ("false claim", "I remember when we met in the park.", LOSS),
    ("false claim", "I've been through that.", LOSS),
    ("false claim", "I'll be there tomorrow.", LOSS),
    ("false claim", "See you soon.", LOSS),
    ("role confusion", "The house feels empty to us.", LOSS),
    ("role confusion", "It hurts mine so much.", LOSS),
    ("role confusion", "I'm sorry, Anna.", LOSS),
    ("advice", "You should stop thinking about it.", LOSS),
    ("advice", "Just relax and breathe.", LOSS),
    ("echo", "So your dog died and the house is so empty.", LOSS),
    ("repetition", "I'm so sorry, I'm so sorry.", LOSS),
    ("repetition", "I'm so sorry about it.", replace(LOSS, said=("I'm so sorry for your loss.",))),
    ("repetition", "He must have meant so much.", replace(LOSS, earlier=("He must have meant so much to you.",))),
    ("questions", "What happened?", replace(LOSS, said=("How are you?",))),
    ("polarity", "What wonderful news!", LOSS),
    ("polarity", "Congratulations to you both!", LOSS),
    ("polarity", "I'm so happy for you.", replace(LOSS, valence=0.8)),
    ("polarity", "I'm so sorry to hear that.", WIN),
    (
        "polarity",
        "That must be hard for you.",
        replace(WIN, message="We won the big race, and it must have been hard."),
    ),
    ("polarity", "I'm sorry for your loss.", Situation("My boss shouted at me today.", valence=-0.6)),
    ("person", "She must have been a good friend.", Situation("My brother moved away.", valence=-0.6)),
    ("person", "I hope he feels better.", Situation("The rent went up again.", valence=-0.6)),
    ("ungrounded", "The lawyer will find the elephant.", replace(LOSS, message="I feel so low.")),
    ("ungrounded", "I hope the kitchen is clean again.", LOSS),
    ("repetition", "I hope the care you gave him is still in his care.", LOSS),
    ("polarity", "I'm so sorry, that's a terrible loss.", Situation("My mom has cancer.", valence=-0.9)),
    ("ungrounded", "Trying a fourth time takes courage.", Situation("I failed my driving test.", valence=-0.5)),
    ("ungrounded", "That must be heavy to keep to yourself.", Situation("I failed my test.", valence=-0.5)),
    ("ungrounded", "Thirty years is a long time.", Situation("My job ended.", valence=-0.5)),
    ("ungrounded", "I can see why you're so ashamed of it.", Situation("My dinner burned.", valence=-0.5)),
    ("ungrounded", "To lose him so suddenly must hurt.", LOSS),
]


@pytest.mark.parametrize(("rule", "sentence", "situation"), BAD)
def test_each_rule_refuses_its_bad_example(gate: Gate, rule: str, sentence: str, situation: Situation) -> None:
    refusal = gate.refusal(sentence, situation)
    assert refusal, f"nothing refused {sentence!r}"
    if rule != "ungrounded" or refusal != "unsafe":
        assert refusal == rule


def test_every_rule_has_a_bad_example(gate: Gate) -> None:
    assert {rule for rule, _, _ in BAD} == set(gate.rules)


GOOD = [
    ("I'm so sorry.", LOSS),
    ("The quiet in the house must hurt.", LOSS),
    ("I hope he had a good life with you.", LOSS),
    ("I'm glad you told me.", LOSS),
    ("What was he like?", LOSS),
    ("Congratulations, you must be so proud of her!", WIN),
    ("I can hear how happy you are.", WIN),
    ("She worked for it.", WIN),
    ("That sounds really unfair.", Situation("My boss took my idea.", valence=-0.6)),
    ("No wonder you're angry.", Situation("My boss took my idea.", valence=-0.6)),
    ("Trying a fourth time takes courage.", Situation("I failed for the fourth time.", valence=-0.5)),
    ("That must be heavy to keep to yourself.", Situation("I failed and told nobody.", valence=-0.5)),
    ("I'm so sorry, that's a terrible loss.", LOSS),
    ("I'm so sorry, that is a terrible loss.", Situation("My sister didn't survive the flood.", valence=-0.9)),
    ("Night after night must be so hard.", Situation("I can't sleep at night.", valence=-0.5)),
    ("How lovely that they visit you!", Situation("My nephews visit me on Sunday.", valence=0.7)),
]


@pytest.mark.parametrize(("sentence", "situation"), GOOD)
def test_good_sentences_pass(gate: Gate, sentence: str, situation: Situation) -> None:
    assert gate.refusal(sentence, situation) == ""


def test_the_same_sentence_is_right_for_good_news_and_wrong_for_bad(gate: Gate) -> None:
    sentence = "What wonderful news!"
    assert (gate.refusal(sentence, WIN), gate.refusal(sentence, LOSS)) == ("", "polarity")


def test_a_grave_message_is_not_cheered_even_when_the_vote_was_wrong(gate: Gate) -> None:
    assert gate.refusal("That sounds like fun!", replace(LOSS, valence=0.9)) == "polarity"


def test_every_label_has_general_replies_and_at_least_five_pairs(exemplars: Exemplars) -> None:
    for label in emotions.load().labels:
        assert len(exemplars.general[label]) >= 2, label
        assert sum(pair.label == label for pair in exemplars.pairs) >= 5, label


def test_general_replies_fit_any_message_of_their_label(gate: Gate, exemplars: Exemplars) -> None:
    for label in emotions.load().labels.values():
        for reply in exemplars.general[label.name]:
            situation = Situation("It happened yesterday.", label.valence)
            for sentence in sentences(reply):
                assert gate.refusal(sentence, situation) == "", (label.name, sentence)
                situation = replace(situation, said=(*situation.said, sentence))


def test_stored_replies_obey_every_rule_but_groundedness_for_their_own_message(
    gate: Gate, exemplars: Exemplars
) -> None:
    for pair in exemplars.pairs:
        situation = Situation(pair.message, emotions.load().label(pair.label).valence)
        for sentence in sentences(pair.reply):
            assert gate.refusal(sentence, situation) in ("", "ungrounded"), (pair.message, sentence)
            situation = replace(situation, said=(*situation.said, sentence))


@pytest.mark.parametrize(
    ("message", "context", "group"),
    [
        ("hello", (), GREETING),
        ("Hi there!", (), GREETING),
        ("Hello, Anna", (), GREETING),
        ("ok", (), GREETING),
        ("ok", ("My dog died.",), ""),
        ("Why do you always sound so fake?", (), ABOUT_AVATAR),
        ("What are you?", (), ABOUT_AVATAR),
        ("How are you?", (), ABOUT_AVATAR),
        ("Are you real?", ("My dog died.",), ABOUT_AVATAR),
        ("My dog died.", (), ""),
        ("Can you believe it?", (), ""),
        ("Why do you think my dog died?", (), ""),
        ("Do you like the way he treats me?", (), ""),
        ("Why is everybody so cruel?", (), ""),
        ("!!!", (), ""),
    ],
)
def test_a_greeting_and_a_question_to_the_avatar_hold_no_feeling(
    message: str, context: tuple[str, ...], group: str
) -> None:
    assert small_talk(message, context, "Anna") == group


def test_replies_to_small_talk_name_no_feeling_and_are_no_reply_to_an_emotion(exemplars: Exemplars) -> None:
    stored = {reply for _, reply in exemplars.replies()}
    for group in (GREETING, ABOUT_AVATAR):
        assert len(exemplars.general[group]) >= 2
        assert not stored & set(exemplars.general[group])
        for reply in exemplars.general[group]:
            assert re.search(r"\b(sorry|lovely|happy|enjoy|deserve|hard|sad|ashamed)\b", reply.lower()) is None
    assert all("computer program" in reply for reply in exemplars.general[ABOUT_AVATAR])


RUSSIAN = "\u043c\u043e\u044f \u0441\u043e\u0431\u0430\u043a\u0430 \u0443\u043c\u0435\u0440\u043b\u0430"
CHINESE = "\u6211\u5f88\u96be\u8fc7"
FULL_WIDTH = "\uff29\u3000\uff41\uff4d\u3000\uff53\uff41\uff44"


@pytest.mark.parametrize(
    ("text", "reason", "what"),
    [
        (RUSSIAN, NOT_LATIN, "is mostly in Cyrillic script"),
        (CHINESE, NOT_LATIN, "is mostly in Cjk script"),
        (f"{RUSSIAN} iPhone", NOT_LATIN, "is mostly in Cyrillic script"),
        ("!!! 42 ...", NO_WORD, "holds no word ('!!! 42 ...')"),
        ("a" * 500, NO_WORD, "holds no word ('aaaaaaaaaaaaaaaaaaaa')"),
        ("Aaaa ZZZZZ!", NO_WORD, "holds no word ('Aaaa ZZZZZ!')"),
        ("", NO_WORD, "holds no word ('')"),
    ],
)
def test_a_text_that_is_not_english_is_unreadable_and_named(text: str, reason: str, what: str) -> None:
    assert (unreadable(text), found(text)) == (reason, what)


@pytest.mark.parametrize(
    "text",
    [
        "My dog died.",
        f"My friend {CHINESE} moved away.",
        FULL_WIDTH,
        "Noooooo!",
        "aaaa I won",
        "I",
        "N/A",
        "El ni\u00f1o",
    ],
)
def test_a_text_with_latin_words_is_readable(text: str) -> None:
    assert unreadable(text) == ""
