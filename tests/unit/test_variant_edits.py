"""Changes of the table of variants, each with what it leaves behind."""

from functools import partial

import pytest

from orchestrator.variants import chart_values, edits, ramps
from orchestrator.variants.edits import Author, Edit, made
from services.common.errors import InvalidRequest
from services.common.variants.table import (
    HISTORY_MAX,
    Experiment,
    Guardrail,
    Ramp,
    Stage,
    State,
    Table,
    Variant,
    dump,
    parse,
)

AUTHOR = Author("ada", "to hear it", 100.0)
SERVING, DRAINING, OFF = State.SERVING, State.DRAINING, State.OFF

put = partial(edits.put, stage="tts", address="voice-c:50054")
remove = partial(edits.remove, stage="tts")
set_weights = partial(edits.set_weights, stage="tts")
set_state = partial(edits.set_state, stage="tts")
promote = partial(edits.promote, stage="tts")
rollback = partial(edits.rollback, stage="tts")
shadow = partial(edits.set_shadow, stage="tts")
ramp = partial(ramps.start, stage="tts", variant="b", every_s=60.0, at_s=100.0)


def table(**variants: tuple[float, State]) -> Table:
    """A table whose stage tts has these variants, the first one as the control."""
    made_of = {
        name: Variant(address=f"voice-{name}:50054", weight=weight, state=state)
        for name, (weight, state) in variants.items()
    }
    return Table(version=7, stages={"tts": Stage(control=next(iter(variants)), variants=made_of)})


def split(a: float, b: float, **more: tuple[float, State]) -> Table:
    return table(a=(a, SERVING), b=(b, SERVING), **more)


def seen(found: Table) -> dict[str, tuple[float, State]]:
    return {name: (each.weight, each.state) for name, each in found.stage("tts").variants.items()}


@pytest.mark.parametrize(
    ("before", "edit", "after", "summary"),
    [
        (
            split(90, 10),
            partial(put, variant="c"),
            {"a": (90, SERVING), "b": (10, SERVING), "c": (0, SERVING)},
            "tts: c added at voice-c:50054, 0 %",
        ),
        (
            split(90, 10),
            partial(put, variant="b"),
            {"a": (90, SERVING), "b": (10, SERVING)},
            "tts: b at voice-b:50054 -> voice-c:50054",
        ),
        (table(a=(100, SERVING), b=(0, OFF)), partial(remove, variant="b"), {"a": (100, SERVING)}, "tts: b removed"),
        (
            split(100, 0),
            partial(set_weights, weights={"b": 10}),
            {"a": (90, SERVING), "b": (10, SERVING)},
            "tts: a 100 -> 90 %; b 0 -> 10 %",
        ),
        (
            split(90, 10, c=(0, SERVING)),
            partial(set_weights, weights={"c": 33.3}),
            {"a": (56.7, SERVING), "b": (10, SERVING), "c": (33.3, SERVING)},
            "tts: a 90 -> 56.7 %; c 0 -> 33.3 %",
        ),
        (
            split(90, 10),
            partial(set_weights, weights={"a": 20, "b": 80}),
            {"a": (20, SERVING), "b": (80, SERVING)},
            "tts: a 90 -> 20 %; b 10 -> 80 %",
        ),
        (
            table(a=(100, SERVING), b=(0, OFF)),
            partial(set_weights, weights={"b": 10}),
            {"a": (90, SERVING), "b": (10, SERVING)},
            "tts: a 100 -> 90 %; b 0 -> 10 %, off -> serving",
        ),
        (
            split(90, 10),
            partial(set_state, variant="b", state="draining"),
            {"a": (100, SERVING), "b": (0, DRAINING)},
            "tts: a 90 -> 100 %; b 10 -> 0 %, serving -> draining",
        ),
        (
            table(a=(100, SERVING), b=(0, OFF)),
            partial(set_state, variant="b", state="serving"),
            {"a": (100, SERVING), "b": (0, SERVING)},
            "tts: b off -> serving",
        ),
        (
            split(85, 10, c=(5, SERVING)),
            partial(promote, variant="b"),
            {"a": (0, DRAINING), "b": (100, SERVING), "c": (0, SERVING)},
            "tts: control a -> b; a 85 -> 0 %, serving -> draining; b 10 -> 100 %; c 5 -> 0 %",
        ),
        (split(90, 10), partial(promote, variant="a"), {"a": (100, SERVING), "b": (0, SERVING)}, ""),
        (
            split(85, 10, c=(5, SERVING)),
            partial(rollback, variant="b"),
            {"a": (95, SERVING), "b": (0, OFF), "c": (5, SERVING)},
            "tts: a 85 -> 95 %; b 10 -> 0 %, serving -> off",
        ),
        (
            split(100, 0),
            partial(shadow, variant="b", share=5),
            {"a": (100, SERVING), "b": (0, SERVING)},
            "tts: b shadow",
        ),
        (
            table(a=(100, SERVING), b=(0, OFF)),
            partial(shadow, variant="b", share=5),
            {"a": (100, SERVING), "b": (0, SERVING)},
            "tts: b off -> serving, shadow 0 -> 5 %",
        ),
        (
            split(100, 0),
            partial(ramp, weights=(1, 10)),
            {"a": (99, SERVING), "b": (1, SERVING)},
            "tts: a 100 -> 99 %; b 0 -> 1 %; ramp of b goes on to 10 %, each after 60 s",
        ),
    ],
)
def test_a_change_makes_a_new_version_with_its_record(
    before: Table, edit: Edit, after: dict[str, tuple[float, State]], summary: str
) -> None:
    changed = made(before, edit, AUTHOR)
    assert seen(changed) == after
    assert changed == parse(dump(changed))
    (record,) = changed.history
    assert (changed.version, record.version) == (8, 8)
    assert (record.by, record.why, record.at_s) == ("ada", "to hear it", 100.0)
    assert record.stages == before.stages
    assert record.summary.startswith(summary)


