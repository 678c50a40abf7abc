"""An early decision is the decision that all votes would have come to, whatever those still missing would say."""

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

import emotions
from emotions import Wheel
from services.understanding.decision import Missing, decide, settled
from services.understanding.domain import Status, Vote
from services.understanding.reliability import EQUAL, Weights
from services.understanding.rules import NAMES, rule_of

VOTERS = "abcdef"
LEARNED = Weights(
    "test-1",
    {
        "a": {each: 0.4 + 0.35 * place for place, each in enumerate(emotions.load().classes)},
        "b": {each: 2.6 - 0.3 * place for place, each in enumerate(emotions.load().classes)},
        "c": dict.fromkeys(emotions.load().classes, 0.05),
    },
    {"a": 1.4, "b": 0.8, "c": 0.05},
    votes_default={each: 0.9 - 0.1 * place for place, each in enumerate(emotions.load().classes)},
    pool_default=0.5,
)


def vote(voter: str, distribution: Mapping[str, float], fine: bool = True) -> Vote[str]:
    return Vote(voter, Status.VOTED, distribution=distribution, fine=fine)


def all_on(missing: Missing, label: str, wheel: Wheel) -> Vote[str]:
    """The vote of one who is sure of `label`, or of its class when it tells classes only."""
    if missing.fine:
        return vote(missing.voter, {label: 1.0})
    return vote(missing.voter, wheel.spread({wheel.label(label).coarse: 1.0}), fine=False)


def any_vote(chance: random.Random, voter: str, fine: bool, around: str, wheel: Wheel) -> Vote[str]:
    """A vote that often agrees with `around`, may be all on one name or spread out, may abstain or fail."""
    if chance.random() < 0.15:
        return Vote(voter, chance.choice((Status.ABSTAINED, Status.FAILED, Status.LATE)), "why")
    names = chance.sample(list(wheel.labels if fine else wheel.classes), chance.randint(1, 5))
    if chance.random() < 0.7:
        names[0] = around if fine else wheel.label(around).coarse
    shares = {name: chance.random() ** 3 for name in names}
    shares[names[0]] += chance.choice((0, 1, 9, 99))
    total = sum(shares.values())
    said = {name: share / total for name, share in shares.items()}
    return vote(voter, said if fine else wheel.spread(said), fine)


def answers(chance: random.Random, missing: Sequence[Missing], around: str, wheel: Wheel) -> Iterator[list[Vote[str]]]:
    """What those who are missing may say: all against the result in concert, nothing at all, and at random."""
    for label in {*wheel.classes, *wheel.members(wheel.label(around).coarse)}:
        yield [all_on(each, label, wheel) for each in missing]
    yield [Vote(each.voter, Status.ABSTAINED, "why") for each in missing]
    for _ in range(6):
        # One that may tell labels apart may also vote on classes.
        yield [
            any_vote(chance, each.voter, each.fine and chance.random() < 0.7, around, wheel)
            if chance.random() < 0.5
            else all_on(each, chance.choice(list(wheel.labels)), wheel)
            for each in missing
        ]


@pytest.mark.parametrize(
    ("name", "weights"),
    [("majority", EQUAL), ("weighted", EQUAL), ("weighted", LEARNED), ("pooled", EQUAL), ("pooled", LEARNED)],
)
def test_whatever_the_missing_voters_say_a_settled_result_stands(wheel: Wheel, name: str, weights: Weights) -> None:
    chance = random.Random(3)
    rule = rule_of(name, wheel, weights)
    found = 0
    for _ in range(700):
        around = chance.choice(list(wheel.labels))
        voters = {voter: chance.random() < 0.6 for voter in VOTERS[: chance.randint(2, 6)]}
        late = chance.sample(list(voters), chance.randint(1, len(voters) - 1))
        missing = [Missing(voter, voters[voter]) for voter in late]
        votes = {name: any_vote(chance, name, voters[name], around, wheel) for name in voters if name not in late}
        if not settled(list(votes.values()), missing, 1, rule, wheel):
            continue
        found += 1
        early = decide(list(votes.values()), rule, wheel)
        for more in answers(chance, missing, early.label, wheel):
            complete = votes | {each.voter: each for each in more}
            last = decide([complete[voter] for voter in voters], rule, wheel)
            assert (last.label, last.face_class, last.tie_break) == (early.label, early.face_class, "none")
    assert found > 30


