"""What a chat model wrote is judged before it is said: begun anew once, cut, or replaced by a stored reply."""

from dataclasses import replace

import pytest

from perception.text import SentenceReader
from services.mllm.domain import Message, ReplyRecord, Utterance
from tests.chat_author import GERMAN, GOOD, MESSAGE, REQUEST, STORE, reply, sentence_reader


@pytest.fixture(scope="module")
def reader() -> SentenceReader:
    return sentence_reader()


FAULTS = [
    ("", "empty: "),
    ("   \n ", "empty: "),
    ("*sighs deeply*", "empty: *sighs deeply*"),
    ("<think>I do not know.", "empty: "),
    ("The other person feels lonely.\nI see.", "repeats the prompt: The other person feels lonely."),
    ("The other person says: I'm so sorry.", "repeats the prompt: The other person says"),
    ("You listen closely, take feelings seriously, and speak.", "repeats the prompt: You listen closely"),
    ("I lost my job last week and nobody has called me since.", "repeats the prompt: I lost my job"),
    ("Well, you lost my job last week and nobody has called.", "repeats the prompt: Well"),
    ("You may be happy, sad, angry, proud, lonely or jealous.", "repeats the prompt: You may be"),
    ("The other person: It's so terrible.", "speaks as the user: The other person"),
    ("to someplace you've lost a limb.", "begins in the middle: to someplace"),
    (GERMAN, "leaves the language en: Das tut mir"),
    ("\u6211\u5f88\u62b1\u6b49\u542c\u5230\u8fd9\u4e2a\u6d88\u606f\u3002", "leaves the language en: "),
]


@pytest.mark.parametrize(("answer", "fault"), FAULTS)
def test_a_first_sentence_with_a_fault_makes_the_reply_begin_anew_with_the_next_seed(
    reader: SentenceReader, answer: str, fault: str
) -> None:
    said, record, model = reply(reader, answer or " ", GOOD)
    assert said == ["Losing your job is a heavy blow.", "I'm here for you."]
    assert (record.degraded, record.candidates, record.retries) == ("", 2, 1)
    assert len(record.rejected) == 1
    assert record.rejected[0].startswith(fault)
    assert [sampling.seed for sampling in model.samplings] == [7, 8]
    assert model.asked[0] == model.asked[1]


@pytest.mark.parametrize(
    "answer",
    [
        "So nobody has called you since last week? Oh.",
        "You feel lonely, and that makes sense.",
        "I see.",
        "Oh no, your job!",
        "It is okay to be sad, angry and afraid.",
    ],
)
def test_words_of_the_user_may_be_taken_up(reader: SentenceReader, answer: str) -> None:
    assert reply(reader, answer)[1] == ReplyRecord(candidates=1)


@pytest.mark.parametrize("label", ["lonely", "happy", "furious", "sad"])
def test_refused_twice_a_stored_reply_stands_in_and_both_refusals_are_on_record(
    reader: SentenceReader, label: str
) -> None:
    said, record, model = reply(reader, " ", GERMAN, request=replace(REQUEST, user_emotion=label))
    assert " ".join(said) in (*STORE.general[label], *STORE.general["sad"])
    assert (record.degraded, record.candidates, record.retries) == ("exemplar", 2, 1)
    assert [one.split(":")[0] for one in record.rejected] == ["empty", "leaves the language en"]
    assert len(model.asked) == 2


@pytest.mark.parametrize(("later", "fault"), [(MESSAGE.text, "repeats the prompt"), (GERMAN, "leaves the language en")])
def test_at_a_later_sentence_with_a_fault_the_reply_ends_and_the_fault_is_named(
    reader: SentenceReader, later: str, fault: str
) -> None:
    said, record, model = reply(reader, f"Losing your job is hard. {later} I'm here.")
    assert said == ["Losing your job is hard."]
    assert [one.split(":")[0] for one in record.rejected] == [fault]
    assert (record.degraded, record.retries, len(model.asked)) == ("", 0, 1)


def test_a_sentence_that_the_limit_cut_off_is_left_out(reader: SentenceReader) -> None:
    start = "Losing your job is hard, and so is every quiet evening that comes after it. "
    said, record, _ = reply(reader, start + "I would call the people whom you worked with, and ask")
    assert said == [start.strip()]
    assert record.rejected == ("unfinished: I would call the people whom you worked with, and ask",)


def test_what_the_avatar_said_before_is_not_said_again_word_for_word(reader: SentenceReader) -> None:
    before = "Every evening without a call must feel longer than the one before."
    message = replace(MESSAGE, history=(Utterance("user", "Hi."), Utterance("avatar", before)))
    _, record, _ = reply(reader, before, GOOD, request=replace(REQUEST, message=message))
    assert record.rejected == (f"repeats the prompt: {before}",)


def test_a_short_message_is_not_said_back(reader: SentenceReader) -> None:
    request = replace(REQUEST, message=Message(text="Nobody called me."))
    assert reply(reader, "Nobody called me!", GOOD, request=request)[1].rejected == (
        "repeats the prompt: Nobody called me!",
    )
