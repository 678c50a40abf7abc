"""Examples are picked by likeness, never out of the dialogue itself, and the seed decides their order."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from perception.text import SentenceReader
from services.mllm.chat.shots import Shots
from services.mllm.domain import Message, Utterance
from services.mllm.reply.exemplars import SITUATIONS, Exemplar, Exemplars

STORE = Exemplars()
PAIRS = [pair for pair in STORE.pairs if pair.label not in SITUATIONS]
DOG = "I had to put my old dog to sleep this week."


class Blind:
    """Finds all texts equally far from all others."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.zeros((len(texts), STORE.vectors.shape[1]), np.float32)


class Counting:
    """The real reader; `read` is what it was asked for."""

    def __init__(self, reader: SentenceReader) -> None:
        self._reader, self.read = reader, list[str]()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        return self._reader.embed(texts)


@pytest.fixture(scope="module")
def reader() -> SentenceReader:
    return SentenceReader(Path(".models"))


def messages(reader: SentenceReader, message: Message, count: int = 3) -> list[str]:
    return [example.message for example in Shots(STORE, reader, count).pick(message)]


@pytest.mark.parametrize("count", [0, 1, 3, 16])
def test_so_many_are_picked_as_were_asked_for(reader: SentenceReader, count: int) -> None:
    examples = Shots(STORE, reader, count).pick(Message(text="My dog has died."))
    assert len({example.shot.id for example in examples}) == count
    for example in examples:
        label, _, number = example.shot.id.rpartition("/")
        assert label == example.shot.label
        assert [pair.message for pair in STORE.pairs if pair.label == label][int(number) - 1] == example.message


def test_they_are_the_most_alike_and_their_likeness_is_on_record(reader: SentenceReader) -> None:
    text = "My dog has died."
    examples = Shots(STORE, reader, 3).pick(Message(text=text))
    rows = reader.embed([pair.message for pair in PAIRS]) @ reader.embed([text])[0]
    best = sorted(zip(rows, (pair.message for pair in PAIRS), strict=True), reverse=True)[:3]
    assert {example.message for example in examples} == {message for _, message in best}
    for example in examples:
        (likeness,) = (float(row) for row, message in best if message == example.message)
        assert example.shot.similarity == pytest.approx(likeness, abs=2e-3)


def test_the_seed_decides_the_order_and_nothing_else(reader: SentenceReader) -> None:
    orders = [messages(reader, Message(text="My dog has died.", seed=seed)) for seed in range(8)]
    assert orders == [messages(reader, Message(text="My dog has died.", seed=seed)) for seed in range(8)]
    assert len({tuple(order) for order in orders}) > 1
    assert len({frozenset(order) for order in orders}) == 1


def test_the_seed_decides_between_equally_near_ones() -> None:
    picked = [Shots(STORE, Blind(), 3).pick(Message(text="My dog has died.", seed=seed)) for seed in (1, 1, 2)]
    first, again, other = (frozenset(example.shot.id for example in examples) for examples in picked)
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    "said",
    [
        DOG,
        DOG.upper(),
        "  i had to put my\n old dog -- to SLEEP, this week ",
        f"You know what? {DOG} And then it rained.",
        "I had to put my old dog to sleep",  # its beginning
        "I had to put my old dog to sleep that week.",  # a near-duplicate
    ],
)
@pytest.mark.parametrize("place", ["message", "user", "avatar"])
def test_what_occurs_in_the_dialogue_is_no_example(reader: SentenceReader, said: str, place: str) -> None:
    assert DOG in messages(reader, Message(text="My old dog had to be put to sleep yesterday, he was ill."))
    if place == "message":
        dialogue = Message(text=said)
    else:
        before = Utterance("user" if place == "user" else "avatar", said)
        dialogue = Message(text="My old dog had to be put to sleep yesterday, he was ill.", history=(before,))
    picked = messages(reader, dialogue)
    assert len(picked) == 3
    assert DOG not in picked


@pytest.mark.parametrize("pair", PAIRS[::29], ids=lambda pair: pair.label)
def test_no_stored_message_is_shown_its_own_answer(reader: SentenceReader, pair: Exemplar) -> None:
    assert pair.message not in messages(reader, Message(text=pair.message), count=16)


def test_a_short_word_in_the_dialogue_bars_no_example(reader: SentenceReader) -> None:
    assert DOG in messages(reader, Message(text="My dog has died.", history=(Utterance("user", "My old dog."),)))


@pytest.mark.parametrize("text", ["I want to die.", "hello", "Are you real?"])
def test_a_cry_for_help_a_greeting_or_a_question_to_the_avatar_is_never_an_example(
    reader: SentenceReader, text: str
) -> None:
    assert not {example.shot.label for example in Shots(STORE, reader, 16).pick(Message(text=text))} & set(SITUATIONS)


def test_without_a_text_the_last_words_of_the_user_count_and_without_any_there_is_no_example(
    reader: SentenceReader,
) -> None:
    history = (Utterance("user", "My dog has died."), Utterance("avatar", "We won the cup!"))
    assert set(messages(reader, Message(history=history))) == set(messages(reader, Message(text="My dog has died.")))
    assert messages(reader, Message(history=history[1:])) == []


def test_a_history_that_comes_again_is_not_read_again(reader: SentenceReader) -> None:
    counting = Counting(reader)
    shots = Shots(STORE, counting, 3)
    history = tuple(Utterance("user", f"Turn number {number}.") for number in range(200))
    shots.pick(Message(text="My dog has died.", history=history))
    assert len(counting.read) == 201
    shots.pick(Message(text="I miss him.", history=(*history, Utterance("user", "My dog has died."))))
    assert counting.read[201:] == ["I miss him."]
