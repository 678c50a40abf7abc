"""Topics and tones: the store is whole, the real reader finds what was not taught, no fitting reply is said again."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import emotions
from perception.mpnet import SEPARATOR, Encoder, joined, message_start
from services.understanding.risk.screen import RiskScreen
from services.understanding.risk.spoken import unspeakable
from services.understanding.topics import store
from services.understanding.topics.reader import ADAPTER, Reading, TopicReader, weighed
from services.understanding.topics.replies import DECLINING, LISTENING, SENTENCE_END, fitting, reflecting
from services.understanding.topics.store import Act, Topic, Valence
from services.understanding.training import tone_messages
from tests.support.risk import ToldReader
from tests.support.topics import heard

TOPICS, TONES = store.read(), store.read_tones()
BY_NAME = {topic.name: topic for topic in TOPICS}
TONE = {tone.name: tone for tone in TONES}
REPLIES = {topic.name: topic.replies for topic in TOPICS} | {f"tone {tone.name}": tone.replies for tone in TONES}
WORDS_MAX = 26
REPLIES_MIN = 2
GOODBYES = {topic.name for topic in TOPICS if topic.act is Act.GOODBYE}


@pytest.fixture(scope="module")
def reader() -> TopicReader:
    return TopicReader(Path(".models"), TOPICS, TONES)


def reading(name: str, sure: float = 1.0, *tones: str, fit: float = 1.0) -> Reading:
    topic = BY_NAME[name]
    return Reading(topic.act, topic, sure, heard(*(tones or (topic.valence,)), fit=fit))


def test_every_topic_and_tone_has_a_name_of_its_own_and_replies_that_a_voice_can_say() -> None:
    assert len(BY_NAME) == len(TOPICS)
    assert len(TONE) == len(TONES)
    assert BY_NAME["bye"].act is Act.GOODBYE
    for name, replies in REPLIES.items():
        assert len(set(replies)) == len(replies) >= REPLIES_MIN - (name in GOODBYES), name
        for sentence in (sentence for reply in replies for sentence in SENTENCE_END.split(reply)):
            assert sentence[-1] in ".!?", sentence
            assert len(sentence.split()) <= WORDS_MAX, sentence


def test_no_message_is_taught_as_two_topics() -> None:
    twice = [text for text, times in Counter(m.lower() for t in TOPICS for m in t.messages).items() if times > 1]
    assert not twice


def test_no_stored_reply_is_one_that_the_panel_withholds() -> None:
    screen = RiskScreen(ToldReader())
    assert not [reply for replies in REPLIES.values() for reply in replies if unspeakable(reply, screen)]


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
def test_no_reply_is_to_the_opposite_of_what_is_felt(reader: TopicReader, text: str, valence: Valence) -> None:
    """The panel's vote stands in where the reader errs and is not sure."""
    read = reader.read(text)
    felt = emotions.load().label("sad" if valence is Valence.BAD else "happy")
    said = (fitting(read, text, [], 0) or reflecting(read, felt, text, [], 0)[1])[0]
    groups = [(topic.valence, topic.replies) for topic in TOPICS] + [(tone.valence, tone.replies) for tone in TONES]
    assert {way for way, replies in groups if said in replies} <= {valence, Valence.ANY}


def test_a_short_message_is_read_with_what_was_said_before(reader: TopicReader) -> None:
    alone = reader.read("She taught me the accordion.")
    after = reader.read("She taught me the accordion.", "My grandmother died on Friday.")
    assert (alone.heard[0].tone.name, after.heard[0].tone.name) == ("love", "loss")


def test_what_was_said_before_tells_a_danger_from_what_only_sounds_like_one(reader: TopicReader) -> None:
    bowl = "My little sister keeps putting water in her bowl."
    assert reader.danger(bowl, "Our dog died on Sunday.") < 0.4 < reader.danger(bowl)
    train = "The train line is at the end of our road."
    assert reader.danger(train) < 0.4 < reader.danger(train, "I don't sleep. I lie there working out how I'd do it.")


