"""The voter on all-mpnet-base-v2, with its real weights."""

from pathlib import Path

import pytest

import emotions
from perception.mpnet import Encoder
from services.mllm.backends.mpnet import ADAPTER, MpnetBackend, create
from services.mllm.domain import Level, Message, Modality, Utterance, answer_of

WHEEL = emotions.load()


@pytest.fixture(scope="module")
def backend() -> MpnetBackend:
    return create()


@pytest.mark.parametrize(
    ("text", "coarse"),
    [
        # None of these is a training sentence.
        ("I got the job I always wanted, drinks are on me!", "happy"),
        ("Grandma passed away on Sunday and the house feels empty without her.", "sad"),
        ("My neighbor keyed my car again and laughed about it.", "angry"),
        ("Somebody follows me home each night and I do not dare to turn round.", "fear"),
        ("The fridge smelled of rotting fish and there were worms in the meat.", "disgusted"),
        ("Which platform does the train to Boston leave from?", "neutral"),
        ("I practised for months, and I failed my driving test again today. I feel like giving up.", "sad"),
    ],
)
def test_names_the_class_of_plain_cases(backend: MpnetBackend, text: str, coarse: str) -> None:
    assert answer_of(backend.predict(Message(text=text)), WHEEL).face_class == coarse


def test_a_vote_is_a_distribution_over_the_labels_of_the_wheel(backend: MpnetBackend) -> None:
    vote = backend.predict(Message(text="I got the job!"))
    assert (vote.level, vote.saw, vote.parse) == (Level.LABEL, frozenset({Modality.TEXT}), "classified")
    assert list(vote.distribution) == list(WHEEL.labels)
    assert sum(vote.distribution.values()) == pytest.approx(1, abs=1e-6)


def test_a_short_message_is_read_behind_what_the_user_said_before_it(backend: MpnetBackend) -> None:
    said = Utterance("user", "My dog died last night.")
    answer = Utterance("avatar", "I'm so sorry. How old was he?")
    vote = backend.predict(Message(text="Twelve.", history=(said, answer)))
    assert answer_of(vote, WHEEL).face_class == "sad"
    assert vote.evidence["read"]
    assert vote.history_dropped == 1


def test_signs_of_the_tokenizer_in_a_first_message_are_no_message_before_it(backend: MpnetBackend) -> None:
    for sign in ("</s></s>", "<mask>", "[UNK]"):
        assert backend.predict(Message(text=f"{sign} I passed my exam.")).history_dropped == 0


def test_a_long_message_is_read_alone(backend: MpnetBackend) -> None:
    text = "We won the final and everybody sang in the bus. " * 4
    history = (Utterance("user", "My dog died last night."),)
    vote = backend.predict(Message(text=text, history=history))
    assert vote.distribution == backend.predict(Message(text=text)).distribution
    assert vote.history_dropped == 1


@pytest.mark.parametrize("text", ["", "   ", "\u6211\u5f88\u5f00\u5fc3"])
def test_abstains_where_there_is_nothing_that_it_can_read(backend: MpnetBackend, text: str) -> None:
    assert backend.predict(Message(text=text)).abstained


def test_a_head_for_another_wheel_is_refused() -> None:
    encoder = Encoder(Path(".models"), ADAPTER)
    with pytest.raises(ValueError, match="does not fit the wheel"):
        MpnetBackend(encoder, ("happy", "sad"), WHEEL, "digest")
