"""Tones: the store is whole, the real reader finds what was not taught, no fitting reply is said again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import emotions
from perception.mpnet import SEPARATOR, Encoder, joined, message_start
from services.understanding.reader import ADAPTER, MessageReader, Reading, weighed
from services.understanding.risk.domain import Kind
from services.understanding.risk.screen import RiskScreen
from services.understanding.risk.spoken import unspeakable
from services.understanding.tones import store
from services.understanding.tones.fits import Fit, ReplyFits
from services.understanding.tones.replies import GRAVE, HOPES, NAME, SENTENCE_END, first_sentence, fitting
from services.understanding.tones.store import Act, Valence
from services.understanding.training import reply_grades, tone_messages
from tests.support.risk import ToldReader
from tests.support.tones import TONES, reading, real_reader

UNTAUGHT = {"listening", "declining", "nodding"}
"""Tones that the reader's head was not taught; their replies were graded as all were."""
WORDS_MAX = 26
REPLIES_MIN = 2


@pytest.fixture(scope="module")
def reader() -> MessageReader:
    return real_reader()


def test_every_tone_has_a_name_of_its_own_and_replies_that_a_voice_can_say() -> None:
    assert len(TONES) == len(store.read())
    for name, tone in TONES.items():
        assert len(set(tone.replies)) == len(tone.replies) >= REPLIES_MIN, name
        for sentence in (sentence for reply in tone.replies for sentence in SENTENCE_END.split(reply)):
            assert sentence[-1] in ".!?", sentence
            assert len(sentence.split()) <= WORDS_MAX, sentence


def test_no_stored_reply_is_one_that_the_panel_withholds() -> None:
    screen = RiskScreen(ToldReader())
    assert not [reply for tone in TONES.values() for reply in tone.replies if unspeakable(reply, screen)]


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
        ("My uncle broke his hip in the bathtub.", Act.TELLING),
    ],
)
def test_acts_are_read_from_messages_that_were_not_taught(reader: MessageReader, text: str, act: Act) -> None:
    assert reader.read(text).act is act


def test_what_goes_on_with_what_was_told_is_an_answer(reader: MessageReader) -> None:
    assert reader.read("Since March, I think.", "My back hurts all the time.").act is Act.ANSWER


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
def test_no_reply_is_to_the_opposite_of_what_is_felt(reader: MessageReader, text: str, valence: Valence) -> None:
    """The panel's vote stands in where the reader errs and is not sure."""
    read = reader.read(text)
    felt = emotions.load().label("sad" if valence is Valence.BAD else "happy")
    assert fitting(read, felt, "", [], 0)[0].valence in {valence, Valence.ANY}


def test_a_short_message_is_read_with_what_was_said_before(reader: MessageReader) -> None:
    alone = reader.read("She taught me the accordion.")
    after = reader.read("She taught me the accordion.", "My grandmother died on Friday.")
    assert alone.heard[0].tone.name == "love"
    assert "loss" in {each.tone.name for each in after.heard[:2]}
    assert next(each.fit for each in after.heard if each.tone.name == "love") < 0.3


def test_what_was_said_before_tells_a_danger_from_what_only_sounds_like_one(reader: MessageReader) -> None:
    def danger(text: str, before: str = "") -> float:
        return float(reader.risk(text, before)[0].sum())

    train = "The train line is at the end of our road."
    assert danger(train) < 0.4 < danger(train, "I don't sleep. I lie there working out how I'd do it.")
    dead = "I'm so dead."
    assert danger(dead, "I forgot our anniversary again, she'll be furious lol") < 0.4


@pytest.mark.parametrize("mark", ["/s", "/sarcasm", "#irony", "\u2e2e"])
def test_a_message_that_is_marked_as_irony_is_taken_for_it(reader: MessageReader, mark: str) -> None:
    read = reader.read(f"What a wonderful surprise, the boss wants me in on Sunday {mark}")
    assert read.heard[0].tone.name == "irony"
    read = reader.read(f"I made pancakes for breakfast {mark}")
    assert fitting(read, emotions.load().label("happy"), "", [], 0)[0].name == "irony"
    assert reader.read("We stood at the bus/s").heard[0].tone.name != "irony"