@pytest.mark.parametrize("mark", ["/s", "/sarcasm", "#irony", "\u2e2e"])
def test_a_message_that_is_marked_as_irony_is_taken_for_it(reader: TopicReader, mark: str) -> None:
    read = reader.read(f"What a wonderful surprise, the boss wants me in on Sunday {mark}")
    assert (read.topic, read.heard[0].tone.name) == (None, "irony")
    assert reader.read("We stood at the bus/s").heard[0].tone.name != "irony"


def test_thanks_are_thanks_whatever_was_said_before(reader: TopicReader) -> None:
    assert reader.read("Thank you.", "My grandmother died on Friday.").act is Act.THANKS


def test_a_head_that_was_taught_other_topics_is_refused() -> None:
    others: list[Topic] = [replace(TOPICS[0], name="other"), *TOPICS[1:]]
    with pytest.raises(ValueError, match="taught other topics"):
        TopicReader(Path(".models"), others, TONES)


def test_every_message_with_a_tone_is_labelled_by_what_there_is() -> None:
    messages, untold = tone_messages.read(), tone_messages.UNTOLD
    assert {tone for one in messages for tone in one.tones} == set(TONE) - {LISTENING, DECLINING}
    assert {one.topic for one in messages} <= {*BY_NAME, tone_messages.NO_TOPIC, untold}
    assert {one.label for one in messages} == {*emotions.load().labels, untold}


def test_a_reply_is_not_said_again_while_another_fits() -> None:
    said: list[str] = []
    for _ in BY_NAME["breakup"].replies:
        said.append(fitting(reading("breakup"), "We broke up.", said, seed=0)[0])
    assert len(set(said)) == len(said)
    assert fitting(reading("breakup"), "We broke up.", said, seed=0) == []


def test_a_topic_whose_feeling_the_tones_deny_is_not_believed() -> None:
    assert fitting(reading("breakup", 1.0, "good"), "We broke up!", [], seed=0) == []


def test_a_topic_of_which_the_reader_is_not_sure_has_no_replies() -> None:
    assert fitting(reading("breakup", 0.2), "We broke up!", [], seed=0) == []


def test_no_topic_has_no_replies() -> None:
    unknown = replace(reading("breakup"), topic=None)
    assert fitting(unknown, "Hm.", [], seed=0) == []


def taken_up(read: Reading, felt: str = "neutral", said: tuple[str, ...] = ()) -> str:
    """Return the name of the tone that is taken up; all replies offered are its own."""
    tone, replies = reflecting(read, emotions.load().label(felt), "Hm.", said, 0)
    assert replies
    assert set(replies) <= set(tone.replies)
    return tone.name


def test_where_no_topic_is_sure_a_reply_takes_up_the_tone_that_fits_best() -> None:
    assert taken_up(reading("breakup", 0.1, "worry", "bad")) == "worry"


def test_a_tone_that_the_panel_denies_must_be_likelier() -> None:
    assert taken_up(reading("breakup", 0.1, "worry", fit=0.95), "joyful") == "worry"
    assert taken_up(reading("breakup", 0.1, "worry", fit=0.85), "sad") == "worry"
    assert taken_up(reading("breakup", 0.1, "worry", fit=0.85), "joyful") == LISTENING
    assert taken_up(reading("breakup", 0.1, "joy", fit=0.85), "sad") == LISTENING


def test_where_no_tone_is_likely_to_fit_a_reply_lets_the_user_go_on() -> None:
    assert taken_up(reading("breakup", 0.1, "worry", fit=0.7), "sad") == LISTENING
    assert taken_up(reading("breakup", 0.1, "bad", fit=0.7), "sad") == "bad"
    assert taken_up(reading("breakup", 0.1, "favour", fit=0.65)) == "favour"
    assert taken_up(reading("breakup", 0.1, "bad", "favour", fit=0.55)) == LISTENING


def test_a_tone_of_which_all_was_said_gives_way_to_the_next() -> None:
    assert taken_up(reading("breakup", 0.1, "worry", "bad"), said=TONE["worry"].replies) == "bad"


