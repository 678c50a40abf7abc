"""What is older than its tenant wants to keep it goes with the next sweep, and nothing else does."""

import logging
from functools import partial

import pytest

from services.common.errors import Damaged, InvalidRequest, NotFound, NotReady
from services.memory import keys
from services.memory.domain import ClipKind, Retention
from services.memory.forgetting.erasing import Eraser
from services.memory.forgetting.expiring import Expired
from services.memory.forgetting.retention import DAYS_MAX, Retentions
from services.memory.forgetting.sweeping import EXPIRING_EVERY_S, STEPS_A_SWEEP, Sweeper
from services.memory.vectors.tidying import ERASURE_KEPT_S
from tests.sweeping import DAY_S, House
from tests.talking import TENANT, WAV, Clock, Replica, keys_of, killed_at, once, turn
from tests.talking import new as new_identity

MODEL = "a" * 64


@pytest.fixture
def house() -> House:
    return House()


def test_a_tenant_keeps_everything_for_ever_until_it_says_how_long(house: House) -> None:
    retentions = Retentions(house.store)
    assert retentions.get(TENANT) == Retention()
    house.memory.say(turn(1))
    before = keys_of(house.store)
    house.pass_days(DAYS_MAX)
    assert house.sweep() == Expired()
    assert keys_of(house.store) == before
    retentions.set(TENANT, Retention(turns_days=30, clips_days=7))
    assert retentions.get(TENANT) == Retention(30, 7, 0, 0)
    assert retentions.get("other") == Retention()
    retentions.set(TENANT, Retention())
    assert keys_of(house.store) == before


@pytest.mark.parametrize("field", ["turns_days", "clips_days", "derived_days", "audits_days"])
@pytest.mark.parametrize("days", [-1, DAYS_MAX + 1])
def test_a_time_that_is_too_long_or_none_is_refused(house: House, field: str, days: int) -> None:
    with pytest.raises(InvalidRequest, match=rf"^retention\.{field}: {days} days; use 1 to 36500, or 0"):
        house.keep(**{field: days})
    with pytest.raises(InvalidRequest, match=r"^tenant: "):
        house.keep("../x", **{field: 1})
    assert keys_of(house.store, "retentions") == []


def test_old_turns_go_with_their_vectors_and_clips_and_the_others_stay(house: House) -> None:
    memory = house.memory
    house.keep(turns_days=30)
    for number in (1, 2):
        memory.say(turn(number))
        memory.say(turn(number), person="")
    memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)
    memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-1", {"turn": 1.0})
    house.pass_days(20)
    memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-2", {"turn": 1.0})
    memory.say(turn(3))
    memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-3", {"turn": 1.0})
    memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-2", ClipKind.SPEECH, WAV + b"!")
    memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-3", ClipKind.SPEECH, WAV)
    assert house.sweep() == Expired()
    house.pass_days(11)
    assert house.sweep() == Expired(objects=8)
    assert memory.last() == ["turn-3"]
    assert [key.rpartition("-")[2] for key in keys_of(house.store, "/timings/")] == ["3"]
    assert memory.last(person="") == []
    assert [key.rpartition("-")[2] for key in memory.rows()] == ["3"]
    assert len(keys_of(house.store, "/clips/")) == 1
    assert b"question 1" not in b"".join(house.store.objects.values())
    assert memory.talks.clip(TENANT, "ada", "ann", "talk", "turn-3", ClipKind.SPEECH) == WAV


def test_times_of_a_turn_that_is_gone_go_when_they_are_old(house: House) -> None:
    house.keep(turns_days=1)
    house.memory.say(turn(1))
    house.memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-1", {"turn": 1.0})
    (key,) = keys_of(house.store, "/timings/")
    content = house.store.objects[key]
    house.pass_days(1.1)
    house.sweep()
    house.store.put(key, content)  # By a writer who was late.
    house.pass_days(0.9)
    house.sweep()
    assert keys_of(house.store, "/timings/") == [key]
    for _ in range(3):
        house.pass_days(1.1)
        house.sweep()
    assert keys_of(house.store, "/people/") == keys_of(house.store, "p-ann") == []


def test_a_late_repeat_of_an_old_turn_does_not_bring_it_back(house: House) -> None:
    house.keep(turns_days=1)
    house.memory.say(turn(1))
    house.memory.say(turn(2))
    house.pass_days(1.1)
    house.sweep()
    house.memory.say(turn(1))
    house.memory.say(turn(3))
    assert house.memory.last() == ["turn-3"]
    with pytest.raises(NotFound):
        house.memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)
    assert len(keys_of(house.store, "/turn-ids/")) == 3


