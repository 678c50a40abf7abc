"""The mood of a conversation is a mean in which an older turn counts less."""

from dataclasses import replace

import pytest

import emotions
from services.memory.domain import Trajectory, Turn
from services.memory.trajectory import HALF_LIFE_S, trajectory

NOW_S = 1_800_000_000.0
LABELS = emotions.load().labels


def felt(label: str, age_s: float = 0.0, intensity: float = 1.0) -> Turn:
    return Turn("turn", "question", label, "answer", "caring", user_intensity=intensity, said_at_s=NOW_S - age_s)


def test_before_the_first_turn_nothing_was_felt() -> None:
    assert trajectory([], NOW_S) == Trajectory("", {}, 0.0, 0.0, 0.0, HALF_LIFE_S)


def test_one_turn_is_what_its_label_is_on_the_wheel_as_strong_as_it_was() -> None:
    sad = trajectory([felt("sad", intensity=0.5)], NOW_S)
    assert (sad.label, sad.weights) == ("sad", {"sad": 1.0})
    assert (sad.valence, sad.arousal) == (LABELS["sad"].valence / 2, LABELS["sad"].arousal / 2)
    assert sad.valence_change == 0


def test_a_turn_counts_half_after_each_half_life() -> None:
    found = trajectory([felt("sad", 3 * 600), felt("angry", 600), felt("happy")], NOW_S, half_life_s=600)
    together = 1 / 8 + 1 / 2 + 1
    assert found.weights == pytest.approx({"sad": 0.125 / together, "angry": 0.5 / together, "happy": 1 / together})
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.label == "happy"
    valences = [LABELS[name].valence for name in ("sad", "angry", "happy")]
    assert found.valence == pytest.approx((valences[0] / 8 + valences[1] / 2 + valences[2]) / together)
    assert found.half_life_s == 600


def test_many_old_turns_outweigh_a_new_one_of_another_label() -> None:
    assert trajectory([felt("sad", 60), felt("sad", 30), felt("happy")], NOW_S).label == "sad"


@pytest.mark.parametrize(("labels", "sign"), [(("sad", "sad", "happy", "happy"), 1), (("happy", "sad", "sad"), -1)])
def test_the_change_says_whether_it_gets_better_or_worse(labels: tuple[str, ...], sign: int) -> None:
    turns = [felt(label, 10.0 * (len(labels) - number)) for number, label in enumerate(labels)]
    assert trajectory(turns, NOW_S).valence_change * sign > 1


def test_the_order_is_that_of_the_turns_and_not_of_their_clocks() -> None:
    turns = [felt("sad", -500), felt("happy", 500)]
    assert trajectory(turns, NOW_S).valence_change > 1


def test_a_turn_from_the_future_counts_as_one_of_now() -> None:
    assert trajectory([felt("sad", -9999), felt("happy")], NOW_S).weights == {"sad": 0.5, "happy": 0.5}


def test_a_conversation_of_years_ago_still_felt_as_it_did() -> None:
    then = 10 * 365 * 86_400.0
    old = trajectory([felt("sad", then + 600), felt("happy", then)], NOW_S, half_life_s=600)
    assert old.weights == pytest.approx({"sad": 1 / 3, "happy": 2 / 3})


def test_a_label_that_the_wheel_no_longer_has_is_left_out() -> None:
    assert trajectory([replace(felt("sad"), user_emotion="meh"), felt("happy")], NOW_S).weights == {"happy": 1.0}
