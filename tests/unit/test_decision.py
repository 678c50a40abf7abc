"""How votes become a decision, by each of the rules."""

import itertools
import math
import random
from collections.abc import Mapping, Sequence

import pytest

import emotions
from emotions import Wheel
from services.understanding import decision
from services.understanding.domain import Decision, Status, Vote
from services.understanding.reliability import Weights
from services.understanding.rules import DOUBT, NAMES, Counting, Pooled, Rule, rule_of


def vote(voter: str, distribution: Mapping[str, float], fine: bool = True) -> Vote[str]:
    return Vote(voter, Status.VOTED, distribution=distribution, fine=fine)


def abstained(voter: str) -> Vote[str]:
    return Vote(voter, Status.ABSTAINED, "no face in any frame")


def decide(votes: Sequence[Vote[str]], wheel: Wheel, rule: Rule | None = None) -> Decision[str]:
    """By majority unless told otherwise."""
    return decision.decide(votes, rule or rule_of("majority", wheel), wheel)


def test_the_class_with_most_votes_wins_over_the_surest_voter(wheel: Wheel) -> None:
    votes = [
        vote("a", {"joyful": 1.0}),
        vote("b", {"sad": 0.6, "happy": 0.4}),
        vote("c", {"lonely": 0.6, "happy": 0.4}),
    ]
    decision = decide(votes, wheel)
    assert (decision.face_class, decision.margin, decision.tie_break) == ("sad", 1, "none")
    assert decision.tally == {"happy": 1, "sad": 2}
    assert [vote.voter for vote in decision.votes] == ["a", "b", "c"]
    assert (decision.rule, decision.weights_version, decision.early) == ("majority", "", False)


def test_a_vote_counts_for_the_class_that_holds_most_of_its_mass_not_for_its_first_label(wheel: Wheel) -> None:
    spread = {"furious": 0.34, "sad": 0.22, "lonely": 0.22, "guilty": 0.22}
    assert decide([vote("a", spread)], wheel).face_class == "sad"


def test_the_distribution_is_the_mean_of_the_counted_votes(wheel: Wheel) -> None:
    decision = decide([vote("a", {"sad": 1.0}), abstained("b"), vote("c", {"sad": 0.5, "furious": 0.5})], wheel)
    assert decision.distribution["sad"] == pytest.approx(0.75)
    assert decision.distribution["furious"] == pytest.approx(0.25)
    assert sum(decision.distribution.values()) == pytest.approx(1)


def test_a_tie_goes_to_the_class_with_the_higher_mean_probability(wheel: Wheel) -> None:
    decision = decide([vote("a", {"sad": 0.6, "neutral": 0.4}), vote("b", {"furious": 0.9, "neutral": 0.1})], wheel)
    assert (decision.label, decision.margin, decision.tie_break) == ("furious", 0, "probability")


def test_the_mean_probability_is_over_all_votes_not_only_over_those_for_the_class(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.55, "furious": 0.45}), vote("b", {"furious": 0.5, "sad": 0.2, "neutral": 0.3})]
    decision = decide(votes, wheel)  # sad 0.375, angry 0.475
    assert (decision.face_class, decision.tie_break) == ("angry", "probability")


@pytest.mark.parametrize(("first", "second"), [("sad", "furious"), ("furious", "sad")])
def test_a_tie_of_probability_too_goes_to_the_voter_of_higher_priority(wheel: Wheel, first: str, second: str) -> None:
    decision = decide([vote("a", {first: 0.7, second: 0.3}), vote("b", {second: 0.7, first: 0.3})], wheel)
    assert (decision.label, decision.margin, decision.tie_break) == (first, 0, "priority")


def test_equal_probability_is_not_decided_by_rounding_noise(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.7, "furious": 0.3}), vote("b", {"furious": 0.7 + 1e-9, "sad": 0.3 - 1e-9})]
    assert decide(votes, wheel).tie_break == "priority"