def test_of_a_person_who_has_not_talked_for_long_nothing_is_left(house: House) -> None:
    before = keys_of(house.store)
    house.keep(turns_days=1)
    house.memory.add("bob")
    for identity in ("ada", "bob"):
        house.memory.say(turn(1), identity=identity)
    house.memory.say(turn(1), person="")
    for _ in range(5):
        house.pass_days(1.1)
        house.sweep()
    left = [key for key in keys_of(house.store) if "/bob" not in key and not key.startswith(keys.RETENTIONS)]
    assert left == before
    assert keys_of(house.store, "people") == []
    house.memory.say(turn(1))
    assert house.memory.last() == ["turn-1"]


def test_who_still_talks_with_one_identity_stays_known(house: House) -> None:
    house.keep(turns_days=1)
    house.memory.add("bob")
    house.memory.say(turn(1))
    for number in range(5):
        house.memory.say(turn(number), identity="bob")
        house.pass_days(0.9)
        house.sweep()
    page = house.memory.talks.turns(TENANT, "bob", "ann", "talk", 50, "").turns
    assert [each.id for each in page] == ["turn-4"]
    assert house.memory.last() == []


def test_who_talks_again_while_they_are_forgotten_stays_known(house: House) -> None:
    house.keep(turns_days=1)
    house.memory.say(turn(1))
    for _ in range(3):
        house.pass_days(1.1)
        entered = once(house.store, "delete", keys.person(TENANT, "p-ann"), lambda: house.memory.say(turn(2)))
        house.sweep()
    assert entered
    house.memory.say(turn(3))
    assert house.memory.last() == ["turn-2", "turn-3"]
    assert house.memory.talk().index in house.store.objects


def test_clips_may_go_earlier_than_their_turns(house: House) -> None:
    house.keep(clips_days=2)
    house.memory.say(turn(1))
    house.memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)
    house.pass_days(1.9)
    assert house.sweep() == Expired()
    house.pass_days(0.2)
    assert house.sweep() == Expired(objects=1)
    assert house.memory.last() == ["turn-1"]
    assert house.memory.rows() == ["talk/9999999999-turn-1"]


def test_what_models_derived_goes_and_is_derived_again(house: House) -> None:
    registry = house.memory.registry
    digest = registry.identity(TENANT, "ada").references[0].digest
    house.keep(derived_days=3)
    registry.keep_derived(TENANT, "ada", [digest], MODEL, b"rig")
    house.pass_days(3.1)
    assert house.sweep() == Expired(objects=1)
    with pytest.raises(NotFound):
        registry.derived(TENANT, "ada", [digest], MODEL)
    registry.keep_derived(TENANT, "ada", [digest], MODEL, b"rig")
    assert house.sweep() == Expired()
    assert registry.derived(TENANT, "ada", [digest], MODEL) == b"rig"


def test_records_of_erasures_go_when_they_are_old(house: House) -> None:
    house.keep(audits_days=10)
    for person in ("ann", "bob"):
        house.memory.say(turn(1), person=person)
        Eraser(house.store, 70, clock=house.time).person(TENANT, person, "", "the test")
        house.pass_days(6)
    house.sweep()
    (key,) = keys_of(house.store, "/audits/")
    assert b"person bob" in house.store.objects[key]


def test_each_tenant_has_its_own_retention(house: House) -> None:
    house.memory.registry.add("other", new_identity())
    house.memory.say(turn(1))
    house.memory.talks.remember("other", "ada", "ann", "talk", turn(1))
    house.keep("other", turns_days=1)
    house.pass_days(2)
    house.sweep()
    assert len(keys_of(house.store, "/turns/")) == 1
    assert house.memory.last() == ["turn-1"]


def test_ages_are_told_by_the_clock_of_the_store_alone(house: House) -> None:
    house.keep(turns_days=1)
    ahead = Replica(house.store, Clock(house.time.now_s + 400 * DAY_S))
    behind = Replica(house.store, Clock(house.time.now_s - 300 * DAY_S))
    ahead.say(turn(1))
    behind.say(turn(2))
    sweeper = Sweeper(house.store, Eraser(house.store, 70, clock=ahead.clock), ahead.vectors, Clock(1e12))
    assert sweeper.run_once() == Expired()
    assert house.memory.last() == ["turn-1", "turn-2"]


