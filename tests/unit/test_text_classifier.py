import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

import emotions
from emotions import Wheel
from services.mllm.backends.text_classifier import (
    HEAD_PATH,
    FeatureReader,
    Head,
    TextClassifierBackend,
    create,
    ending,
)
from services.mllm.domain import Level, Message, Modality, Prediction, Utterance, answer_of
from services.mllm.training import train


@pytest.fixture(scope="module")
def backend() -> TextClassifierBackend:
    return create()


@pytest.fixture(scope="module")
def reader() -> FeatureReader:
    return FeatureReader(Path(".models"))


@pytest.fixture(scope="module")
def wheel() -> Wheel:
    return emotions.load()


@pytest.mark.parametrize(
    ("text", "coarse"),
    [
        # None of these is a training sentence.
        ("I got the job I always wanted, drinks are on me!", "happy"),
        ("Next week we finally fly to Italy, I have dreamed of it for years!", "happy"),
        ("Grandma passed away on Sunday and the house feels empty without her.", "sad"),
        ("Nobody ever calls me, I spend every evening on my own.", "sad"),
        ("My neighbor keyed my car again and laughed about it.", "angry"),
        ("Someone is trying to break into the house and I'm hiding in the bathroom.", "fear"),
        ("The fridge smelled of rotting fish and there were worms in the meat.", "disgusted"),
        ("Which platform does the train to Boston leave from?", "neutral"),
        ("My coworker gets all the praise and the big office, and what do I get?", "contempt"),
        ("It's raining again.", "neutral"),
        ("It's cold today.", "neutral"),
        ("I have to buy bread.", "neutral"),
        ("My cat is sick", "sad"),
        ("They gave the job to someone else.", "sad"),
        ("Oh great, another meeting that could have been an email.", "angry"),
        # Effort and then failure, good and then bad, bad and then good.
        ("I practised for months, and I failed my driving test again today. I feel like giving up.", "sad"),
        ("I was so sure I would win, but I came last.", "sad"),
        ("Everything was ready for the picnic and then nobody came.", "sad"),
        ("I thought I had failed, but I got the best mark in class!", "happy"),
    ],
)
def test_names_the_class_of_plain_cases(backend: TextClassifierBackend, wheel: Wheel, text: str, coarse: str) -> None:
    assert answer_of(backend.predict(Message(text=text)), wheel).face_class == coarse


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("I tried hard, but I failed.", "I failed."),
        ("We set out at six. Then it rained. All day!", "All day!"),
        ("It was lovely and then he left", "he left"),
        ("They said we had won. Really?", "They said we had won."),
        ("Nothing turns here, as far as I can see", "Nothing turns here, as far as I can see"),
        ("  ", ""),
    ],
)
def test_the_end_of_a_text_is_what_follows_its_last_turn(text: str, end: str) -> None:
    assert ending(text) == end


def test_votes_on_every_label_and_the_votes_sum_to_one(backend: TextClassifierBackend, wheel: Wheel) -> None:
    vote = backend.predict(Message(text="I can't wait for the holidays."))
    assert vote.level is Level.LABEL
    assert vote.level is backend.card.level
    assert set(vote.distribution) == set(wheel.labels)
    assert sum(vote.distribution.values()) == pytest.approx(1)
    assert vote.saw == {Modality.TEXT}
    assert vote.abstained == ""


@pytest.mark.parametrize("text", ["", "   \n", "...", "?!", "42", "aaaaaaaaaaaa", "Zzzz aaaa"])
def test_abstains_when_there_are_no_words(backend: TextClassifierBackend, text: str) -> None:
    vote = backend.predict(Message(text=text))
    assert vote == Prediction(Level.LABEL, {}, frozenset(), "classified", abstained="no words in the text")


@pytest.mark.parametrize(
    "text",
    [
        "\u043c\u043d\u0435 \u0433\u0440\u0443\u0441\u0442\u043d\u043e, Anna",
        "\u6211\u5f88\u96be\u8fc7",
        "\u0623\u0646\u0627 \u062d\u0632\u064a\u0646",
    ],
)
def test_abstains_from_a_text_that_is_mostly_in_another_script(backend: TextClassifierBackend, text: str) -> None:
    vote = backend.predict(Message(text=text))
    assert (vote.distribution, vote.saw) == ({}, frozenset())
    assert vote.abstained == "the text is not in Latin script; this model reads English only"


def test_a_bare_answer_is_read_with_what_the_user_said_before(backend: TextClassifierBackend, wheel: Wheel) -> None:
    history = (
        Utterance("user", "My grandfather died last night and I can't stop crying."),
        Utterance("avatar", "I'm so sorry. Were you close?"),
    )
    alone = backend.predict(Message(text="Yes."))
    together = backend.predict(Message(text="Yes.", history=history))
    assert answer_of(alone, wheel).face_class == "neutral"
    assert answer_of(together, wheel).face_class == "sad"
    assert "before" in together.evidence["read"]
    assert (alone.history_dropped, together.history_dropped) == (0, 1)


