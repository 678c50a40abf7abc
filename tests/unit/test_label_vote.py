"""How SmolLM2 is asked for its vote, and how its liking for some words is taken off."""

import math
from collections.abc import Sequence

import pytest

from services.mllm.language.model import LanguageModel
from services.mllm.language.vote import LabelVote, VotePrompt

LABELS = ("happy", "sad")
ASKED = "Message: {message}\nFeeling:"


class Scripted(LanguageModel):
    """A model that says what it is told to after each message; `prompts` is what it was asked."""

    def __init__(self, answers: dict[str, tuple[float, float]]) -> None:
        self.prompts: list[str] = []
        self._answers = answers

    def likelihoods(self, prompt: str, pieces: Sequence[str]) -> list[float]:
        self.prompts.append(prompt)
        assert list(pieces) == [" happy", " sad"]
        message = prompt.rsplit("Message: ", 1)[1].removesuffix("\nFeeling:")
        return [math.log(value) for value in self._answers[message]]


def prompt(
    empty: tuple[str, ...] = (), prior: tuple[float, float] = (0.5, 0.5), temperature: float = 1.0
) -> VotePrompt:
    known = {label: math.log(value) for label, value in zip(LABELS, prior, strict=True)}
    shots = (("It rains.", "sad"),)
    return VotePrompt("test", "", ASKED + "{label}", shots, empty, {}, known if empty else {}, temperature)


def test_the_prompt_shows_its_examples_and_then_the_message_with_an_open_end() -> None:
    model = Scripted({"So good!": (0.8, 0.2)})
    vote = LabelVote(model, prompt(), LABELS).distribution("So \n good!")
    assert model.prompts == ["Message: It rains.\nFeeling: sad\n\nMessage: So good!\nFeeling:"]
    assert vote == pytest.approx({"happy": 0.8, "sad": 0.2})


def test_other_examples_take_the_place_of_the_prompts_own() -> None:
    model = Scripted({"So good!": (0.8, 0.2)})
    voter = LabelVote(model, prompt(), LABELS)
    voter.distribution("So good!", [("Yes!", "happy")])
    voter.distribution("So good!", [])
    assert model.prompts == [
        "Message: Yes!\nFeeling: happy\n\nMessage: So good!\nFeeling:",
        "Message: So good!\nFeeling:",
    ]


def test_what_the_model_says_to_nothing_is_taken_off_by_half_beside_the_stored_liking() -> None:
    model = Scripted({"N/A": (0.9, 0.1), "Hm.": (0.9, 0.1)})
    vote = LabelVote(model, prompt(empty=("N/A",), prior=(0.4, 0.6)), LABELS).distribution("Hm.")
    odds = (0.9 / 0.1) / math.sqrt((0.9 / 0.1) * (0.4 / 0.6))
    assert vote["happy"] / vote["sad"] == pytest.approx(odds)


def test_with_other_examples_its_liking_is_measured_anew_and_the_stored_one_left_out() -> None:
    model = Scripted({"N/A": (0.9, 0.1), "Hm.": (0.9, 0.1)})
    vote = LabelVote(model, prompt(empty=("N/A",), prior=(0.4, 0.6)), LABELS).distribution("Hm.", [("Yes!", "happy")])
    assert vote == pytest.approx({"happy": 0.5, "sad": 0.5})
    assert model.prompts[-2:] == [
        "Message: Yes!\nFeeling: happy\n\nMessage: N/A\nFeeling:",
        "Message: Yes!\nFeeling: happy\n\nMessage: Hm.\nFeeling:",
    ]


def test_a_temperature_below_one_makes_the_vote_surer() -> None:
    model = Scripted({"Hm.": (0.8, 0.2)})
    vote = LabelVote(model, prompt(temperature=0.5), LABELS).distribution("Hm.")
    assert vote["happy"] / vote["sad"] == pytest.approx(4**2)


def test_both_shipped_prompts_name_a_token_for_every_label_that_is_longer() -> None:
    for version in ("vote-1", "vote-2"):
        assert VotePrompt.load(version).pieces.keys() == {"disgusted", "nostalgic", "apprehensive"}