def test_what_is_damaged_is_logged_and_counted_and_does_not_stop_the_rest(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.memory.add("zoe")
    house.memory.add("bob")
    for identity in ("ada", "bob", "zoe"):
        house.memory.say(turn(1), identity=identity)
    (rows,) = [key for key in keys_of(house.store, "/vectors/") if "/bob/" in key]
    for tenant in ("a", TENANT):
        house.keep(tenant, turns_days=1)
    house.store.objects[keys.head(TENANT, "ada")] = b"broken"
    house.store.objects[rows] = b"broken"
    house.store.objects[keys.retention("a")] = b"broken"
    house.pass_days(2)
    house.memory.vectors.forget("")
    with caplog.at_level(logging.ERROR):
        assert house.sweep() == Expired(objects=1, failures=3)
    told = " ".join(str(record.why) for record in caplog.records)  # type: ignore[attr-defined]
    assert all(key in told for key in (keys.head(TENANT, "ada"), rows, keys.retention("a")))
    assert [key.split("/")[3] for key in keys_of(house.store, "/turns/")] == ["ada", "bob"]


def test_what_is_no_clip_by_its_name_is_named_and_does_not_stop_the_rest(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.memory.add("zoe")
    for identity in ("ada", "zoe"):
        house.memory.say(turn(1), identity=identity)
    (said,) = [key for key in keys_of(house.store, "/turns/") if "/ada/" in key]
    odd = f"{said.replace('/turns/', '/clips/')}/speech-{'0' * 64}"  # As an earlier version wrote them.
    house.store.objects[odd] = b"clip"
    house.keep(turns_days=1)
    house.pass_days(2)
    with caplog.at_level(logging.ERROR):
        assert house.sweep() == Expired(objects=1, failures=1)
    assert odd in str(caplog.records[-1].why)  # type: ignore[attr-defined]
    assert keys_of(house.store, "/turns/") == [said]


def test_a_sweep_ends_an_addition_that_was_killed(house: House) -> None:
    before = keys_of(house.store)
    assert killed_at(house.store, 5, lambda: house.memory.add("bob"))
    assert len(keys_of(house.store)) > len(before)
    house.pass_days(0.1)
    house.sweep()
    assert keys_of(house.store) == before


def test_a_sweep_killed_at_any_step_is_ended_by_the_next(house: House) -> None:
    for step in range(200):
        house = House()
        house.keep(turns_days=1)
        house.memory.say(turn(1))
        house.memory.say(turn(2), person="")
        house.memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)
        house.pass_days(0.6)
        house.memory.say(turn(3))
        house.pass_days(0.6)
        killed = killed_at(house.store, step, house.sweep)
        house.sweep()
        assert house.memory.last() == ["turn-3"]
        assert house.memory.last(person="") == []
        assert house.memory.rows() == ["talk/9999999998-turn-3"]
        assert len(keys_of(house.store, "/clips/")) == 0
        if not killed:
            assert step > 30
            return
    pytest.fail("the sweep never ended")


def test_what_the_vectors_keep_of_an_erasure_goes_too(house: House) -> None:
    house.keep(turns_days=1)
    house.memory.say(turn(1))
    house.pass_days(0.6)
    house.memory.say(turn(2))
    house.pass_days(0.6)
    house.sweep()
    assert len(keys_of(house.store, "/erased-")) == 1
    house.time.now_s += ERASURE_KEPT_S + 1
    house.memory.say(turn(3))
    house.sweep()
    assert keys_of(house.store, "/erased-") == []


def test_one_sweep_looks_at_so_many_identities_and_the_next_goes_on(house: House) -> None:
    house.keep(turns_days=1)
    content = house.store.objects[keys.head(TENANT, "ada")]
    for number in range(STEPS_A_SWEEP + 100):
        house.store.objects[keys.head(TENANT, f"a-{number}")] = content
    clock = Clock()
    sweeper = Sweeper(house.store, Eraser(house.store, 70, clock=house.time), house.memory.vectors, clock)
    read: list[int] = []
    for seconds in (0.0, 60.0, 60.0, 60.0, EXPIRING_EVERY_S):
        clock.now_s += seconds
        heads: list[str] = []
        house.store.before = partial(_note, heads)
        sweeper.run_once()
        read.append(len(heads))
    assert read == [STEPS_A_SWEEP - 1, 102, 0, 0, STEPS_A_SWEEP - 1]


def _note(heads: list[str], operation: str, key: str) -> None:
    if operation == "get" and "/identities/" in key:
        heads.append(key)


def test_a_sweep_that_finds_the_store_away_begins_again_with_the_next(house: House) -> None:
    house.keep(turns_days=1)
    house.memory.say(turn(1))
    house.pass_days(2)
    sweeper = house.sweeper()

    def fail(operation: str, key: str) -> None:
        if operation == "list" and "/people/" in key:
            raise NotReady("the store is away")

    house.store.before = fail
    with pytest.raises(NotReady):
        sweeper.run_once()
    house.store.before = lambda operation, key: None
    assert sweeper.run_once() == Expired(objects=1)


def test_a_sweep_ends_an_erasure_that_was_cut_short(house: House) -> None:
    assert killed_at(house.store, 9, lambda: Eraser(house.store, 70).identity(TENANT, "ada", "the test"))
    house.pass_days(0.1)
    house.sweep()
    assert [key for key in keys_of(house.store) if "/audits/" not in key] == [keys.erasing_identity(TENANT, "ada")]


def test_a_damaged_retention_is_never_served(house: House) -> None:
    house.store.objects[keys.retention(TENANT)] = b"broken"
    with pytest.raises(Damaged, match=keys.retention(TENANT)):
        Retentions(house.store).get(TENANT)
