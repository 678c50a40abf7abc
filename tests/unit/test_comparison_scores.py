import pytest

from orchestrator.comparison.scores import distinct, hits, tokens


def test_distinct_words_are_counted_per_token() -> None:
    replies = [tokens("I am here. I am fine!"), tokens("I am here.")]
    assert distinct(replies, 1) == pytest.approx(4 / 9)  # i, am, here, fine
    assert distinct(replies, 2) == pytest.approx(4 / 9)  # i am, am here, here i, am fine


def test_no_pair_of_words_crosses_from_one_reply_into_the_next() -> None:
    assert distinct([["a"], ["b"], ["c"]], 2) == 0


def test_a_reply_that_repeats_itself_is_less_distinct() -> None:
    once, again = tokens("that sounds hard"), tokens("hard hard hard")
    assert distinct([once], 1) == 1
    assert distinct([again], 1) == pytest.approx(1 / 3)
    assert distinct([again], 2) == pytest.approx(1 / 3)


def test_without_a_word_nothing_is_distinct() -> None:
    assert distinct([tokens("..."), tokens("")], 1) is None


def test_words_are_split_without_case_and_punctuation_and_without_spaces_where_none_are_written() -> None:
    assert tokens("Don't worry, it\u2019s OK - really!") == ["don't", "worry", "it\u2019s", "ok", "really"]
    assert tokens("我很好。") == ["我", "很", "好"]
    assert tokens("안녕 하세요") == ["안녕", "하세요"]


def test_hit_is_the_share_of_labelled_turns_that_were_decided_as_labelled() -> None:
    found = hits([("joy", "joy"), ("joy", "anger"), ("fear", None), ("anger", "anger")])
    assert (found.total, found.count) == (2, 3)
    assert hits([("joy", None)]).mean is None