def test_a_message_that_speaks_for_itself_is_read_alone(backend: TextClassifierBackend) -> None:
    history = (Utterance("user", "My grandfather died last night and I can't stop crying."),)
    for text in ("I'm furious!", "Now tell me which bus goes to the town hall."):
        alone = backend.predict(Message(text=text))
        vote = backend.predict(Message(text=text, history=history))
        assert vote.distribution == pytest.approx(alone.distribution, abs=1e-5)
        assert "read" not in vote.evidence
        assert vote.history_dropped == 1


def test_a_line_break_does_not_end_the_text(backend: TextClassifierBackend) -> None:
    one = backend.predict(Message(text="It was a long day. I am so scared of the dark."))
    two = backend.predict(Message(text="It was a long day.\nI am so scared of the dark."))
    assert two.distribution == pytest.approx(one.distribution)


def test_evidence_names_the_best_labels(backend: TextClassifierBackend) -> None:
    vote = backend.predict(Message(text="I was so embarrassed, everyone laughed at me."))
    best = max(vote.distribution, key=vote.distribution.__getitem__)
    assert vote.evidence["nearest_labels"].startswith(f"{best} {vote.distribution[best]:.2f}")


def test_refuses_a_head_of_another_wheel(reader: FeatureReader, wheel: Wheel) -> None:
    head = Head.load(HEAD_PATH)
    other = dataclasses.replace(wheel, labels={name: wheel.labels[name] for name in list(wheel.labels)[1:]})
    with pytest.raises(ValueError, match="does not fit the wheel"):
        TextClassifierBackend(reader, head, other, "")


def test_features_are_the_meaning_and_151_emoji(reader: FeatureReader) -> None:
    love, tax = reader.read(["I love you so much", "The tax form has four pages."])
    assert reader.length == len(love) == 384 + 151
    assert np.abs(love[384:] - tax[384:]).max() > 0.3


def test_missing_emoji_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nade_250k_hp\.ftz.*make models"):
        FeatureReader(tmp_path)


def test_the_head_was_trained_on_the_sentences_as_they_are() -> None:
    digest = hashlib.sha256(train.SENTENCES_PATH.read_bytes()).hexdigest()
    assert Head.load(HEAD_PATH).sentences_sha256 == digest, "run python -m services.mllm.training.train"


def test_the_head_is_small_and_survives_its_file(tmp_path: Path) -> None:
    head = Head.load(HEAD_PATH)
    features = np.random.default_rng(0).normal(head.centre, 0.3, (20, len(head.centre))).astype(np.float32)
    head.save(tmp_path / "head.npz")
    again = Head.load(tmp_path / "head.npz")
    np.testing.assert_allclose(again.probabilities(features), head.probabilities(features), atol=1e-6)
    assert HEAD_PATH.stat().st_size < 200_000


def test_every_label_has_thirty_sentences(wheel: Wheel) -> None:
    texts, truth = train.read_sentences(train.SENTENCES_PATH, wheel)
    assert np.bincount(truth, minlength=len(wheel.labels)).min() >= 30
    assert len(texts) >= 1000


def test_training_finds_what_separates_the_labels(wheel: Wheel) -> None:
    labels = len(wheel.labels)
    truth = np.tile(np.arange(labels), 8)
    random = np.random.default_rng(0)
    features = random.normal(0, 0.3, (len(truth), labels)) + 3 * np.eye(labels)[truth]
    found = train.fit(features, train.targets(truth, wheel))
    assert np.mean(found.logits(features).argmax(axis=1) == truth) > 0.97


def test_a_target_leans_to_the_neighbours_on_the_wheel(wheel: Wheel) -> None:
    names = list(wheel.labels)
    (target,) = train.targets(np.array([names.index("terrified")]), wheel)
    assert target.sum() == pytest.approx(1)
    assert target[names.index("terrified")] == target.max() == pytest.approx(0.8)
    assert target[names.index("afraid")] > 10 * target[names.index("content")]


def test_the_temperature_takes_confidence_from_votes_that_err_and_gives_it_to_those_that_do_not() -> None:
    truth = np.arange(200) % 2
    sure = np.where(np.eye(2)[truth] == 1, 8.0, 0.0)
    half_wrong = sure.copy()
    half_wrong[:80] = half_wrong[:80, ::-1]
    assert train.temperature(half_wrong, truth) > 1.5
    # All right: the least that is tried.
    assert train.temperature(sure / 8, truth) == pytest.approx(0.4)
