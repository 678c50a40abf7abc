"""Track records: which voters count, which are waited for, and what liars cannot do."""

import itertools
from collections.abc import Callable, Mapping

import pytest
from prometheus_client import REGISTRY

from emotions import Wheel
from services.common.metrics import VARIANT
from services.understanding.decision import decide
from services.understanding.domain import Reliability, Standing, Status
from services.understanding.rules import rule_of
from services.understanding.track_record import NEW_VOTES, RECORDS_MAX, TrackRecords
from tests.track_records import Says, Traffic, always, draw, in_concert, right, vote

HONEST = {"a": right(0.7), "b": right(0.65), "c": right(0.6)}
TWO_HONEST = {"a": right(0.7), "b": right(0.65)}


def at_random(truth: str, chance: object) -> str:
    return draw(chance)  # type: ignore[arg-type]  # of the traffic


LIARS: dict[str, Callable[[], Says]] = {
    "always happy": lambda: always("happy"),
    "at random": lambda: at_random,
    "in concert": in_concert,
}


def of_a_panel(wheel: Wheel, statuses: Mapping[str, Status], records: TrackRecords) -> None:
    """Enter one message, undecided."""
    records.reliabilities([(name, VARIANT) for name in statuses])
    records.observe([vote(name, "sad", status) for name, status in statuses.items()], None)


def standing(records: TrackRecords, name: str) -> Standing:
    return records.reliabilities([(name, VARIANT)])[name].standing


# Who counts