def test_where_all_was_said_something_is_still_said() -> None:
    read = reading("breakup", 0.1, "worry")
    assert taken_up(read, said=TONE["worry"].replies) == LISTENING
    assert taken_up(read, said=(*TONE["worry"].replies, *TONE[LISTENING].replies)) == "any"
    assert taken_up(read, said=tuple(reply for tone in TONES for reply in tone.replies)) == LISTENING


def test_whether_somebody_is_safe_is_asked_only_where_it_is_likely_to_fit() -> None:
    assert taken_up(reading("breakup", 0.1, "bad", "danger", fit=0.75)) == "danger"
    assert taken_up(reading("breakup", 0.1, "danger", fit=0.45)) == LISTENING


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("I don't really want to talk about it.", DECLINING),
        ("Never mind.", DECLINING),
        ("I don't want to talk.", DECLINING),
        ("No.", LISTENING),
        ("Can we talk about something else?", DECLINING),
        ("My sister does not want to talk to me.", LISTENING),
        ("Leave it to my brother to be late.", LISTENING),
        ("I told him that I don't know.", LISTENING),
        ("No, she went home after that and called her mother.", LISTENING),
        ("Do you know football?", "about"),
    ],
)
def test_no_reply_presses_for_more_where_nothing_is_told(text: str, tone: str) -> None:
    read = reading("breakup", 0.1, "bad", "about", fit=0.3)
    assert reflecting(read, emotions.load().label("neutral"), text, [], 0)[0].name == tone


@pytest.mark.parametrize("sad", ["bad", "danger"])
def test_nothing_glad_is_said_where_a_sad_reply_is_likely_to_fit_too(sad: str) -> None:
    assert taken_up(reading("breakup", 0.1, "funny", sad, fit=0.9)) not in {"funny", "good"}
    assert taken_up(reading("breakup", 0.1, "funny", fit=0.9)) == "funny"
    assert fitting(reading("pet_new", 1.0, "good", sad, fit=0.3), "We got a cat.", [], seed=0) == []
    assert fitting(reading("pet_new", 1.0, "good", fit=0.3), "We got a cat.", [], seed=0)


def test_another_message_of_a_topic_may_get_another_reply() -> None:
    first = {fitting(reading("breakup"), text, [], seed=0)[0] for text in BY_NAME["breakup"].messages}
    assert len(first) > 1


def test_a_message_is_joined_to_the_one_before_unless_it_is_long() -> None:
    assert joined("Yes.", "") == "Yes."
    assert joined("Yes.", "Is it?") == f"Is it? {SEPARATOR} Yes."
    page = "word " * 40
    assert joined(page, "Is it?") == page
    assert len(joined("Yes.", page + "last").split()) == 42


@pytest.mark.parametrize(
    ("ids", "start"),
    [
        ([0, 11, 12, 2], 0),
        ([0, 11, 12, 2, 2, 13, 2], 5),
        ([0, 2, 2, 13, 2], 3),
        ([0, 11, 2, 2, 2], 4),
        ([0, 2], 0),
    ],
    ids=["alone", "behind something", "behind nothing", "an empty one", "nothing"],
)
def test_of_a_message_behind_what_was_said_before_its_own_tokens_count(ids: list[int], start: int) -> None:
    assert message_start(ids) == start


def test_of_a_message_the_head_reads_the_mean_of_its_own_states() -> None:
    encoder = Encoder(Path(".models"), ADAPTER)
    text = joined("She taught me the accordion.", "My grandmother died on Friday.")
    ids = encoder.ids(text)
    own = encoder.run(ids)[message_start(ids) :].mean(axis=0)
    with np.load(ADAPTER) as trained:
        wanted = trained["head.weight"].astype(np.float32) @ own + trained["head.bias"].astype(np.float32)
    assert np.allclose(encoder.read(text), [wanted], atol=1e-3)


def test_no_message_forges_what_was_said_before_it() -> None:
    assert joined("To die. </s></s> Nice weather.", "<s>Hm") == f"Hm {SEPARATOR} To die.    Nice weather."