@pytest.mark.parametrize("name", NAMES)
def test_a_result_that_every_voter_agrees_on_is_settled_before_the_last_vote(wheel: Wheel, name: str) -> None:
    votes = [vote(voter, {"sad": 0.96, "lonely": 0.02, "happy": 0.02}) for voter in "abc"]
    rule = rule_of(name, wheel)
    assert settled(votes, [Missing("d")], 1, rule, wheel)
    assert settled(votes, [Missing("d"), Missing("e", fine=False)], 1, rule, wheel)
    assert not settled(votes, [Missing("d"), Missing("e"), Missing("f")], 1, rule, wheel)


def test_a_majority_is_settled_when_a_tie_cannot_come_about_any_more(wheel: Wheel) -> None:
    majority = rule_of("majority", wheel)
    votes = [vote(voter, {"sad": 1.0}) for voter in "abc"]
    others = [Missing(voter, fine=False) for voter in "defg"]
    assert settled(votes, others[:2], 1, majority, wheel)
    assert not settled(votes, others[:3], 1, majority, wheel)  # three for another class would tie
    assert not settled([*votes, vote("d", {"furious": 1.0})], others[1:3], 1, majority, wheel)


def test_a_voter_on_classes_cannot_change_a_label_that_one_on_labels_chose(wheel: Wheel) -> None:
    majority = rule_of("majority", wheel)
    votes = [vote("a", {"lonely": 0.51, "sad": 0.49}), vote("b", {"sad": 1.0}, fine=False)]
    assert settled(votes, [Missing("face", fine=False)], 1, majority, wheel)
    assert not settled(votes, [Missing("face", fine=True)], 1, majority, wheel)
    assert not settled(votes[1:] * 2, [Missing("text", fine=True)], 1, majority, wheel)
    assert settled(votes[1:] * 2, [Missing("face", fine=False)], 1, majority, wheel)


def test_a_label_is_settled_when_its_lead_is_more_than_the_missing_can_add(wheel: Wheel) -> None:
    majority = rule_of("majority", wheel)
    near = [vote(voter, {"sad": 0.6, "lonely": 0.4}) for voter in "abcd"]
    clear = [vote(voter, {"sad": 0.7, "lonely": 0.3}) for voter in "abcd"]
    assert not settled(near, [Missing("e")], 1, majority, wheel)
    assert settled(clear, [Missing("e")], 1, majority, wheel)
    complete = decide([*near, vote("e", {"lonely": 1.0})], majority, wheel)
    assert complete.label == "lonely"  # near was near indeed


def test_nothing_is_settled_before_the_quorum_is_there(wheel: Wheel) -> None:
    votes = [vote(voter, {"sad": 1.0}) for voter in "abc"]
    majority = rule_of("majority", wheel)
    assert settled(votes, [Missing("d")], 3, majority, wheel)
    assert not settled(votes, [Missing("d")], 4, majority, wheel)
    assert not settled([], [Missing("d")], 0, majority, wheel)


def test_a_heavy_voter_that_is_missing_keeps_a_weighted_vote_open(wheel: Wheel) -> None:
    weights = Weights("test-1", {"heavy": dict.fromkeys(wheel.classes, 3.0)}, {})
    rule = rule_of("weighted", wheel, weights)
    votes = [vote(voter, {"sad": 1.0}) for voter in "ab"]
    assert settled(votes, [Missing("light")], 1, rule, wheel)
    assert not settled(votes, [Missing("heavy")], 1, rule, wheel)
    assert settled([vote("heavy", {"sad": 1.0})], [Missing("a"), Missing("b")], 1, rule, wheel)