def test_thanks_are_thanks_whatever_was_said_before(reader: MessageReader) -> None:
    assert reader.read("Thank you.", "My grandmother died on Friday.").act is Act.THANKS


def test_a_head_that_was_taught_other_tones_is_refused() -> None:
    others = [replace(TONES["loss"], name="other"), *store.read()[1:]]
    with pytest.raises(ValueError, match="taught other tones"):
        MessageReader(Path(".models"), others, [])


def test_every_message_with_a_tone_is_labelled_by_what_there_is() -> None:
    messages, untold = tone_messages.read(), tone_messages.UNTOLD
    assert {tone for one in messages for tone in one.tones} == set(TONES) - UNTAUGHT
    assert {one.risk for one in messages} == {*Kind, tone_messages.NO_RISK, untold}
    assert {one.label for one in messages} == {*emotions.load().labels, untold}


def taken_up(read: Reading, felt: str = "neutral", said: tuple[str, ...] = ()) -> str:
    """Return the name of the tone of the reply that is chosen."""
    tone, replies = fitting(read, emotions.load().label(felt), "", said, 0)
    assert replies[0] in tone.replies
    return tone.name


def test_the_reply_that_fits_best_is_chosen() -> None:
    assert taken_up(reading("worry", "bad")) == "worry"
    assert taken_up(reading("bad", "worry")) == "bad"


def test_of_replies_that_can_be_said_alike_one_that_takes_up_what_was_said_is_chosen() -> None:
    read = reading("any")
    right = TONES["hurt"].replies[2]
    read = replace(read, fits={**read.fits, right: Fit(0.95, 0.9)})
    assert fitting(read, emotions.load().label("sad"), "", [], 0)[1][0] == right
    read = replace(read, fits={**read.fits, right: Fit(0.6, 0.9)})
    assert taken_up(read) == "any"


def test_a_glad_reply_that_the_panel_denies_must_be_likelier() -> None:
    assert taken_up(reading("joy", fit=0.95), "sad") == "joy"
    assert taken_up(reading("joy", fit=0.85), "joyful") == "joy"
    assert TONES[taken_up(reading("joy", fit=0.85), "sad")].valence is not Valence.GOOD
    assert taken_up(reading("worry", fit=0.85), "joyful") == "worry"


def test_a_tone_of_which_all_was_said_gives_way_to_the_next() -> None:
    assert taken_up(reading("worry", "bad"), said=TONES["worry"].replies) == "bad"


def test_no_sentence_is_said_again_while_another_reply_is_new() -> None:
    openings = tuple(SENTENCE_END.split(reply)[0] for reply in TONES["worry"].replies)
    assert taken_up(reading("worry", "bad"), said=openings) == "bad"


def test_where_all_was_said_something_is_still_said() -> None:
    assert taken_up(reading("worry"), said=tuple(store.replies(TONES.values()))) == "worry"


@pytest.mark.parametrize("sad", ["bad", "danger"])
def test_nothing_glad_is_said_where_a_sad_reply_is_likely_to_fit_too(sad: str) -> None:
    assert TONES[taken_up(reading("funny", sad, fit=0.9))].valence is not Valence.GOOD
    assert taken_up(reading("funny", fit=0.9)) == "funny"
    grave, _ = fitting(reading("funny", fit=0.9), emotions.load().label("neutral"), "", [], 0, is_grave=True)
    assert grave.valence is not Valence.GOOD


def test_a_message_in_danger_is_taken_up_gravely_or_not_at_all() -> None:
    assert TONES.keys() >= GRAVE
    said: list[str] = []
    for _ in range(4):
        said.append(first_sentence(reading("worry", "hurt"), said))
        assert said[-1].endswith(".")
        assert not HOPES.search(said[-1])
    assert len(set(said)) == 4
    assert first_sentence(reading("playful", "resolve", "joy", "fact"), []) == ""
    assert first_sentence(reading("hurt", fit=0.7), []) == ""


def test_a_seed_decides_among_replies_that_fit_alike_only() -> None:
    felt = emotions.load().label("sad")
    first = {fitting(reading("loss", "bad"), felt, "", [], seed)[1][0] for seed in range(30)}
    assert len(first) > 3
    read = reading("any")
    best = TONES["loss"].replies[0]
    read = replace(read, fits={**read.fits, best: Fit(1.0, 1.0)})
    assert {fitting(read, felt, "", [], seed)[1][0] for seed in range(9)} == {best}