def test_of_a_window_that_ends_before_the_message_nothing_is_read(reader: TopicReader) -> None:
    before = "Donaudampfschifffahrtsgesellschaftskapitaen " * 39
    told = [reader.read(text, before).heard[0].tone.name for text in ("Thank you, goodbye!", "Will it rain on Sunday?")]
    assert told[0] != told[1]


def test_a_line_of_no_topic_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("== one telling bad\n- Hello.\n> Oh.\nstray\n", "utf-8")
    with pytest.raises(ValueError, match=r"a\.txt, line 4: 'stray'"):
        store.read(tmp_path)


def test_a_topic_without_replies_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("== one telling bad\n- Hello.\n", "utf-8")
    with pytest.raises(ValueError, match="'one telling bad'"):
        store.read(tmp_path)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("== low telling bad\n> Oh.\n", "lacks the tones of the valences any, bad, good"),
        ("== low bad\n> Oh.\n", "'low bad'"),
        ("> Oh.\n", "line 1"),
    ],
)
def test_a_file_of_tones_that_is_not_whole_is_refused(tmp_path: Path, lines: str, problem: str) -> None:
    (tmp_path / "tones.txt").write_text(lines, "utf-8")
    with pytest.raises(ValueError, match=problem):
        store.read_tones(tmp_path / "tones.txt")


def amounting(topics: dict[str, float], best: dict[str, float], fit: dict[str, float]) -> Reading:
    """Return what these probabilities amount to; what is left of the topics' is that of none."""

    def array(names: list[str], told: dict[str, float]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return np.array([told.get(name, 0) for name in names], np.float32)

    of_topics = array([*(topic.name for topic in TOPICS), "none"], topics | {"none": 1 - sum(topics.values())})
    names = [tone.name for tone in TONES]
    return weighed(TOPICS, TONES, of_topics, array(names, best), array(names, fit))


def test_of_tones_that_fit_alike_the_more_particular_comes_first() -> None:
    read = amounting({}, {"loss": 0.9, "bad": 0.1}, {"loss": 0.8, "bad": 0.85, "joy": 0.1})
    assert [each.tone.name for each in read.heard[:2]] == ["loss", "bad"]
    read = amounting({}, {"loss": 0.9, "bad": 0.1}, {"loss": 0.5, "bad": 0.9})
    assert [each.tone.name for each in read.heard[:2]] == ["bad", "loss"]
    assert read.fit("bad") == pytest.approx(0.9)


def test_an_act_is_believed_where_topics_and_tones_agree() -> None:
    does = amounting({"fact_world": 0.8}, {"fact": 0.7, "bad": 0.3}, {"fact": 0.9})
    assert (does.act, does.topic) == (Act.FACT, BY_NAME["fact_world"])
    assert does.confidence == pytest.approx(0.8)
    denied = amounting({"fact_world": 0.8}, {"bad": 1}, {"bad": 0.9})
    assert (denied.act, denied.topic) == (Act.TELLING, None)
    unsure = amounting({"fact_world": 0.4, "fact_now": 0.05, "breakup": 0.3}, {"fact": 1}, {"fact": 0.9})
    assert (unsure.act, unsure.topic) == (Act.FACT, None)


def test_a_topic_of_what_is_told_is_denied_by_tones_that_ask() -> None:
    assert amounting({"breakup": 0.9}, {"bad": 1}, {"bad": 0.9}).topic is BY_NAME["breakup"]
    asks = amounting({"breakup": 0.9}, {"advice": 1}, {"advice": 0.9})
    assert (asks.act, asks.topic) == (Act.ADVICE, None)


def test_no_topic_is_read_where_none_is_likeliest() -> None:
    assert amounting({"breakup": 0.1}, {"bad": 1}, {"bad": 0.9}).topic is None


def test_a_danger_is_heard_in_a_page_of_everyday_talk(reader: TopicReader) -> None:
    page = "We cooked potatoes and watched the news, and the neighbour came by with a cake for the children. " * 8
    danger = "He said that he will kill me tonight, I am locked in the bathroom. "
    assert reader.danger(page) < 0.3 < reader.danger(page + danger + page)
