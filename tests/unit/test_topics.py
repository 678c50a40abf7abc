"""Topics: the store is whole, the real reader finds what was not taught, and a reply that fits is not said again."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import emotions
from services.understanding.risk.screen import RiskScreen
from services.understanding.risk.spoken import unspeakable
from services.understanding.topics import store
from services.understanding.topics.reader import Reading, TopicReader
from services.understanding.topics.replies import SENTENCE_END, StoredReplies
from services.understanding.topics.store import Act, Topic, Valence, learned
from tests.support.risk import ToldReader

TOPICS = store.read()
BY_NAME = {topic.name: topic for topic in TOPICS}
WORDS_MAX = 26
REPLIES_MIN = 2


@pytest.fixture(scope="module")
def reader() -> TopicReader:
    return TopicReader(Path(".models"), TOPICS)


def reading(name: str, sure: float = 1.0, valences: Sequence[float] = (0.2, 0.2, 0.6)) -> Reading:
    topic = BY_NAME[name]
    return Reading(topic.act, sure, topic, sure, np.array(valences, np.float32))


def test_every_topic_has_a_name_of_its_own_and_replies_that_a_voice_can_say() -> None:
    assert len(BY_NAME) == len(TOPICS)
    for topic in TOPICS:
        assert len(set(topic.replies)) == len(topic.replies) >= REPLIES_MIN - (topic.act is Act.GOODBYE), topic.name
        for sentence in (sentence for reply in topic.replies for sentence in SENTENCE_END.split(reply)):
            assert sentence[-1] in ".!?", sentence
            assert len(sentence.split()) <= WORDS_MAX, sentence


def test_no_message_is_taught_as_two_topics() -> None:
    twice = [text for text, times in Counter(m.lower() for t in TOPICS for m in t.messages).items() if times > 1]
    assert not twice


def test_no_stored_reply_is_one_that_the_panel_withholds() -> None:
    screen = RiskScreen(ToldReader())
    assert not [reply for topic in TOPICS for reply in topic.replies if unspeakable(reply, screen)]


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("How high is Mount Fuji?", Act.FACT),
        ("Please wake me at half past six.", Act.FAVOUR),
        ("Do you think I should write to him first?", Act.ADVICE),
        ("Hey Anna, good evening!", Act.SMALLTALK),
        ("Are you a computer or a woman?", Act.ABOUT),
        ("No, you got me totally wrong there.", Act.COMPLAINT),
        ("Thanks so much, that was good to hear.", Act.THANKS),
        ("I'm going to sleep now, good night.", Act.GOODBYE),
        ("Hm, no idea really.", Act.ANSWER),
        ("My uncle broke his hip in the bathtub.", Act.TELLING),
    ],
)
def test_acts_are_read_from_messages_that_were_not_taught(reader: TopicReader, text: str, act: Act) -> None:
    assert reader.read(text).act is act


@pytest.mark.parametrize(
    ("text", "valence"),
    [
        ("My kitten has stopped drinking and lies in a corner.", Valence.BAD),
        ("The vet says that our old dog is healthy again!", Valence.GOOD),
        ("I failed the bar exam by two points.", Valence.BAD),
        ("I passed the bar exam on my first try.", Valence.GOOD),
        ("My little sister was born last night, four kilos!", Valence.GOOD),
    ],
)
def test_a_topic_is_not_mistaken_for_its_opposite(reader: TopicReader, text: str, valence: Valence) -> None:
    assert reader.read(text).topic.valence in {valence, Valence.ANY}


def test_a_short_message_is_read_with_what_was_said_before(reader: TopicReader) -> None:
    alone = reader.read("She taught me the accordion.")
    after = reader.read("She taught me the accordion.", "My grandmother died on Friday.")
    assert after.topic is BY_NAME["grandparent_died"] is not alone.topic


def test_thanks_are_thanks_whatever_was_said_before(reader: TopicReader) -> None:
    assert reader.read("Thank you.", "My grandmother died on Friday.").act is Act.THANKS


def test_a_head_that_was_taught_other_topics_is_refused() -> None:
    others: list[Topic] = [replace(TOPICS[0], name="other"), *learned(TOPICS)[1:]]
    with pytest.raises(ValueError, match="taught other topics"):
        TopicReader(Path(".models"), others)


def test_a_reply_is_not_said_again_while_another_fits() -> None:
    stored = StoredReplies(TOPICS)
    said: list[str] = []
    for _ in BY_NAME["breakup"].replies:
        said.append(stored.fitting(reading("breakup"), "We broke up.", said, seed=0)[0])
    assert len(set(said)) == len(said)
    assert stored.fitting(reading("breakup"), "We broke up.", said, seed=0) == []


def test_an_unsure_reading_gets_a_reflection_of_the_feeling() -> None:
    stored, wheel = StoredReplies(TOPICS), emotions.load()
    unsure = reading("breakup", sure=0.1, valences=(0.1, 0.8, 0.1))
    assert stored.fitting(unsure, "Hm.", [], seed=0) == []
    assert set(stored.reflecting(unsure, wheel.label("sad"), "Hm.", [], 0)) == set(BY_NAME["reflect_bad"].replies)


def test_a_question_that_is_not_known_is_handed_back() -> None:
    stored, wheel = StoredReplies(TOPICS), emotions.load()
    unsure = reading("breakup", sure=0.1, valences=(0.1, 0.8, 0.1))
    asked = stored.reflecting(unsure, wheel.label("sad"), "Why do people pretend to like jazz?", [], 0)
    assert set(asked) == set(BY_NAME["reflect_question"].replies)


def test_a_reflection_names_no_feeling_that_panel_and_reader_see_differently() -> None:
    stored, wheel = StoredReplies(TOPICS), emotions.load()
    unsure = reading("breakup", sure=0.1, valences=(0.1, 0.8, 0.1))
    assert set(stored.reflecting(unsure, wheel.label("joyful"), "Hm.", [], 0)) == set(BY_NAME["reflect_any"].replies)


def test_another_message_of_a_topic_may_get_another_reply() -> None:
    stored = StoredReplies(TOPICS)
    first = {stored.fitting(reading("breakup"), text, [], seed=0)[0] for text in BY_NAME["breakup"].messages}
    assert len(first) > 1


def test_a_line_of_no_topic_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("== one telling bad\n- Hello.\n> Oh.\nstray\n", "utf-8")
    with pytest.raises(ValueError, match=r"a\.txt, line 4: 'stray'"):
        store.read(tmp_path)


def test_a_topic_without_replies_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("== one telling bad\n- Hello.\n", "utf-8")
    with pytest.raises(ValueError, match="'one telling bad'"):
        store.read(tmp_path)