@pytest.mark.parametrize(
    "edit",
    [
        partial(put, variant="b", address="voice-b:50054"),
        partial(set_weights, weights={"b": 10}),
        partial(set_state, variant="b", state="serving"),
        partial(rollback, variant="c"),
        partial(shadow, variant="b", share=0),
        partial(edits.set_guardrail, stage="tts", limits=None),
        partial(ramps.stop, stage="tts"),
        partial(ramps.step, at_s=100.0),
    ],
)
def test_a_change_after_which_nothing_is_different_makes_no_version(edit: Edit) -> None:
    before = split(90, 10, c=(0, OFF))
    assert made(before, edit, AUTHOR) is before


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (partial(put, variant="B"), "put.variant: 'B' is no name; use 1 to 40 of a-z"),
        (partial(put, variant="d", address="voice"), "put.address: 'voice' is no address; write host:port"),
        (partial(remove, variant="b"), "remove.variant: b is serving; set its state to off first"),
        (partial(remove, variant="a"), "remove.variant: a is the control of tts; promote another variant first"),
        (partial(remove, variant="z"), "remove.variant: tts has no variant 'z'; use one of: a, b, c; or put it"),
        (partial(set_weights, weights={}), "set.weights: empty; name a variant"),
        (partial(set_weights, weights={"z": 1}), "set.weights: tts has no variant 'z'"),
        (partial(set_weights, weights={"b": 101}), "set.weights.b: 101; use 0 to 100 percent"),
        (partial(set_weights, weights={"b": float("nan")}), "set.weights.b: nan; use 0 to 100 percent"),
        (partial(set_weights, weights={"b": 60, "c": 41}), "all but a, the control, sum to 101; make them 100 at most"),
        (partial(set_weights, weights={"a": 50, "b": 20}), "sum to 70; make them 100, or leave a, the control, out"),
        (partial(set_state, variant="b", state="on"), "state.state: 'on'; use one of: serving, draining, off"),
        (partial(set_state, variant="a", state="off"), "state.variant: a is the control of tts; promote another"),
        (partial(promote, variant="z"), "promote.variant: tts has no variant 'z'"),
        (partial(rollback, variant="a"), "a is the control of tts, and no variant before it serves or drains; promote"),
        (rollback, "rollback.variant: nothing of tts is left to take back; name a variant to set it off"),
        (partial(shadow, variant="b", share=-1), "shadow.share: -1; use 0 to 100 percent"),
        (partial(ramp, weights=(10, 10)), "ramp.weights: '10, 10'; use percents that rise"),
        (partial(ramp, weights=(0, 10)), "ramp.weights: '0, 10'; use percents that rise"),
        (partial(ramp, weights=tuple(range(1, 22))), "ramp.weights: 21 steps; use at most 20"),
        (partial(ramp, weights=(1,), every_s=0), "ramp.every_s: 0; use more than 0 seconds"),
        (partial(ramp, weights=(1,), variant="a"), "ramp.variant: a is the control of tts; name another variant"),
        (partial(ramp, variant="c", weights=(1, 95)), "it ends at 95, and the other variants leave 90; end there"),
        (partial(edits.set_guardrail, stage="tts", limits={"window_s": 1}), "guardrail: window_s: '1'"),
    ],
)
def test_a_wrong_change_is_refused_with_field_value_and_remedy(edit: Edit, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        made(split(90, 10, c=(0, SERVING)), edit, AUTHOR)
    assert problem in str(refused.value)


def test_no_more_variants_are_added_than_a_stage_may_have() -> None:
    full = Table()
    for number in range(15):
        full = put(full, variant=f"b{number}")
    with pytest.raises(InvalidRequest, match="at most 16"):
        put(full, variant="one-more")


def test_a_stage_that_the_table_lacks_begins_with_its_one_variant() -> None:
    changed = made(made(Table(), partial(put, variant="b"), AUTHOR), partial(set_weights, weights={"b": 10}), AUTHOR)
    assert seen(changed) == {"default": (90, SERVING), "b": (10, SERVING)}
    assert changed.version == 2


def test_the_control_that_was_promoted_is_taken_back_for_the_one_before() -> None:
    promoted = made(split(90, 10), partial(promote, variant="b"), AUTHOR)
    back = made(promoted, rollback, AUTHOR)
    assert seen(back) == {"a": (100, SERVING), "b": (0, OFF)}
    assert back.stage("tts").control == "a"
    # Who asks twice in a hurry takes nothing else back.
    with pytest.raises(InvalidRequest, match="nothing of tts is left to take back"):
        made(back, rollback, AUTHOR)


def test_promotions_are_taken_back_one_after_the_other() -> None:
    before = split(100, 0, c=(0, SERVING))
    for name in ("b", "c"):
        before = made(before, partial(promote, variant=name), AUTHOR)
    one = made(before, partial(rollback, variant="c"), AUTHOR)
    two = made(one, partial(rollback, variant="b"), AUTHOR)
    assert [each.stage("tts").control for each in (before, one, two)] == ["c", "b", "a"]
    assert seen(two) == {"a": (100, SERVING), "b": (0, OFF), "c": (0, OFF)}


def test_without_a_history_the_variant_that_drains_was_the_control_before() -> None:
    back = rollback(table(b=(100, SERVING), a=(0, DRAINING)), variant="b")
    assert (back.stage("tts").control, seen(back)["a"]) == ("a", (100, SERVING))


def test_the_variant_that_was_given_weight_last_is_taken_back() -> None:
    before = made(split(100, 0, c=(0, SERVING)), partial(set_weights, weights={"b": 10}), AUTHOR)
    before = made(before, partial(set_weights, weights={"c": 20}), AUTHOR)
    assert seen(made(before, rollback, AUTHOR)) == {"a": (90, SERVING), "b": (10, SERVING), "c": (0, OFF)}
    both = made(before, partial(set_weights, weights={"b": 20, "c": 30}), AUTHOR)
    with pytest.raises(InvalidRequest, match="the last change raised b and c; name the one to take back"):
        made(both, rollback, AUTHOR)


def test_a_ramp_goes_from_step_to_step_and_ends() -> None:
    running = made(split(100, 0), partial(ramp, weights=(1, 10, 100), turns_min=5), AUTHOR)
    assert running.ramp == Ramp(stage="tts", variant="b", weights=(10, 100), every_s=60, turns_min=5, next_at_s=160)
    second = made(running, partial(ramps.step, at_s=170.0), AUTHOR)
    assert second.ramp
    assert (seen(second)["b"], second.ramp.weights, second.ramp.next_at_s) == ((10, SERVING), (100,), 230)
    last = made(second, partial(ramps.step, at_s=240.0), AUTHOR)
    assert (seen(last), last.ramp) == ({"a": (0, SERVING), "b": (100, SERVING)}, None)
    assert last.history[-1].summary == "tts: a 90 -> 0 %; b 10 -> 100 %; ramp of b has ended"


@pytest.mark.parametrize(
    ("edit", "stops"),
    [
        (partial(set_weights, weights={"b": 5}), True),
        (partial(set_weights, weights={"c": 5}), True),
        (partial(promote, variant="b"), True),
        (partial(rollback, variant="b"), True),
        (partial(rollback, variant="c"), False),
        (partial(set_state, variant="b", state="draining"), True),
        (partial(ramps.stop, stage="tts"), True),
        (partial(put, variant="d"), False),
        (partial(shadow, variant="b", share=5), False),
        (partial(edits.set_guardrail, stage="tts", limits={}), False),
        (partial(edits.put, stage="video", variant="b", address="face-b:50055"), False),
    ],
)
def test_a_change_of_the_weights_stops_the_ramp_of_their_stage(edit: Edit, stops: bool) -> None:
    running = made(split(100, 0, c=(0, OFF)), partial(ramp, weights=(1, 10)), AUTHOR)
    changed = made(running, edit, AUTHOR)
    assert (changed.ramp is None) is stops
    assert ("ramp of b stopped" in changed.history[-1].summary) is stops


def test_one_ramp_runs_at_a_time() -> None:
    running = made(split(100, 0), partial(ramp, weights=(1, 10)), AUTHOR)
    other = edits.put(running, "video", "b", "face-b:50055")
    with pytest.raises(InvalidRequest, match="a ramp of tts runs; stop it first"):
        ramps.start(other, "video", "b", (1, 10), 60, 100)
    again = made(running, partial(ramp, weights=(2, 20)), AUTHOR)
    assert again.ramp
    assert again.ramp.weights == (20,)


def test_a_guardrail_has_defaults_and_goes_again() -> None:
    changed = made(Table(), partial(edits.set_guardrail, stage="tts", limits={"turns_min": 5}), AUTHOR)
    assert changed.guardrails == {"tts": Guardrail(turns_min=5)}
    assert changed == parse(dump(changed))
    gone = made(changed, partial(edits.set_guardrail, stage="tts", limits=None), AUTHOR)
    assert (gone.guardrails, gone.history[-1].summary) == ({}, "tts: guardrail removed")


def test_each_change_of_the_weights_begins_a_phase_of_the_experiment() -> None:
    experiment = Experiment(
        id="voices", stage="tts", hypothesis="", primary="rating", users_min=20, salt="salt-of-it", started_at_s=0
    )
    before = split(90, 10).model_copy(update={"experiment": experiment})
    for edit in (
        partial(set_weights, weights={"b": 20}),
        partial(put, variant="c"),
        partial(edits.put, stage="video", variant="b", address="face-b:50055"),
        partial(rollback, variant="b"),
    ):
        before = made(before, edit, AUTHOR)
    assert before.experiment
    assert before.experiment.phase == 3
    assert before.experiment.phases == ({"a": 90, "b": 10}, {"a": 80, "b": 20}, {"a": 100})


def test_the_history_keeps_the_last_changes() -> None:
    changed = split(100, 0)
    for number in range(HISTORY_MAX + 2):
        changed = made(changed, partial(set_weights, weights={"b": number + 1}), AUTHOR)
    assert [change.version for change in changed.history] == list(range(10, 10 + HISTORY_MAX))
    assert parse(dump(changed)) == changed


def test_the_values_of_the_chart_are_the_stages_that_are_different_as_yaml() -> None:
    before = edits.put(split(100, 0), "video", "b", "face-b:50055")
    changed = made(before, partial(ramp, weights=(12.5, 50)), AUTHOR)
    assert "        b: 12.5\n" in chart_values.written(before, changed)
    changed = made(changed, partial(edits.set_guardrail, stage="tts", limits={"turns_min": 5}), AUTHOR)
    changed = made(changed, partial(promote, variant="b"), AUTHOR)
    assert chart_values.written(before, changed) == (
        "variants:\n"
        "  stages:\n"
        "    tts:\n"
        '      control: "b"\n'
        "      weights:\n"
        "        b: 100\n"
        "      states:\n"
        '        a: "draining"\n'
        "  guardrails:\n"
        "    tts:\n"
        "      turnsMin: 5\n"
    )