def test_an_avatar_tells_its_name_only_where_it_has_one() -> None:
    read, felt = reading("about"), emotions.load().label("neutral")
    (named,) = [reply for reply in TONES["about"].replies if NAME in reply]
    read = replace(read, fits={**read.fits, named: Fit(1.0, 1.0)})
    assert fitting(read, felt, "Anna", [], 0)[1][0] == named.replace(NAME, "Anna")
    assert not [reply for reply in fitting(read, felt, "", [], 0)[1] if NAME in reply]


@pytest.mark.parametrize(
    ("text", "before", "tones"),
    [
        ("I don't really want to talk about it.", "", {"declining", "nodding", "low", "company"}),
        ("never mind", "", {"declining", "nodding", "teased", "goodbye"}),
        ("stop asking me things", "My sister left.", {"declining", "complaint"}),
        ("ok fine", "The bus was late again.", {"nodding", "declining", "any", "detail_any", "company"}),
        ("How old are you?", "", {"about"}),
        ("are you still there", "I had eggs for lunch.", {"about", "company", "nodding"}),
        ("Do you know football?", "", {"about", "fact", "favour", "playful", "question"}),
        ("You said that already.", "My sister left.", {"complaint"}),
        ("Good night", "", {"goodbye"}),
        ("It's my birthday today!", "", {"joy", "good"}),
    ],
)
def test_no_reply_presses_for_more_where_nothing_is_told(
    reader: MessageReader, text: str, before: str, tones: set[str]
) -> None:
    read = reader.read(text, before)
    assert fitting(read, emotions.load().label("neutral"), "Anna", [], 0)[0].name in tones


def test_a_reply_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no rows for 'Nobody graded this\."):
        ReplyFits(["Nobody graded this."])


def test_replies_are_graded_by_what_there_is() -> None:
    graded, known = reply_grades.read(), reply_grades.replies()
    assert len(graded) > 9000
    assert {place for one in graded for place in one.grades} == set(range(len(known)))


def test_a_line_that_is_no_graded_message_is_refused(tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("s1 x2\t\t\tHello.\n", "utf-8")
    with pytest.raises(ValueError, match=r"few\.tsv, line 1"):
        reply_grades.read(tmp_path)


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


def test_of_a_window_that_ends_before_the_message_nothing_is_read(reader: MessageReader) -> None:
    before = "Donaudampfschifffahrtsgesellschaftskapitaen " * 39
    told = [reader.read(text, before).heard[0].tone.name for text in ("Thank you, goodbye!", "Will it rain on Sunday?")]
    assert told[0] != told[1]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("== low telling bad\n> Oh.\n", "lacks the tones of the valences any, bad, good"),
        ("== low bad\n> Oh.\n", "'low bad'"),
        ("== low telling bad\n", "'low telling bad' needs"),
        ("> Oh.\n", "line 1"),
    ],
)
def test_a_file_of_tones_that_is_not_whole_is_refused(tmp_path: Path, lines: str, problem: str) -> None:
    (tmp_path / "tones.txt").write_text(lines, "utf-8")
    with pytest.raises(ValueError, match=problem):
        store.read(tmp_path / "tones.txt")


def test_of_tones_that_fit_alike_the_more_particular_comes_first() -> None:
    def order(best: dict[str, float], fit: dict[str, float]) -> list[str]:
        told = [np.array([of.get(name, 0) for name in TONES], np.float32) for of in (best, fit)]
        return [each.tone.name for each in weighed(store.read(), *told)[:2]]

    assert order({"loss": 0.9, "bad": 0.1}, {"loss": 0.8, "bad": 0.85, "joy": 0.1}) == ["loss", "bad"]
    assert order({"loss": 0.9, "bad": 0.1}, {"loss": 0.5, "bad": 0.9}) == ["bad", "loss"]


def test_a_danger_is_heard_in_a_page_of_everyday_talk(reader: MessageReader) -> None:
    page = "We cooked potatoes and watched the news, and the neighbour came by with a cake for the children. " * 8
    danger = "He said that he will kill me tonight, I am locked in the bathroom. "
    assert reader.risk(page)[0].sum() < 0.3 < reader.risk(page + danger + page)[0].sum()