def test_a_tie_behind_the_winner_breaks_nothing(wheel: Wheel) -> None:
    votes = [vote(name, {label: 1.0}) for name, label in zip("abcd", ("sad", "sad", "furious", "happy"), strict=True)]
    decision = decide(votes, wheel)
    assert (decision.face_class, decision.margin, decision.tie_break) == ("sad", 1, "none")


def test_those_who_abstain_fail_or_are_late_do_not_count(wheel: Wheel) -> None:
    silent: list[Vote[str]] = [
        Vote(status.value, status, "why", {"furious": 1.0}) for status in Status if status is not Status.VOTED
    ]
    decision = decide([*silent, vote("a", {"sad": 1.0})], wheel)
    assert decision.tally == {"sad": 1}
    assert (decision.margin, len(decision.votes)) == (1, 5)


def test_the_label_is_chosen_by_those_who_tell_labels_apart(wheel: Wheel) -> None:
    votes = [
        vote("face", {"sad": 1.0}, fine=False),
        vote("voice", {"sad": 1.0}, fine=False),
        vote("text", {"lonely": 0.6, "sad": 0.4}),
    ]
    decision = decide(votes, wheel)
    assert (decision.label, decision.face_class) == ("lonely", "sad")


def test_the_label_is_not_chosen_by_those_who_voted_for_another_class(wheel: Wheel) -> None:
    votes = [
        vote("a", {"sad": 0.55, "lonely": 0.45}),
        vote("b", {"sad": 0.55, "lonely": 0.45}),
        vote("c", {"furious": 0.51, "lonely": 0.49}),
    ]
    assert decide(votes, wheel).label == "sad"


def test_without_fine_voters_the_label_is_the_most_probable_of_the_class(wheel: Wheel) -> None:
    assert decide([vote("face", wheel.spread({"fear": 0.8, "sad": 0.2}), fine=False)], wheel).label == "fear"


def test_labels_that_tie_go_by_the_order_of_the_wheel(wheel: Wheel) -> None:
    first, second, *_ = wheel.members("sad")
    votes = [vote("a", {second: 0.5, first: 0.5}), vote("b", {second: 0.5, first: 0.5})]
    for rule in (rule_of(name, wheel) for name in NAMES):
        assert decide(votes, wheel, rule).label == first


def test_of_a_vote_on_classes_only_the_classes_are_believed(wheel: Wheel) -> None:
    assert decide([vote("face", {"lonely": 1.0}, fine=False)], wheel).label == "sad"


def test_a_vote_that_was_rounded_on_its_way_counts_as_one_whole_vote(wheel: Wheel) -> None:
    found = decide([vote("a", {"furious": 0.9996, "sad": 0.0008})], wheel)
    assert sum(found.distribution.values()) == pytest.approx(1, abs=1e-12)


def test_where_no_vote_counts_there_is_nothing_to_decide(wheel: Wheel) -> None:
    with pytest.raises(ValueError, match="no vote counts"):
        decide([abstained("a")], wheel)


@pytest.mark.parametrize("face_class", emotions.load().classes)
def test_a_class_by_itself_has_one_first_label_which_no_sum_of_spreads_can_change(
    wheel: Wheel, face_class: str
) -> None:
    first, *others = sorted((value for value in wheel.spread({face_class: 1.0}).values() if value), reverse=True)
    assert all(first > 1.01 * other for other in others)


# What stands on the record


def test_each_vote_tells_what_it_weighed_and_what_the_others_would_have_decided(wheel: Wheel) -> None:
    votes = [
        vote("a", {"sad": 1.0}),
        vote("b", {"furious": 0.9, "sad": 0.1}),
        abstained("c"),
        vote("d", {"lonely": 0.9, "happy": 0.1}),
    ]
    found = decide(votes, wheel)
    assert found.label == "sad"
    # Without a: furious and lonely, one vote each, 0.9 each in class angry and sad, and sad has b's 0.1 too.
    assert [(each.weight, each.label_without) for each in found.votes] == [
        (1, "lonely"),
        (1, "sad"),
        (0, ""),
        (1, "sad"),
    ]


def test_without_the_only_vote_nothing_would_have_won(wheel: Wheel) -> None:
    (only,) = decide([vote("a", {"sad": 1.0})], wheel).votes
    assert only.label_without == ""


