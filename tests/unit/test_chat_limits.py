"""A model that takes only so much sound and so many frames gets no more, and the vote says what was cut."""

from pathlib import Path

import numpy as np
import pytest

import emotions
from perception.text import SentenceReader
from services.mllm.chat.limits import Limited, Limits, within
from services.mllm.chat.question import EmotionPrompt
from services.mllm.chat.settings import ChatSettings
from services.mllm.chat.shots import Shots
from services.mllm.chat.voter import ChatVoter
from services.mllm.domain import AUDIO_RATE_HZ, Frame, Message, Modality
from services.mllm.reply.exemplars import Exemplars
from tests.fake_chat_models import FakeScorer


def sound(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.arange(round(seconds * AUDIO_RATE_HZ), dtype=np.float32)


def film(seconds: float, rate_hz: float = 2) -> tuple[Frame, ...]:
    return tuple(
        Frame(place / rate_hz, np.full((2, 2, 3), place, np.uint8)) for place in range(round(seconds * rate_hz))
    )


def test_what_fits_stays_as_it_is() -> None:
    message = Message(text="a", audio=sound(3), frames=film(3))
    assert within(message, Limits(3, 6)) == (message, "")
    assert within(Message(text="a"), Limits(1, 1)) == (Message(text="a"), "")


def test_of_long_sound_the_end_is_heard_and_the_frames_of_that_time_are_seen() -> None:
    message = Message(audio=sound(10), frames=film(10))
    short, cut = within(message, Limits(4, 99))
    assert short.audio is not None
    assert message.audio is not None
    assert np.array_equal(short.audio, message.audio[-4 * AUDIO_RATE_HZ :])
    assert [frame.time_s for frame in short.frames] == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert [int(frame.image[0, 0, 0]) for frame in short.frames] == list(range(12, 20))
    assert cut == "audio 10.0 s to its last 4 s, 20 frames to 8"


@pytest.mark.parametrize(("most", "kept"), [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, list(range(10)))])
def test_of_many_frames_those_evenly_spread_are_seen(most: int, kept: list[int]) -> None:
    short, cut = within(Message(frames=film(5)), Limits(60, most))
    assert [int(frame.image[0, 0, 0]) for frame in short.frames] == kept
    assert cut == ("" if most == 10 else f"10 frames to {most}")


def test_nobody_waits_for_the_shortened_message_either() -> None:
    message = Message(frames=film(5))
    short, _ = within(message, Limits(60, 1))
    message.stop.set()
    assert short.stop.is_set()


class LimitedScorer(FakeScorer):
    limits = Limits(2, 3)


def test_a_vote_says_what_was_cut_and_the_model_gets_no_more() -> None:
    model = LimitedScorer({"sad": -1.0})
    model.perceives = frozenset(Modality)
    assert isinstance(model, Limited)
    labels, shots = tuple(emotions.load().labels), Shots(Exemplars(), SentenceReader(Path(".models")), 0)
    voter = ChatVoter(model, ChatSettings(), EmotionPrompt.load("emotion-1"), labels, shots)
    vote = voter.predict(Message(text="Nobody calls.", audio=sound(3), frames=film(3)))
    assert vote.evidence["cut"] == "audio 3.0 s to its last 2 s, 6 frames to 3"
    assert vote.saw == frozenset(Modality)
    (turns,) = model.asked
    assert turns[-1].audio is not None
    assert (len(turns[-1].audio), len(turns[-1].frames)) == (2 * AUDIO_RATE_HZ, 3)
    assert "cut" not in voter.predict(Message(text="Nobody calls.", audio=sound(2))).evidence
