"""A reply refers to what the user said earlier when that fits and may be said; the record tells why it does not."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

import emotions
from services.mllm.backends import smollm2
from services.mllm.domain import (
    Act,
    Memory,
    MemoryUse,
    Message,
    Profile,
    ReplyRecord,
    ReplyRequest,
    ReplySentence,
    Utterance,
)
from services.mllm.reply.exemplars import Exemplars
from services.mllm.reply.gate import Gate
from services.mllm.reply.recall import (
    CLAUSE_OPENINGS,
    ELSEWHERE_SIMILARITY_MIN,
    LONG_AGO_CLAUSE_OPENINGS,
    LONG_AGO_TOPIC_OPENINGS,
    OPENING,
    SIMILARITY_MIN,
    TOPIC_OPENINGS,
    Recall,
)
from services.mllm.reply.stored import situation_of

PROFILE = Profile(name="Anna", age="young", gender="female", timbre="mid")
WHEEL = emotions.load()
REX = Memory("My dog Rex is very ill.", "anxious", turns_ago=2, age_s=60, similarity=0.55)
HISTORY = (
    Utterance("user", "My dog Rex is very ill.", "anxious"),
    Utterance("avatar", "I'm so sorry."),
    Utterance("user", "I had toast for breakfast.", "neutral"),
    Utterance("avatar", "That sounds simple and good."),
)
REQUEST = ReplyRequest(
    Message(text="We are at the vet now and I am so scared.", history=HISTORY),
    "fear",
    "caring",
    PROFILE,
    memories=(REX,),
)


@pytest.fixture(scope="module")
def recall() -> Recall:
    return Recall(WHEEL, Gate(Exemplars().replies()))


def said(recall: Recall, request: ReplyRequest) -> tuple[str, tuple[MemoryUse, ...]]:
    recalled = recall.sentence(request, situation_of(request, WHEEL))
    return recalled.sentence, recalled.uses


def with_memory(text: str, **changes: object) -> ReplyRequest:
    memory = replace(REX, text=text, similarity=0.7, emotion="sad")
    return replace(REQUEST, memories=(replace(memory, **changes),))  # type: ignore[arg-type]


def test_a_memory_that_fits_is_told_back_and_is_on_record(recall: Recall) -> None:
    sentence, uses = said(recall, REQUEST)
    assert sentence == "You told me that your dog Rex was very ill."
    assert uses == (MemoryUse(sentence=sentence),)


def test_the_words_around_it_change_with_the_seed_and_say_when_it_was_long_ago(recall: Recall) -> None:
    assert said(recall, replace(REQUEST, seed=1))[0] == "You mentioned that your dog Rex was very ill."
    before = replace(REX, turns_ago=0, age_s=7 * 86_400, similarity=ELSEWHERE_SIMILARITY_MIN)
    sentence, _ = said(recall, replace(REQUEST, memories=(before,)))
    assert sentence == "You once told me that your dog Rex was very ill."


@pytest.mark.parametrize(
    "openings", [CLAUSE_OPENINGS, LONG_AGO_CLAUSE_OPENINGS, TOPIC_OPENINGS, LONG_AGO_TOPIC_OPENINGS]
)
def test_the_gate_lets_every_opening_pass_and_it_is_known_again(openings: tuple[str, ...]) -> None:
    situation = replace(situation_of(REQUEST, WHEEL), earlier=())
    for opening in openings:
        sentence = f"{opening} your dog Rex was ill." if opening.endswith("that") else f"{opening} your dog Rex."
        assert Gate(Exemplars().replies()).refusal(sentence, situation) == ""
        assert OPENING.search(sentence)


def test_the_nearest_is_chosen_and_the_others_say_why_not(recall: Recall) -> None:
    far = Memory("The rain has stopped.", "content", 3, 90, 0.1)
    less = Memory("My cat Minka is ill.", "sad", 4, 120, 0.5)
    sentence, uses = said(recall, replace(REQUEST, memories=(far, less, REX)))
    assert "Rex" in sentence
    assert uses[0].unused == f"unlike the message: 0.10, from {SIMILARITY_MIN} on it is used"
    assert uses[1:] == (MemoryUse(unused="another memory is nearer"), MemoryUse(sentence=sentence))


def test_when_of_the_nearest_nothing_can_be_said_the_next_is_chosen(recall: Recall) -> None:
    vague = Memory("So scared, so tired.", "fear", 3, 90, 0.6)
    sentence, uses = said(recall, replace(REQUEST, memories=(vague, REX)))
    assert "Rex" in sentence
    assert uses[0] == MemoryUse(unused="nothing of it can be said back")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"similarity": SIMILARITY_MIN - 0.01}, "unlike the message"),
        ({"turns_ago": 0, "similarity": ELSEWHERE_SIMILARITY_MIN - 0.01}, "unlike the message"),
        ({"similarity": 0.95}, "says the same"),
        ({"turns_ago": 1}, "just now"),
        ({"text": "I had toast for breakfast.", "turns_ago": 0, "similarity": 0.8}, "just now"),
        ({"text": "My father beat me when I was small."}, "violence"),
        ({"text": "I want to hurt my wife."}, "violence"),
        ({"text": "!!! 42"}, "not legible"),
        ({"text": "You never listen to me, you stupid machine."}, "nothing of it"),
        ({"text": "It is all my fault."}, "nothing of it"),
    ],
)
def test_what_does_not_fit_or_may_not_be_said_is_not_said(
    recall: Recall, changes: dict[str, object], reason: str
) -> None:
    request = replace(REQUEST, memories=(replace(REX, **changes),))  # type: ignore[arg-type]
    sentence, (use,) = said(recall, request)
    assert sentence == ""
    assert (use.sentence, use.is_read) == ("", False)
    assert reason in use.unused


@pytest.mark.parametrize(
    ("text", "emotion"),
    [
        ("I lied to my sister about the money.", "guilty"),
        ("My sister cheated on her exam.", "angry"),
        ("My sister brags about the car all day.", "contempt"),
        ("My sister died in March.", "sad"),
        ("My sister has only weeks left.", "devastated"),
    ],
)
def test_of_an_accusation_a_deed_scorn_and_a_death_only_the_person_is_named(
    recall: Recall, text: str, emotion: str
) -> None:
    request = with_memory(text, emotion=emotion)
    assert said(recall, request)[0] == "You told me about your sister."


def test_what_was_said_of_one_is_not_said_when_it_is_about_another(recall: Recall) -> None:
    now = Message(text="My husband is at the vet with my cat.")
    sentence, (use,) = said(recall, replace(REQUEST, message=now))
    assert (sentence, use.unused) == ("", "is about somebody else")
    now = Message(text="My husband is at the vet with the dog.")
    assert "Rex" in said(recall, replace(REQUEST, message=now))[0]


def test_joy_is_not_told_back_beside_a_death(recall: Recall) -> None:
    request = with_memory("My sister was dancing in the rain.", emotion="joyful")
    assert said(recall, request)[0] == "You told me that your sister was dancing in the rain."
    died = replace(request, message=Message(text="She died last night."))
    assert said(recall, died)[0] == "You told me about your sister."


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("You told me that your dog Rex was very ill. That is hard.", "the last reply spoke of a memory"),
        ("I hope your dog Rex was very ill for the last time.", "was spoken of in this conversation"),
    ],
)
def test_the_same_memory_is_not_spoken_of_twice(recall: Recall, reply: str, reason: str) -> None:
    history = (*HISTORY[:2], Utterance("user", "I am on my way."), Utterance("avatar", reply))
    sentence, (use,) = said(recall, replace(REQUEST, message=replace(REQUEST.message, history=history)))
    assert (sentence, use.unused) == ("", reason)


# The real writer


@pytest.fixture(scope="module")
def backend() -> Iterator[smollm2.Smollm2Backend]:
    made = smollm2.create()
    yield made
    made.close()


def reply(backend: smollm2.Smollm2Backend, request: ReplyRequest) -> tuple[list[str], ReplyRecord]:
    *pieces, record = backend.write(request)
    assert isinstance(record, ReplyRecord)
    return [piece.text for piece in pieces if isinstance(piece, ReplySentence)], record


def recalled_by(backend: smollm2.Smollm2Backend, request: ReplyRequest) -> ReplyRequest:
    """The order as memory fills it: earlier turns with the real cosine to the message."""
    told = [one for one in request.message.history if one.speaker == "user"]
    *earlier, now = backend._writer._embedder.embed([*(one.text for one in told), request.message.text])
    memories = tuple(
        Memory(one.text, one.emotion, len(told) - place, 60, float(vector @ now))
        for place, (one, vector) in enumerate(zip(told, earlier, strict=True))
    )
    return replace(request, memories=memories)


def test_a_reply_names_the_dog_that_was_spoken_of_two_turns_earlier(backend: smollm2.Smollm2Backend) -> None:
    sentences, record = reply(backend, recalled_by(backend, REQUEST))
    assert sentences[0] == "You told me that your dog Rex was very ill."
    assert len(sentences) > 1
    assert not re.search("dog|Rex|told", " ".join(sentences[1:]))
    assert record.memories == (MemoryUse(sentence=sentences[0]), MemoryUse(unused="was said just now"))


def test_a_reply_to_something_else_speaks_of_no_memory(backend: smollm2.Smollm2Backend) -> None:
    message = Message(text="My boss shouted at me in front of the customers.", history=HISTORY)
    sentences, record = reply(backend, recalled_by(backend, replace(REQUEST, message=message, user_emotion="angry")))
    assert not re.search("Rex|dog|told", " ".join(sentences))
    assert record.memories[0].unused.startswith("unlike the message: 0.0")


def test_a_greeting_is_answered_without_memories(backend: smollm2.Smollm2Backend) -> None:
    request = replace(REQUEST, message=replace(REQUEST.message, text="hello"))
    sentences, record = reply(backend, request)
    assert "Rex" not in " ".join(sentences)
    assert record.memories == (MemoryUse(unused="greeting"),)


def test_of_what_tells_nothing_only_a_question_for_it_is_answered_from_memory(recall: Recall) -> None:
    def asked(text: str) -> str:
        request = replace(REQUEST, message=replace(REQUEST.message, text=text), act=Act.ABOUT)
        return said(recall, request)[0]

    assert asked("Do you get ill?") == ""
    for text in ("Do you remember my dog?", "What is my dog called?"):
        assert "your dog Rex was very ill" in asked(text)