def test_agreement_is_the_share_of_votes_for_the_winner_and_entropy_that_of_the_classes(wheel: Wheel) -> None:
    votes = [
        vote("a", {"sad": 1.0}),
        vote("b", {"lonely": 1.0}),
        vote("c", {"furious": 1.0}),
        vote("d", {"furious": 0.9, "sad": 0.1}),
    ]
    found = decide(votes, wheel)
    assert found.agreement == 0.5
    assert decide([*votes, abstained("e")], wheel).agreement == 0.5  # of those that counted
    share = found.distribution["sad"] + found.distribution["lonely"]
    assert found.entropy_bits == pytest.approx(-share * math.log2(share) - (1 - share) * math.log2(1 - share))
    assert decide(votes[:2], wheel).entropy_bits == 0  # two labels, one class
    assert decide([vote("a", dict.fromkeys(wheel.classes, 1 / 8))], wheel).entropy_bits == pytest.approx(3)


# Weighted


def weighted(wheel: Wheel, **votes: float | Mapping[str, float]) -> Counting:
    """A rule under which a voter weighs the same for every class, or what is given per class; others weigh 0.5."""
    tables = {
        name: {each: weight.get(each, 0.5) if isinstance(weight, Mapping) else weight for each in wheel.classes}
        for name, weight in votes.items()
    }
    return Counting("weighted", Weights("test-1", tables, {}, dict.fromkeys(wheel.classes, 0.5)), wheel)


def test_one_voter_that_weighs_more_than_two_wins_over_both(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 1.0}), vote("b", {"furious": 1.0}), vote("c", {"annoyed": 1.0})]
    found = decide(votes, wheel, weighted(wheel, a=2.0, b=0.9, c=0.9))
    assert (found.label, found.rule, found.weights_version) == ("sad", "weighted", "test-1")
    assert dict(found.tally) == {"sad": 2.0, "angry": pytest.approx(1.8)}
    assert found.margin == pytest.approx(0.2)
    assert [each.weight for each in found.votes] == [2.0, 0.9, 0.9]
    assert decide(votes, wheel).face_class == "angry"


def test_the_majority_knows_no_weights(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 1.0}), vote("b", {"furious": 1.0}), vote("c", {"annoyed": 1.0})]
    found = decide(votes, wheel, rule_of("majority", wheel, weighted(wheel, a=9.0).weights))
    assert (found.face_class, found.weights_version) == ("angry", "")


def test_a_voter_may_be_trusted_on_one_class_and_not_on_another(wheel: Wheel) -> None:
    rule = weighted(wheel, a={"sad": 3.0, "happy": 0.1}, b=1.0)
    assert decide([vote("a", {"sad": 1.0}), vote("b", {"furious": 1.0})], wheel, rule).label == "sad"
    assert decide([vote("a", {"happy": 1.0}), vote("b", {"furious": 1.0})], wheel, rule).label == "furious"


def test_a_voter_without_weights_of_its_own_has_the_default(wheel: Wheel) -> None:
    found = decide([vote("new", {"sad": 1.0}), vote("a", {"furious": 1.0})], wheel, weighted(wheel, a=0.4))
    assert (found.label, found.votes[0].weight) == ("sad", 0.5)


def test_among_the_labels_of_the_class_the_heavier_voter_is_heard_more(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.7, "lonely": 0.3}), vote("b", {"lonely": 0.9, "sad": 0.1})]
    assert decide(votes, wheel, weighted(wheel, a=3.0, b=1.0)).label == "sad"
    assert decide(votes, wheel, weighted(wheel, a=1.0, b=1.0)).label == "lonely"


def test_equal_weights_tie_like_a_majority(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.6, "neutral": 0.4}), vote("b", {"furious": 0.9, "neutral": 0.1})]
    found = decide(votes, wheel, weighted(wheel, a=0.1 + 0.2, b=0.3))  # not the same number, but the same weight
    assert (found.label, found.tie_break) == ("furious", "probability")
    assert found.margin == pytest.approx(0)


# Pooled