def test_at_first_all_are_new_alike_and_count(wheel: Wheel) -> None:
    traffic = Traffic(wheel, HONEST)
    assert set(traffic.reliabilities().values()) == {Reliability(None, 0, 0, 0, Standing.COUNTED)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_honest_voters_always_count(wheel: Wheel, seed: int) -> None:
    traffic = Traffic(wheel, HONEST, seed)
    traffic.run(500)
    assert traffic.ever_on_probation() == set()
    assert all((each.agreement or 0) > 0.3 for each in traffic.reliabilities().values())


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", LIARS)
def test_a_liar_of_four_is_put_on_probation_and_no_other(wheel: Wheel, kind: str, seed: int) -> None:
    traffic = Traffic(wheel, {**HONEST, "liar": LIARS[kind]()}, seed)
    traffic.run(300)
    assert traffic.ever_on_probation() == {"liar"}
    assert traffic.on_probation() == {"liar"}


def test_a_voter_that_is_always_happy_counts_for_fewer_than_forty_messages(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {**HONEST, "liar": always("happy")})
    traffic.run(40)
    assert traffic.on_probation() == {"liar"}
    assert traffic.reliabilities()["liar"].agreement == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", LIARS)
def test_two_liars_of_five_are_put_on_probation_and_no_other(wheel: Wheel, kind: str, seed: int) -> None:
    traffic = Traffic(wheel, {"liar 1": LIARS[kind](), "liar 2": LIARS[kind](), **HONEST}, seed)
    traffic.run(400)
    assert traffic.ever_on_probation() == {"liar 1", "liar 2"}
    assert traffic.on_probation() == {"liar 1", "liar 2"}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", LIARS)
def test_two_liars_of_four_never_put_an_honest_voter_on_probation(wheel: Wheel, kind: str, seed: int) -> None:
    traffic = Traffic(wheel, {"liar 1": LIARS[kind](), "liar 2": LIARS[kind](), **TWO_HONEST}, seed)
    traffic.run(600)
    assert traffic.ever_on_probation() <= {"liar 1", "liar 2"}


def test_two_liars_of_four_that_are_always_happy_do_not_count(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {"liar 1": always("happy"), "liar 2": always("happy"), **TWO_HONEST})
    traffic.run(100)
    assert traffic.on_probation() == {"liar 1", "liar 2"}


def test_of_two_that_differ_neither_is_put_on_probation(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {"a": right(0.7), "b": always("happy")})
    traffic.run(400)
    assert traffic.ever_on_probation() == set()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_voter_that_agrees_a_little_is_not_lost(wheel: Wheel, seed: int) -> None:
    weak = right(0.35)  # kappa 0.2 with the others
    traffic = Traffic(wheel, {**HONEST, "face": weak}, seed)
    traffic.run(1000)
    assert traffic.ever_on_probation() == set()


def test_voters_that_agree_by_chance_only_put_nobody_on_probation(wheel: Wheel) -> None:
    # All messages are of one class, and the voters err independently.
    voters = {name: lambda truth, chance: right(0.7)("sad", chance) for name in "abcd"}
    traffic = Traffic(wheel, voters)
    traffic.run(500)
    assert traffic.ever_on_probation() == set()


def test_a_voter_that_turns_liar_loses_its_vote_and_gets_it_back_once_it_is_proven_again(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {**HONEST, "d": right(0.6)})
    traffic.run(200)
    assert traffic.ever_on_probation() == set()
    traffic.voters["d"] = always("happy")
    traffic.run(350)
    assert traffic.on_probation() == {"d"}
    traffic.voters["d"] = right(0.6)
    traffic.run(5)
    assert traffic.on_probation() == {"d"}
    traffic.run(150)
    assert traffic.on_probation() == set()


def test_a_voter_at_the_bar_does_not_go_to_and_fro(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {**HONEST, "d": right(0.12)})
    traffic.run(1000)
    of_d = [each["d"] for each in traffic.history]
    assert sum(one is not next_ for one, next_ in itertools.pairwise(of_d)) <= 6


def test_a_voter_that_is_mostly_called_off_is_not_judged(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {**HONEST, "liar": always("happy")})
    for _ in range(100):
        traffic.run(1)
        for _ in range(2):
            called_off = vote("liar", "", Status.CANCELLED)
            traffic.records.observe([called_off], None)
    assert traffic.ever_on_probation() == set()
    assert traffic.reliabilities()["liar"].messages == 100


# The new


def test_a_new_variant_is_on_probation_for_some_votes_where_others_are_proven(wheel: Wheel) -> None:
    traffic = Traffic(wheel, HONEST)
    traffic.run(100)
    traffic.variants["c"] = "b"
    found = traffic.reliabilities()["c"]
    assert (found.standing, found.is_new, found.messages) == (Standing.PROBATION, True, 0)
    traffic.run(NEW_VOTES - 1)
    assert traffic.on_probation() == {"c"}
    traffic.run(1)
    assert traffic.on_probation() == set()
    traffic.variants.clear()
    assert traffic.reliabilities()["c"].messages == 100


def test_a_new_liar_never_counts_for_long(wheel: Wheel) -> None:
    traffic = Traffic(wheel, HONEST)
    traffic.run(100)
    traffic.voters["liar"] = always("happy")
    traffic.run(200)
    counted = sum(each.get("liar") is Standing.COUNTED for each in traffic.history)
    assert counted < 20
    assert traffic.on_probation() == {"liar"}


def test_a_voter_that_only_abstained_so_far_is_not_new(wheel: Wheel) -> None:
    records = TrackRecords(wheel)
    of_a_panel(wheel, {"a": Status.VOTED, "face": Status.ABSTAINED}, records)
    traffic = Traffic(wheel, HONEST)
    traffic.records = records
    traffic.run(100)
    assert standing(records, "face") is Standing.COUNTED


# Who is waited for


def test_an_often_late_voter_is_not_waited_for_until_it_is_on_time_again(wheel: Wheel) -> None:
    records = TrackRecords(wheel)
    found = []
    for status, count in ((Status.LATE, 5), (Status.VOTED, 10), (Status.VOTED, 20)):
        for _ in range(count):
            of_a_panel(wheel, {"slow": status, "quick": Status.VOTED}, records)
        found.append(standing(records, "slow"))
    assert found == [Standing.NOT_WAITED_FOR, Standing.NOT_WAITED_FOR, Standing.COUNTED]
    assert standing(records, "quick") is Standing.COUNTED


@pytest.mark.parametrize("others", [Status.VOTED, Status.FAILED])
def test_a_voter_that_is_late_now_and_then_is_waited_for(wheel: Wheel, others: Status) -> None:
    records = TrackRecords(wheel)
    for number in range(100):
        of_a_panel(wheel, {"slow": Status.LATE if number % 4 == 0 else others}, records)
        assert standing(records, "slow") is Standing.COUNTED


def test_a_voter_that_is_late_with_all_that_it_can_read_is_not_waited_for(wheel: Wheel) -> None:
    records = TrackRecords(wheel)
    for number in range(40):
        of_a_panel(wheel, {"face": Status.LATE if number % 5 == 0 else Status.ABSTAINED}, records)
    assert standing(records, "face") is Standing.NOT_WAITED_FOR


# The record


def test_the_shares_and_the_messages_are_told(wheel: Wheel) -> None:
    records = TrackRecords(wheel)
    for status in (Status.VOTED, Status.ABSTAINED, Status.LATE, Status.FAILED, Status.CANCELLED):
        of_a_panel(wheel, {"a": status}, records)
    found = records.reliabilities([("a", VARIANT)])["a"]
    assert (found.messages, found.agreement) == (4, None)
    assert found.abstained == pytest.approx(0.25, abs=0.01)
    assert found.late == pytest.approx(0.5, abs=0.02)


def test_the_agreement_is_with_what_the_others_decide_and_not_with_oneself(wheel: Wheel) -> None:
    records, rule = TrackRecords(wheel), rule_of("majority", wheel)
    seats = [(name, VARIANT) for name in "ab"]
    for number in range(40):
        records.reliabilities(seats)
        # The first of two wins each tie; without it the second decides.
        votes = [vote("a", ("sad", "happy")[number % 2]), vote("b", ("sad", "happy")[number // 2 % 2])]
        records.observe(votes, decide(votes, rule, wheel))
    found = records.reliabilities(seats)
    assert [found[name].agreement for name in "ab"] == pytest.approx([0, 0], abs=0.1)


def test_an_operator_sees_the_record_of_each_variant(wheel: Wheel) -> None:
    traffic = Traffic(wheel, {"r-a": right(0.7), "r-b": right(0.6), "r-liar": always("happy")})
    traffic.run(60)

    def shown(name: str, voter: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(f"e3rg_panel_voter_{name}", {"voter": voter, "variant": VARIANT, **labels})

    assert [shown("standing", "r-liar", standing=each) for each in Standing] == [0, 1, 0]
    assert [shown("standing", "r-a", standing=each) for each in Standing] == [1, 0, 0]
    assert shown("agreement", "r-a") == pytest.approx(traffic.reliabilities()["r-a"].agreement)
    assert shown("messages", "r-a") == 60
    assert (shown("abstained_share", "r-a"), shown("late_share", "r-a")) == (0, 0)


def test_records_are_bounded_and_the_one_unused_for_longest_goes(wheel: Wheel) -> None:
    records = TrackRecords(wheel)
    for number in range(RECORDS_MAX + 1):
        of_a_panel(wheel, {f"many-{number}": Status.VOTED, "many-used": Status.VOTED}, records)
    labels = {"voter": "many-0", "variant": VARIANT}
    assert REGISTRY.get_sample_value("e3rg_panel_voter_messages", labels) is None
    assert records.reliabilities([("many-0", VARIANT)])["many-0"].messages == 0
    assert records.reliabilities([("many-used", VARIANT)])["many-used"].messages == RECORDS_MAX + 1
