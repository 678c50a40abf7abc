"""What the user said is told back at the beginning of a reply where the tone bears it, and else it is not."""

from dataclasses import replace

import pytest

from services.mllm.domain import Message, Profile, ReplyRequest, Utterance
from services.mllm.reply.gate import Gate
from services.mllm.reply.restate import restated

GATE = Gate(())


def order(text: str, *history: Utterance) -> ReplyRequest:
    message = Message(text=text, history=history)
    return ReplyRequest(message, "happy", "happy", Profile("Anna", "young", "female", "mid"), may_restate=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The biopsy came back clear.", "So the biopsy came back clear."),
        ("I'm going to ask Irma tonight. I'm seventy-six.", "So you're going to ask Irma."),
        ("My son got his first medal in judo today", "So your son got his first medal in judo."),
        ("We've been matched with a little boy.", "So you've been matched with a little boy."),
        ("I practised for months, and I failed my test.", "So you practised for months."),
    ],
)
def test_a_plain_statement_is_told_back_in_its_own_tense(text: str, told: str) -> None:
    assert restated(order(text), GATE) == told


@pytest.mark.parametrize(
    "text",
    [
        "Nobody laughed at my speech.",
        "My mother died on Monday.",
        "I lost the ring he gave me.",
        "My husband hit me again.",
        "Is my hair too short?",
        "My test is tomorrow.",
        "Leave me in peace with that nonsense.",
        "It was nice there, as always.",
        "Everybody at work got a bonus but the cleaners.",
        "I quit smoking nine days ago.",
        "My vet says it is fine thank god.",
        "'...' was all my sister said.",
    ],
)
def test_what_is_sore_or_no_plain_statement_is_not_told_back(text: str) -> None:
    assert restated(order(text), GATE) == ""


def test_nothing_is_told_back_where_the_tone_does_not_bear_it() -> None:
    assert restated(replace(order("The biopsy came back clear."), may_restate=False), GATE) == ""


def test_replies_in_a_row_do_not_all_begin_so() -> None:
    before = Utterance("avatar", "So your son got his first medal in judo. How lovely.")
    other = Utterance("avatar", "I see.")
    assert restated(order("The biopsy came back clear.", before, other), GATE) == ""
    assert restated(order("The biopsy came back clear.", before, other, other), GATE)