def test_a_pool_is_sure_of_what_all_find_likely_though_nobody_puts_it_first(wheel: Wheel) -> None:
    votes = [
        vote("a", {"sad": 0.5, "fear": 0.45, "happy": 0.05}),
        vote("b", {"furious": 0.5, "fear": 0.45, "happy": 0.05}),
    ]
    found = decide(votes, wheel, rule_of("pooled", wheel))
    assert (found.label, found.agreement, found.tie_break) == ("fear", 0.0, "none")
    assert found.margin == pytest.approx(found.tally["fear"] - max(found.tally["sad"], found.tally["angry"]))
    assert [each.weight for each in found.votes] == [0.5, 0.5]


def test_voters_who_agree_are_pooled_to_what_they_say_but_for_the_doubt(wheel: Wheel) -> None:
    said = {"sad": 0.5, "lonely": 0.2, "furious": 0.3}
    for count in (1, 3):
        found = decide([vote(name, said) for name in "abc"[:count]], wheel, rule_of("pooled", wheel))
        assert found.tally["sad"] == pytest.approx(0.7 * (1 - DOUBT) + DOUBT / 8)
        assert found.tally["happy"] == pytest.approx(DOUBT / 8)
        assert sum(found.distribution.values()) == pytest.approx(1)
        assert wheel.gather(found.distribution) == pytest.approx(dict(found.tally))


def test_a_vote_that_is_all_on_one_label_is_no_veto(wheel: Wheel) -> None:
    votes = [vote("a", {"happy": 1.0}), *(vote(name, {"sad": 0.8, "happy": 0.2}) for name in "bcdef")]
    found = decide(votes, wheel, rule_of("pooled", wheel))
    assert found.face_class == "sad"
    assert all(0 < value < 1 for value in found.distribution.values())
    assert (math.isfinite(found.entropy_bits), math.isfinite(found.margin)) == (True, True)


def test_the_spread_of_a_vote_on_classes_moves_no_label_in_the_pool(wheel: Wheel) -> None:
    said = vote("text", {"devastated": 0.5, "sad": 0.2, "furious": 0.3})
    face = vote("face", wheel.spread({"sad": 0.9, "neutral": 0.1}), fine=False)
    rule = rule_of("pooled", wheel)
    alone, both = decide([said], wheel, rule), decide([face, said], wheel, rule)
    assert (alone.label, both.label) == ("devastated", "devastated")
    close = vote("text", {"devastated": 0.36, "sad": 0.34, "furious": 0.3})
    assert decide([face, close], wheel, rule).label == "devastated"
    assert both.tally["sad"] > alone.tally["sad"]
    ratio = [each.distribution["devastated"] / each.distribution["sad"] for each in (alone, both)]
    assert ratio[0] == pytest.approx(ratio[1])


def test_in_the_pool_a_class_of_one_label_is_not_favoured_over_a_class_of_many(wheel: Wheel) -> None:
    # Label by label neutral would win: 0.45 beside thirteen happy labels that share 0.55.
    face = vote("face", wheel.spread({"happy": 0.55, "neutral": 0.45}), fine=False)
    assert decide([face, face], wheel, rule_of("pooled", wheel)).label == "happy"


def test_who_gives_the_class_next_to_nothing_has_next_to_no_say_on_its_labels(wheel: Wheel) -> None:
    sure = [vote(name, {"lonely": 0.6, "sad": 0.4}) for name in "ab"]
    other = vote("c", {"furious": 0.998, "sad": 0.002})  # within the class all on sad
    assert decide([*sure, other], wheel, rule_of("pooled", wheel)).label == "lonely"


def test_the_exponents_of_a_pool_say_whom_it_believes(wheel: Wheel) -> None:
    votes = [vote("a", {"sad": 0.9, "furious": 0.1}), vote("b", {"furious": 0.9, "sad": 0.1})]
    rule = Pooled(Weights("test-1", {}, {"a": 3.0}, pool_default=1.0), wheel)
    found = decide(votes, wheel, rule)
    assert (found.label, [each.weight for each in found.votes]) == ("sad", [0.75, 0.25])


