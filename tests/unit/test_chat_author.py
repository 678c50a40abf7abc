"""A chat model's reply: sentence by sentence, in the user's language, then reported."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from perception.text import SentenceReader
from services.common.errors import BackendFailed, InvalidRequest
from services.mllm.domain import Message, ReplyRecord, ReplySentence, Utterance
from tests.chat_author import GERMAN, GOOD, MESSAGE, PROFILE, REQUEST, author, reply, sentence_reader
from tests.fake_chat_models import FakeChatModel


@pytest.fixture(scope="module")
def reader() -> SentenceReader:
    return sentence_reader()


# What is said


def test_a_good_reply_is_said_as_it_is(reader: SentenceReader) -> None:
    said, record, model = reply(reader, GOOD)
    assert said == ["Losing your job is a heavy blow.", "I'm here for you."]
    assert record == ReplyRecord(candidates=1)
    assert len(model.asked) == 1


def test_a_sentence_is_said_before_the_next_is_written(reader: SentenceReader) -> None:
    model = FakeChatModel(GOOD)
    pieces = author(model, reader).write(REQUEST)
    assert next(pieces) == ReplySentence("Losing your job is a heavy blow.")
    assert "".join(model.words) == "Losing your job is a heavy blow. I'm"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('Listener: "Losing your job is hard. \U0001f622 I am here."', ["Losing your job is hard.", "I am here."]),
        ("<think>The user is sad. I say so.</think>\n\nLosing your job is hard.", ["Losing your job is hard."]),
        ("*nods slowly*\nLosing your job is hard.", ["Losing your job is hard."]),
        ("Sure, here is what Anna says:\n\nLosing your job is hard.", ["Losing your job is hard."]),
        ("Losing your job is hard \u2014", ["Losing your job is hard."]),
        ("Assistant:\nLosing your job is hard", ["Losing your job is hard."]),
        ("Oh no! That is hard. I see. I feel it. Go on.", ["Oh no!", "That is hard.", "I see."]),
    ],
)
def test_only_so_much_is_said_and_only_what_can_be_spoken(reader: SentenceReader, answer: str, said: list[str]) -> None:
    assert reply(reader, answer)[:2] == (said, ReplyRecord(candidates=1))


def test_the_model_is_stopped_after_the_last_sentence_that_is_said(reader: SentenceReader) -> None:
    _, _, model = reply(reader, "One. Two. Three. Four. Five. Six. Seven.")
    assert "".join(model.words) == "One. Two. Three. Four."


# The language of the user

GERMAN_MESSAGE = Message(text="Ich habe meine Arbeit verloren und niemand ruft mich an.")


def test_the_reply_is_asked_for_and_judged_in_the_language_that_the_user_speaks(reader: SentenceReader) -> None:
    request = replace(REQUEST, message=GERMAN_MESSAGE)
    said, record, model = reply(reader, GOOD, GERMAN, request=request)
    assert " ".join(said) == GERMAN
    assert record.rejected == ("leaves the language de: Losing your job is a heavy blow.",)
    assert "in German" in model.asked[0][-1].text


@pytest.mark.parametrize(
    ("text", "before", "profile_language", "language"),
    [
        ("Ok.", "Ich habe meine Arbeit verloren.", "en", "German"),
        ("Ok.", "", "de-AT", "German"),
        ("Ok.", "", "en", "English"),
        (MESSAGE.text, "", "de", "English"),
    ],
)
def test_where_this_message_does_not_tell_the_language_the_earlier_ones_or_the_profile_do(
    reader: SentenceReader, text: str, before: str, profile_language: str, language: str
) -> None:
    message = Message(text=text, history=(Utterance("user", before),))
    request = replace(REQUEST, message=message, profile=replace(PROFILE, language=profile_language))
    _, _, model = reply(reader, "Hm.", request=request)
    assert f"in {language}," in model.asked[0][-1].text


def test_where_a_letter_is_a_word_more_of_them_in_a_row_are_a_repetition(reader: SentenceReader) -> None:
    nobody_calls_me = "\u6ca1\u6709\u4eba\u7ed9\u6211\u6253\u7535\u8bdd"
    message = Message(text=f"\u6211\u4e0a\u5468\u4e22\u4e86\u5de5\u4f5c\uff0c{nobody_calls_me}\u3002")
    taken_up = f"{nobody_calls_me}\uff0c\u8fd9\u4e00\u5b9a\u8ba9\u4f60\u5f88\u96be\u8fc7\u3002"
    said_back = f"\u4f60\u8bf4{message.text}"
    said, record, _ = reply(reader, said_back, taken_up, request=replace(REQUEST, message=message))
    assert said == [taken_up]
    assert record.rejected == (f"repeats the prompt: {said_back}",)


def test_the_stored_replies_do_not_stand_in_for_one_in_another_language(reader: SentenceReader) -> None:
    pieces = author(FakeChatModel(GOOD), reader).write(replace(REQUEST, message=GERMAN_MESSAGE))
    with pytest.raises(BackendFailed, match=r"no reply in 'de'.*leaves the language de: Losing.*leaves the language"):
        next(pieces)


# Stop, bad orders


def test_once_nobody_waits_the_model_stops_at_its_next_piece_and_nothing_more_is_said(reader: SentenceReader) -> None:
    model = FakeChatModel("Losing your job is hard. I am here for you and so is she.")
    pieces = author(model, reader).write(REQUEST)
    next(pieces)
    REQUEST.stop.set()
    try:
        assert list(pieces) == []
        assert "".join(model.words) == "Losing your job is hard. I"
        assert len(model.asked) == 1
    finally:
        REQUEST.stop.clear()


def test_closing_the_reply_closes_the_models_iterator(reader: SentenceReader) -> None:
    model = FakeChatModel(GOOD)
    pieces: Iterator[ReplySentence | ReplyRecord] = author(model, reader).write(REQUEST)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]  # the port says Iterator; what is written is a generator
    assert "".join(model.words) == "Losing your job is a heavy blow. I'm"
    assert list(pieces) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"message": Message(text=" \n")}, "message.text"),
        ({"user_emotion": "meh"}, "user_emotion"),
        ({"reply_emotion": ""}, "reply_emotion"),
    ],
)
def test_an_order_that_cannot_be_written_is_refused_at_once(
    reader: SentenceReader, change: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        author(FakeChatModel(GOOD), reader).write(replace(REQUEST, **change))  # type: ignore[arg-type]
    assert refusal.value.field == field
    assert re.search("words to answer" if field == "message.text" else "use one of: neutral, ", str(refusal.value))


def test_the_same_seed_asks_the_same(reader: SentenceReader) -> None:
    first, second = (reply(reader, GOOD)[2] for _ in range(2))
    assert (first.asked, first.samplings) == (second.asked, second.samplings)
