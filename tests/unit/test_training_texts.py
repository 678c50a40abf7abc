"""The project's own texts: what voters were trained on, and what their votes are weighed and calibrated with."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import emotions
from services.mllm.language.vote import VotePrompt
from services.mllm.reply.exemplars import Exemplars
from services.mllm.training.train import SENTENCES_PATH, read_sentences
from services.understanding import reliability

SITUATIONS_PATH = SENTENCES_PATH.with_name("situations.toml")
MESSAGES_PATH = Path("services/understanding/training/messages.toml")


def test_every_label_has_its_situations() -> None:
    wheel = emotions.load()
    texts, truth = read_sentences(SITUATIONS_PATH, wheel)
    assert np.bincount(truth, minlength=len(wheel.labels)).min() >= 8
    assert len(texts) >= 600


def test_every_label_has_as_many_messages_to_weigh_the_votes_with() -> None:
    content = tomllib.loads(MESSAGES_PATH.read_text("utf-8"))
    assert list(content) == list(emotions.load().labels)
    assert {len(texts) for texts in content.values()} == {7}


def test_no_voter_was_trained_on_a_message_that_weighs_it() -> None:
    wheel = emotions.load()
    learned = {text for path in (SENTENCES_PATH, SITUATIONS_PATH) for text in read_sentences(path, wheel)[0]}
    learned |= {pair.message for pair in Exemplars().pairs}
    learned |= {message for message, _ in VotePrompt.load("vote-1").shots}
    content = tomllib.loads(MESSAGES_PATH.read_text("utf-8"))
    assert not learned & {text for texts in content.values() for text in texts}


@pytest.mark.parametrize("voter", ["text", "smollm2"])
def test_the_shipped_weights_know_the_embedded_voters_that_read(voter: str) -> None:
    weights = reliability.load("embedded-1", emotions.load())
    assert min(weights.votes[voter].values()) > 1
    assert weights.of_pool(voter) > 0.5