def test_a_tie_in_the_pool_goes_to_the_voter_of_higher_priority(wheel: Wheel) -> None:
    first, second = {"sad": 0.7, "furious": 0.3}, {"furious": 0.7, "sad": 0.3}
    for one, two, label in ((first, second, "sad"), (second, first, "furious")):
        found = decide([vote("a", one), vote("b", two)], wheel, rule_of("pooled", wheel))
        assert (found.label, found.tie_break) == (label, "priority")
        assert found.margin == pytest.approx(0)


def test_a_tie_in_the_pool_goes_first_to_the_class_that_is_likelier_on_average(wheel: Wheel) -> None:
    low, high = 0.1, 0.6
    # With the doubt, its square is the product of the other two.
    middle = (math.sqrt((low * 0.92 + 0.01) * (high * 0.92 + 0.01)) - 0.01) / 0.92
    votes = [
        vote("a", {"furious": middle, "sad": low, "neutral": 0.3, "happy": 0.6 - middle}),
        vote("b", {"furious": middle, "sad": high, "fear": 0.4 - middle}),
    ]
    found = decide(votes, wheel, rule_of("pooled", wheel))
    assert (found.label, found.tie_break) == ("sad", "probability")
    assert (low + high) / 2 > middle


# All rules


def a_vote(chance: random.Random, voter: str, wheel: Wheel) -> Vote[str]:
    """Any vote: on labels or classes, on one or spread out; often with others' values, so that ties come about."""
    fine = chance.random() < 0.6
    names = chance.sample(list(wheel.labels if fine else wheel.classes), chance.randint(1, 4))
    shares = [chance.choice((1, 1, 2, 3)) for _ in names]
    said = {name: share / sum(shares) for name, share in zip(names, shares, strict=True)}
    return vote(voter, said if fine else wheel.spread(said), fine)


def rules(wheel: Wheel) -> list[Rule]:
    learned = Weights(
        "test-1",
        {"a": dict.fromkeys(wheel.classes, 2.0), "b": {each: 0.3 * len(each) for each in wheel.classes}},
        {"a": 1.5, "b": 0.3},
    )
    return [*(rule_of(name, wheel) for name in NAMES), *(rule_of(name, wheel, learned) for name in NAMES[1:])]


def test_the_order_of_the_votes_matters_only_where_the_record_says_that_priority_broke_a_tie(wheel: Wheel) -> None:
    chance = random.Random(1)
    ties = dict.fromkeys(("none", "probability", "priority"), 0)
    for _ in range(150):
        votes = [a_vote(chance, name, wheel) for name in "abcd"]
        for rule in rules(wheel):
            found = decide(votes, wheel, rule)
            ties[found.tie_break] += 1
            for order in itertools.islice(itertools.permutations(votes), 1, None, 7):
                other = decide(order, wheel, rule)
                assert (other.tally, other.distribution) == (found.tally, found.distribution)
                assert other.tie_break == found.tie_break
                if found.tie_break != "priority":
                    assert (other.label, other.face_class) == (found.label, found.face_class)
    assert min(ties.values()) > 10, ties


def test_a_decision_is_whole_by_every_rule(wheel: Wheel) -> None:
    chance = random.Random(2)
    for _ in range(300):
        votes = [a_vote(chance, name, wheel) for name in "abcd"[: chance.randint(1, 4)]]
        for rule in rules(wheel):
            found = decide(votes, wheel, rule)
            assert wheel.label(found.label).coarse == found.face_class
            assert found.tally[found.face_class] == pytest.approx(max(found.tally.values()))
            assert sum(found.distribution.values()) == pytest.approx(1)
            assert found.margin >= -1e-9
            assert 0 <= found.agreement <= 1
            assert 0 <= found.entropy_bits <= 3 + 1e-9
            assert all(each.weight > 0 and (len(votes) == 1) == (each.label_without == "") for each in found.votes)


def test_a_rule_that_there_is_not_is_refused_with_those_there_are(wheel: Wheel) -> None:
    with pytest.raises(ValueError, match="'median' is no rule; use one of: majority, weighted, pooled"):
        rule_of("median", wheel)
