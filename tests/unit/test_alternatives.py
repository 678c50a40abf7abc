"""Likelihoods of labels, out of the tokens that a server wrote and those that it might have written."""

import numpy as np
import pytest

from services.mllm.remote.alternatives import Token, label_log_likelihoods


def token(text: str, **others: float) -> Token:
    return Token(text, {name.replace("_", " "): np.log(chance) for name, chance in others.items()})


def told(tokens: list[Token], labels: tuple[str, ...], *, guided: bool, start: int = 0) -> dict[str, float]:
    found = label_log_likelihoods(tokens, labels, start, guided)
    return {label: round(float(np.exp(value)), 6) for label, value in found.items()}


def test_the_first_token_tells_labels_that_begin_alone() -> None:
    tokens = [token("sad", sad=0.4, happy=0.08, ang=0.02, An=0.4, the=0.05), token("", **{"": 1.0})]
    # The server told them before it ruled "An" and "the" out.
    assert told(tokens, ("sad", "happy", "angry"), guided=True) == {"sad": 0.8, "happy": 0.16, "angry": 0.04}


def test_labels_that_share_the_written_token_are_told_apart_at_the_next() -> None:
    tokens = [token("dis", dis=0.4, sad=0.6), token("app", app=0.6, gust=0.2, may=0.2), token("ointed", ointed=1.0)]
    assert told(tokens, ("disappointed", "disgusted", "sad"), guided=True) == {
        "disappointed": 0.3,
        "disgusted": 0.1,
        "sad": 0.6,
    }


def test_labels_that_share_a_token_that_was_not_written_are_left_out() -> None:
    tokens = [token("sad", sad=0.5, dis=0.5)]
    assert told(tokens, ("disappointed", "disgusted", "sad"), guided=True) == {"sad": 0.5}


def test_a_label_that_begins_another_ends_where_the_answer_ends() -> None:
    labels = ("sad", "saddened")
    assert told([token("sad", sad=0.5)], labels, guided=True) == {"sad": 1.0}
    ended = [token("sad", sad=0.5), token("", **{"": 0.8, "dened": 0.2})]
    assert told(ended, labels, guided=True) == {"sad": 0.8, "saddened": 0.2}


def test_free_text_tells_whole_labels_only_in_any_case_and_spacing() -> None:
    tokens = [token("Sad", Sad=0.3, _sad=0.2, happ=0.2, angry=0.1), token(".", **{".": 1.0})]
    assert told(tokens, ("sad", "happy", "angry"), guided=False) == {"sad": 0.5, "angry": 0.1}


def test_free_text_tells_the_label_that_was_written_in_several_tokens() -> None:
    tokens = [token("dis", dis=0.5, sad=0.1), token("gusted", gusted=0.4, like=0.5), token(".", **{".": 1.0})]
    assert told(tokens, ("disgusted", "sad"), guided=False) == {"disgusted": 0.2, "sad": 0.1}


def test_free_text_that_begins_with_something_else_tells_nothing() -> None:
    tokens = [token("I", I=0.9), token(" feel", _feel=0.9), token(" sad", _sad=0.9)]
    assert told(tokens, ("sad",), guided=False) == {}


def test_an_answer_in_an_object_is_read_where_its_value_begins() -> None:
    tokens = [
        token('{"emotion": "', **{'{"emotion": "': 0.9}),
        token("sad", sad=0.6, happy=0.4),
        token('"}', **{'"}': 1.0}),
    ]
    assert told(tokens, ("sad", "happy"), guided=True, start=13) == {"sad": 0.6, "happy": 0.4}
    glued = [token('{"emotion":', **{'{"emotion":': 0.9}), token('"sad', **{'"sad': 0.6, '"happy': 0.2, "sad": 0.1})]
    assert told(glued, ("sad", "happy"), guided=True, start=12) == {"sad": 0.75, "happy": 0.25}


@pytest.mark.parametrize("start", [0, 3, 50])
def test_no_tokens_tell_nothing(start: int) -> None:
    assert told([], ("sad",), guided=True, start=start) == {}
